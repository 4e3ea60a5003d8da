"""How many pairs and minutes does a study need?

The noise comes from complete pairs: those of the study itself, those of earlier studies with the same control, or a
pilot of a few complete pairs, which then count as the first pairs of the study. Shortened runs are not used: their
noise is 0.06 to 2.3 times that of complete runs. After the study, the forecast is compared with what happened.
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
from scipy import special

from headtohead import stats
from headtohead.data.stored_json import DAMAGED, read_json
from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.outcome.metrics import absolute, read_amount, text_of
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import files, store
from headtohead.run.events import Stage
from headtohead.run.executors.execution import Execution, train_all
from headtohead.run.locks import EXCLUSIONS, LockedPlan, write_lock
from headtohead.run.results import JsonObject
from headtohead.run.studies import has_study, read_study, study_folders
from headtohead.study.analyses import USUAL_OTHER, was_shown
from headtohead.study.execution import StudyEvent, folder_of, record_of
from headtohead.study.layout import layout_of
from headtohead.study.study import Study
from headtohead.training.arm import run_specs
from headtohead.training.tasks import task_of

PILOT_PAIRS = 4
PILOT_ARMS = 3  # most arms besides the control that a pilot trains
ENOUGH = 6  # degrees of freedom of the noise for which no pilot is trained
LIKELY = 0.8  # certainty of the range of pairs


@dataclass(frozen=True)
class Noise:
    """The standard deviation of paired differences, and how well it is known."""

    sd: float
    free: int  # degrees of freedom
    source: str  # what it was measured on

    def limit(self, share: float) -> float:
        """The value below which the true sd lies with probability `share`."""
        if self.free < 1:
            return self.sd
        return self.sd * math.sqrt(self.free / (2 * float(special.gammaincinv(self.free / 2, 1 - share))))


@dataclass(frozen=True)
class StudyPlan(JsonObject):
    """plan.json: how many pairs and minutes a study needs to detect an effect."""

    study: str
    effect: float  # in the unit of the metric
    control_mean: float
    metric: str
    arms: int  # variants
    sd: float  # of the differences between paired runs
    sd_low: float  # 80 % interval
    sd_high: float
    sd_from: str  # what it was measured on
    pairs: int | None  # to detect the effect with 80 % power; None: too many
    pairs_low: int | None
    pairs_high: int | None
    pairs_for_equivalence: int | None  # to call equal arms equivalent within the effect
    analyses: tuple[int, ...]  # of the study
    run_seconds: float
    jobs: int
    runs_a_pair: int
    runs_before: int = 0  # for tuning and for noise floors

    def minutes(self, pairs: int | None) -> float | None:
        if pairs is None:
            return None
        return (self.runs_before + pairs * self.runs_a_pair) * self.run_seconds / self.jobs / 60

    def to_json(self) -> dict[str, Any]:
        given = (self.pairs, self.pairs_low, self.pairs_high)
        names = ("minutes", "minutes_low", "minutes_high")
        return {**super().to_json(), **{name: self.minutes(n) for name, n in zip(names, given, strict=True)}}

    def lines(self) -> list[str]:
        effect = text_of(self.metric, self.effect)
        sds = f"{text_of(self.metric, self.sd_low)} to {text_of(self.metric, self.sd_high)}"
        lines = [
            f"noise: pairs differ by chance with sd {text_of(self.metric, self.sd)} of {self.metric} (likely {sds}), "
            f"from {self.sd_from}",
            f"time: {duration(self.run_seconds)} a run, {self.jobs} at a time, {self.runs_a_pair} runs a pair"
            + (f", {self.runs_before} runs for tuning and noise floors" if self.runs_before else ""),
            f"to detect an effect of {effect} with 80 % power: {self._range()}",
        ]
        if self.pairs is not None and len(self.analyses) > 1:
            points = ", ".join(map(str, self.analyses))
            lines.append(
                f"the study is analysed after {points} pairs and stops as soon as an arm is decided"
                + (f"; {self.analyses[-1]} pairs may not be enough" if self.pairs > self.analyses[-1] else "")
            )
        needed = self.pairs_for_equivalence
        many = "more than 10,000 pairs" if needed is None else f"{needed:,} pairs"
        lines.append(f"to call equal arms equivalent within {effect}: {many}")
        return lines

    def _range(self) -> str:
        if self.pairs is None or self.pairs_low is None:
            return f"more than {stats.MOST_PAIRS:,} pairs; ask for a larger effect"
        high = f"{self.pairs_high:,}" if self.pairs_high is not None else f"more than {stats.MOST_PAIRS:,}"
        low, most = self.minutes(self.pairs_low) or 0.0, self.minutes(self.pairs_high)
        times = (
            f"{duration(60 * low)} to {duration(60 * most)}" if most is not None else f"{duration(60 * low)} or more"
        )
        if self.pairs_low == self.pairs_high:
            return f"{self.pairs:,} pairs; {duration(60 * low)}"
        return f"{self.pairs:,} pairs, likely {self.pairs_low:,} to {high}; {times}"


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
    folder = folder_of(study, home)
    noise, outcome = _known_noise(study, folder)
    if noise is None or noise.free < ENOUGH:
        outcome = _pilot(study, Execution(jobs=jobs, device="cpu"), home, listen)
        noise = _pooled([_of_outcome(outcome, "pilot"), *([noise] if noise else [])])
    if noise is None or outcome is None:
        raise InputError("no pair of the pilot was completed, so there is nothing to plan with: see h2h list runs")
    forecast = _forecast(study, outcome, noise, effect, jobs)
    store.write_whole(folder / files.PLAN, store.to_text(forecast.to_json()))
    return forecast


# -- noise -------------------------------------------------------------------------------------------------------------


def _known_noise(study: Study, folder: Path) -> tuple[Noise | None, Outcome | None]:
    """The noise of the study itself, or of earlier studies with the same control and metric."""
    if has_study(folder):
        outcome = load_outcome(folder)
        own = _of_outcome(outcome, f"study {folder.name}")
        if own is not None and own.free >= ENOUGH:
            return own, outcome
    found: list[Noise | None] = []
    used = None
    control = store.plain(study.control.to_json())
    for other in study_folders(folder.parent.parent):
        try:
            record = read_study(other)
        except InputError:
            continue
        if record.metric == study.measured and record.tables[0].control.spec == control:
            outcome = load_outcome(other)
            noise = _of_outcome(outcome, f"study {other.name}")
            if noise is not None:
                found, used = [*found, noise], outcome
    return _pooled(found), used


def _of_outcome(outcome: Outcome, source: str) -> Noise | None:
    """The noise of an outcome's arms, pooled. Arms share the control, so together they are worth less than apart."""
    judged = [row.verdict for row in outcome.verdicts if row.verdict.pairs >= 2 and math.isfinite(row.verdict.sd)]
    if not judged:
        return None
    free = sum(v.pairs - 1 for v in judged)
    sd = math.sqrt(sum((v.pairs - 1) * v.sd**2 for v in judged) / free)
    pairs = sorted({v.pairs for v in judged})
    count = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    arms = f" of {len(judged)} arms" if len(judged) > 1 else ""
    worth = max(max(pairs) - 1, round(free * 2 / 3))
    return Noise(sd, worth, f"{count} complete pairs{arms} ({source})")


def _pooled(noises: list[Noise | None]) -> Noise | None:
    known = [noise for noise in noises if noise is not None]
    if not known:
        return None
    free = sum(noise.free for noise in known)
    sd = math.sqrt(sum(noise.free * noise.sd**2 for noise in known) / max(1, free))
    return Noise(sd, free, " and ".join(noise.source for noise in known))


def _pilot(study: Study, how: Execution, home: Path, listen: Callable[[StudyEvent], object]) -> Outcome:
    """Train a few complete pairs, which are the first of the study."""
    how = how.checked()
    layout = layout_of(study, {}, how.device, how.threads)
    arms = [variant.name for variant in study.variants[1:]]
    wanted = {arm: PILOT_PAIRS if number < PILOT_ARMS else 0 for number, arm in enumerate(arms)}
    part = layout.part(wanted).without_floors()
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


def _forecast(study: Study, outcome: Outcome, noise: Noise, effect: float | str, jobs: int) -> StudyPlan:
    rows = [row for row in outcome.all_rows if row.status == "complete"]
    times = [store.Record.at(outcome.home, row.run).times for row in rows]
    step = float(np.median([t.step_ms or 0.0 for t in times])) / 1000
    other = float(np.median([USUAL_OTHER if t.other_seconds is None else t.other_seconds for t in times]))
    size, arms = absolute(effect, outcome.verdicts.control_mean), len(study.variants) - 1
    alpha = study.design.planned
    low, high = noise.limit((1 - LIKELY) / 2), noise.limit((1 + LIKELY) / 2)

    def pairs(sd: float) -> int | None:
        return stats.pairs_for(size / sd, arms, alpha=alpha) if sd > 0 else stats.LEAST_PAIRS

    tuning = len(study.variants) * len(list(study.grid())) * study.tuning_seeds if study.tune else 0
    floors = sum(map(len, study.floors.values())) if study.is_sequential else 0
    per_pair = len(study.variants) + (0 if study.is_sequential else len(study.floors))
    return StudyPlan(
        study=study.folder_name,
        effect=size,
        control_mean=outcome.verdicts.control_mean,
        metric=study.measured,
        arms=arms,
        sd=noise.sd,
        sd_low=low,
        sd_high=high,
        sd_from=noise.source,
        pairs=pairs(noise.sd),
        pairs_low=pairs(low),
        pairs_high=pairs(high),
        pairs_for_equivalence=stats.pairs_for_equivalence(size / noise.sd, arms, alpha=alpha)
        if noise.sd > 0
        else stats.LEAST_PAIRS,
        analyses=study.design.analyses,
        run_seconds=task_of(study.control).steps * step + other,
        jobs=jobs,
        # a tuned study may have every variant twice: at its own best, and at the control's
        runs_a_pair=per_pair + (arms if study.tune else 0),
        runs_before=tuning + floors,
    )


def compare_with_plan(folder: Path, minutes: float, fresh: int) -> list[str]:
    """Compare the forecast with a call that trained `fresh` runs in `minutes`."""
    path = folder / files.PLAN
    if not path.is_file():
        return []
    try:
        plan = StudyPlan.from_json(read_json(path, "plan again"))
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
    if sds and plan.sd > 0:
        low, high = (text_of(plan.metric, x) for x in (min(sds), max(sds)))
        span = low if low == high else f"{low} to {high}"
        lines.append(f"forecast noise sd {text_of(plan.metric, plan.sd)}, measured {span}")
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
