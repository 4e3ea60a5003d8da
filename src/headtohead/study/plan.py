"""How many pairs and minutes does a study need?

The noise comes from complete pairs: a pilot of the study's first pairs, which count, moderated by other arms of the
same control (noise.py). Shortened runs are not used: their noise is 0.06 to 2.3 times that of complete runs. The pilot
goes on until the number of pairs is known within a factor of 1.5, or half of them are trained. After the study, the
forecast is compared with what happened.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from headtohead import stats
from headtohead.data.stored_json import DAMAGED
from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.outcome.metrics import absolute, change_span, change_text, read_amount
from headtohead.outcome.noise import noise_of_arms
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import files, store
from headtohead.run.events import Stage
from headtohead.run.executors.execution import Execution, train_all
from headtohead.run.locks import EXCLUSIONS, LockedPlan, write_lock
from headtohead.run.results import JsonObject
from headtohead.run.studies import has_study, read_study
from headtohead.stats.noise import Noise, moderated, pairs_range
from headtohead.study.analyses import USUAL_OTHER, was_shown
from headtohead.study.execution import StudyEvent, folder_of, record_of
from headtohead.study.layout import layout_of
from headtohead.study.lengths import runs_worth
from headtohead.study.noise import earlier_noise
from headtohead.study.study import Study
from headtohead.training.arm import run_specs
from headtohead.training.tasks import task_of

PILOT_PAIRS = stats.LEAST_PAIRS  # no study can decide with fewer
LIKELY = 0.8  # certainty of the range of pairs
MOST_PILOT = 24  # pairs of a pilot that goes on: the range is about NARROW then
NARROW = 1.5  # the pilot ends when the likely range lies within this factor of the forecast


@dataclass(frozen=True)
class ArmPlan(JsonObject):
    """How many pairs an arm needs to detect the effect; None: too many."""

    sd: float  # of the differences between paired runs
    sd_low: float  # 80 % interval
    sd_high: float
    sd_from: str  # what it was measured on
    pairs: int | None  # for 80 % power
    pairs_low: int | None
    pairs_high: int | None

    @property
    def is_narrow(self) -> bool:
        if self.pairs is None or self.pairs_low is None or self.pairs_high is None:
            return False
        return self.pairs_high <= NARROW * self.pairs and self.pairs <= NARROW * self.pairs_low

    @property
    def likely(self) -> str:
        """9 pairs, likely 7 to 14."""
        if self.pairs is None or self.pairs_low is None:
            return f"more than {stats.MOST_PAIRS:,} pairs"
        high = f"{self.pairs_high:,}" if self.pairs_high is not None else f"more than {stats.MOST_PAIRS:,}"
        certain = self.pairs_low == self.pairs_high
        return f"{self.pairs:,} pairs" + ("" if certain else f", likely {self.pairs_low:,} to {high}")


@dataclass(frozen=True)
class StudyPlan(JsonObject):
    """plan.json: how many pairs and minutes a study needs to detect an effect."""

    study: str
    effect: float  # in the unit of the metric
    control_mean: float
    metric: str
    arms: dict[str, ArmPlan]
    pairs_for_equivalence: int | None  # to call equal arms equivalent within the effect
    analyses: tuple[int, ...]  # of the study
    run_seconds: float
    jobs: int
    tables: int = 1  # a tuned study may have every variant twice: at its own best, and at the control's
    runs_before: int = 0  # for tuning and for noise floors
    floors: int = 0  # runs for noise floors in each pair

    @classmethod
    def from_json(cls, data: Any) -> StudyPlan:
        arms = {name: ArmPlan.from_json(arm) for name, arm in data["arms"].items()}
        return super().from_json({**data, "arms": arms, "analyses": tuple(data["analyses"])})

    @property
    def noisiest(self) -> str:
        """The arm that needs the most pairs."""
        return max(self.arms, key=lambda name: self.arms[name].sd)

    @property
    def of_noisiest(self) -> ArmPlan:
        return self.arms[self.noisiest]

    @property
    def pairs(self) -> int | None:
        return self.of_noisiest.pairs

    def minutes(self, which: str = "pairs") -> float | None:
        """The time if every arm is trained for the pairs that it needs: pairs, pairs_low or pairs_high."""
        counts = [getattr(arm, which) for arm in self.arms.values()]
        if None in counts:
            return None
        runs = self.runs_before + max(counts) * (1 + self.floors) + self.tables * sum(counts)
        return float(runs * self.run_seconds / self.jobs / 60)

    def to_json(self) -> dict[str, Any]:
        names = {"minutes": "pairs", "minutes_low": "pairs_low", "minutes_high": "pairs_high"}
        times = {name: self.minutes(which) for name, which in names.items()}
        return {**super().to_json(), "noisiest": self.noisiest, **self.of_noisiest.to_json(), **times}

    def lines(self) -> list[str]:
        effect, arm = change_text(self.metric, self.effect, signed=False), self.of_noisiest
        sd = change_text(self.metric, arm.sd, signed=False)
        sds = change_span(self.metric, arm.sd_low, arm.sd_high, signed=False, to=" to ")
        where = f" in the noisiest arm, {self.noisiest}" if len(self.arms) > 1 else ""
        lines = [
            f"noise: pairs differ by chance with sd {sd} of {self.metric} (likely {sds}){where}; from {arm.sd_from}",
            f"time: {duration(self.run_seconds)} a run, {self.jobs} at a time"
            + (f", {self.runs_before} runs for tuning and noise floors" if self.runs_before else ""),
            f"to detect an effect of {effect} with 80 % power: {arm.likely}{self._times()}",
        ]
        if len(self.arms) > 1:
            lines.append("by arm: " + "; ".join(f"{name} {a.likely}" for name, a in self.arms.items()))
        if arm.pairs is not None and len(self.analyses) > 1:
            points = ", ".join(map(str, self.analyses))
            lines.append(
                f"the study is analysed after {points} pairs and stops as soon as an arm is decided"
                + (f"; {self.analyses[-1]} pairs may not be enough" if arm.pairs > self.analyses[-1] else "")
            )
        needed = self.pairs_for_equivalence
        many = "more than 10,000 pairs" if needed is None else f"{needed:,} pairs"
        lines.append(f"to call equal arms equivalent within {effect}: {many}")
        return lines

    def _times(self) -> str:
        low, high = self.minutes("pairs_low"), self.minutes("pairs_high")
        if low is None:
            return "; ask for a larger effect"
        if high is None:
            return f"; {duration(60 * low)} or more"
        return f"; {duration(60 * low)}" + ("" if low == high else f" to {duration(60 * high)}")


class PlanStopped(KeyboardInterrupt):
    """The user stopped the pilot. Its runs are saved, and the same call continues."""


def plan_study(
    study: Study,
    effect: float | str,
    *,
    jobs: int | None = None,
    home: Path | None = None,
    listen: Callable[[StudyEvent], object] = lambda _: None,
) -> StudyPlan:
    """Forecast pairs and minutes for an effect, from complete pairs in the store or from a pilot."""
    if len(study.variants) < 2:
        raise InputError("this study compares nothing: h2h plan needs a study that varies something")
    read_amount(effect)  # before the pilot
    home, jobs = home or store.home(), jobs or os.cpu_count() or 1
    folder, how = folder_of(study, home), Execution(jobs=jobs, device="cpu").checked()
    earlier = earlier_noise(study, home)
    own = load_outcome(folder) if has_study(folder) else None
    names = [variant.name for variant in study.variants[1:]]
    noise = noise_of_arms(own, f"study {folder.name}") if own is not None else {}
    noise = {name: one for name, one in noise.items() if name in names}  # without earlier versions of an arm
    wanted = {name: max(PILOT_PAIRS, round(noise[name].free) + 1 if name in noise else 0) for name in names}
    wanted = {name: min(count, len(study.all_seeds)) for name, count in wanted.items()}
    outcome = own if own is not None and noise.keys() >= wanted.keys() and _has(noise, wanted) else None
    while True:
        if outcome is None:
            outcome = _pilot(study, wanted, how, home, listen)
            noise = noise_of_arms(outcome, "pilot")
        if not noise:
            raise InputError("no pair of the pilot was completed, so there is nothing to plan with: see h2h list runs")
        found = with_others(noise, earlier)
        mean = outcome.verdicts.control_mean
        forecast = forecast_from(study, found, effect, mean, run_seconds(study, outcome), jobs)
        more = {name: _more_pairs(arm, wanted[name], len(study.all_seeds)) for name, arm in forecast.arms.items()}
        if all(more[name] <= wanted[name] for name in more):
            break
        wanted, outcome = {**wanted, **more}, None
    store.write_json(folder / files.PLAN, forecast.to_json())
    return forecast


# -- the pilot ---------------------------------------------------------------------------------------------------------


def _has(noise: dict[str, Noise], wanted: dict[str, int]) -> bool:
    return all(noise[name].free + 1 >= count for name, count in wanted.items())


def with_others(noise: dict[str, Noise], earlier: dict[str, list[Noise]]) -> dict[str, Noise]:
    """The noise of each arm, moderated by that of the other arms and of earlier studies."""
    said = [f"{len(noise) - 1} other arm{'s' * (len(noise) > 2)}"] if len(noise) > 1 else []
    said += [f"study {name}" for name in earlier]
    past = [one for arms in earlier.values() for one in arms]
    return {
        name: moderated(own, [*(n for other, n in noise.items() if other != name), *past], " and ".join(said))
        for name, own in noise.items()
    }


def _more_pairs(arm: ArmPlan, trained: int, most: int) -> int:
    """How many pairs the pilot of an arm should have: half of those that the arm needs, unless it is narrow already."""
    if arm.pairs is None or arm.is_narrow:
        return trained
    return min(max(trained, math.ceil(arm.pairs / 2)), max(trained, MOST_PILOT), most)


def _pilot(
    study: Study, wanted: dict[str, int], how: Execution, home: Path, listen: Callable[[StudyEvent], object]
) -> Outcome:
    """Train the first complete pairs of each arm, which are the first of the study."""
    part = layout_of(study, {}, how.device, how.threads).part(wanted).without_floors()
    listen(Stage("runs", part.cells()))
    events = train_all(how.executor(), part.in_order(), home)
    while True:
        try:
            listen(next(events))
        except StopIteration as end:
            if not end.value:
                raise PlanStopped from None
            break
    folder = folder_of(study, home)
    return Outcome(folder, record_of(study, folder, part))


# -- forecast ----------------------------------------------------------------------------------------------------------


def run_seconds(study: Study, outcome: Outcome) -> float:
    """The time of one run, from complete runs."""
    rows = [row for row in outcome.all_rows if row.status == "complete"]
    times = [store.Record.at(outcome.home, row.run).times for row in rows]
    step = float(np.median([t.step_ms or 0.0 for t in times])) / 1000
    other = float(np.median([USUAL_OTHER if t.other_seconds is None else t.other_seconds for t in times]))
    return task_of(study.control).steps * step + other


def forecast_from(
    study: Study, noise: dict[str, Noise], effect: float | str, control_mean: float, seconds: float, jobs: int
) -> StudyPlan:
    """The plan that follows from the noise of each arm, the control's mean and the seconds of a run."""
    size, arms = absolute(effect, control_mean), len(study.variants) - 1
    alpha = study.design.planned

    def planned(noise: Noise) -> ArmPlan:
        low, high = noise.limit((1 - LIKELY) / 2), noise.limit((1 + LIKELY) / 2)
        return ArmPlan(noise.sd, low, high, noise.source, *pairs_range(noise, size, arms, alpha=alpha, likely=LIKELY))

    tuning = len(study.variants) * len(list(study.grid())) * study.tuning_seeds if study.tune else 0
    floors = sum(map(len, study.floors.values())) if study.is_sequential else 0
    most = max(one.sd for one in noise.values())
    return StudyPlan(
        study=study.folder_name,
        effect=size,
        control_mean=control_mean,
        metric=study.measured,
        arms={name: planned(one) for name, one in noise.items()},
        pairs_for_equivalence=stats.pairs_for_equivalence(size / most, arms, alpha=alpha)
        if most > 0
        else stats.LEAST_PAIRS,
        analyses=study.design.analyses,
        run_seconds=seconds,
        jobs=jobs,
        tables=2 if study.tune else 1,
        runs_before=tuning + floors + runs_worth(study.lengths),
        floors=0 if study.is_sequential else len(study.floors),
    )


def compare_with_plan(folder: Path, minutes: float, fresh: int) -> list[str]:
    """Compare the forecast with a call that trained `fresh` runs in `minutes`."""
    path = folder / files.PLAN
    if not path.is_file():
        return []
    try:
        plan = StudyPlan.from_json(store.read_json(path, "plan again"))
        forecast_sd = plan.of_noisiest.sd
        float(plan.run_seconds * plan.jobs + forecast_sd)
    except (InputError, *DAMAGED):
        return [f"{path} cannot be read, so the forecast is not compared with what happened"]
    lines = []
    if fresh:
        forecast = fresh * plan.run_seconds / plan.jobs / 60
        lines.append(
            f"forecast {duration(60 * forecast)} for {fresh} runs, took {duration(60 * minutes)} "
            f"({100 * (minutes / forecast - 1):+.0f} %)"
        )
    sds = [row.verdict.sd for row in load_outcome(folder).verdicts if math.isfinite(row.verdict.sd)]
    if sds and forecast_sd > 0:
        low, high = (change_text(plan.metric, x, signed=False) for x in (min(sds), max(sds)))
        span = low if low == high else change_span(plan.metric, min(sds), max(sds), signed=False, to=" to ")
        lines.append(f"forecast noise sd {change_text(plan.metric, forecast_sd, signed=False)}, measured {span}")
    return lines


# -- locking -----------------------------------------------------------------------------------------------------------


def lock_plan(study: Study, *, home: Path | None = None) -> tuple[LockedPlan, Path]:
    """Write and hash what the study asks and how, before its first verdict. The study then keeps no error in reserve
    for unplanned analyses. Returns the plan and its file."""
    home = home or store.home()
    folder = folder_of(study, home)
    if has_study(folder) and was_shown(read_study(folder)):
        raise InputError(
            f"verdicts of study {folder.name} were shown already, so its plan cannot be locked: give the study another "
            "name and other seeds, such as seeds=range(100, 120)"
        )
    design = study.design
    content = next(iter(run_specs(study.control, [study.all_seeds[0]], "cpu", 1).values())).arm.data.corpus.content
    data = study.control.data
    plan = LockedPlan(
        question=study.question,
        metric=study.measured,
        margin=study.margin,
        control=store.plain(study.control.to_json()),
        arms={variant.name: store.plain(variant.arm.to_json()) for variant in study.variants[1:]},
        analyses=list(design.analyses),
        rule=design.rule,
        alpha=design.alpha,
        seeds=list(study.all_seeds),
        tuning={"grid": {k: [str(v) for v in values] for k, values in study.tune.items()}, "seeds": study.tuning_seeds}
        if study.tune
        else {},
        exclusions=EXCLUSIONS,
        data={"spec": store.plain(data.to_json()), "content": content},
    )
    return plan, write_lock(folder, plan, datetime.now(UTC).isoformat(timespec="seconds"))
