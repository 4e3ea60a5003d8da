"""How many pairs and minutes does a study need? Before a study, short trial runs show how long a step takes and how
much arms differ by chance. After it, the forecast is compared with what happened."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from headtohead import stats
from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.outcome.metrics import absolute, read_amount, text_of
from headtohead.outcome.outcome import load_outcome
from headtohead.run import files, store
from headtohead.run.executors.execution import Execution
from headtohead.run.results import DAMAGED, JsonObject
from headtohead.run.studies import has_study
from headtohead.study.execution import StudyEvent, StudyTrained, folder_of, train_study
from headtohead.study.study import LONGEST_NAME, Study
from headtohead.training.tasks import task_of

TRIAL_PAIRS = 5
SECONDS = 60.0
USUAL_OTHER = 2.0  # seconds of a run outside its steps, before anything is measured


@dataclass(frozen=True)
class StudyPlan(JsonObject):
    """plan.json: how many pairs and minutes a study needs to detect an effect."""

    study: str
    effect: float  # in the unit of the metric
    control_mean: float  # perhaps of shorter runs
    metric: str
    arms: int  # variants
    sd: float  # of the differences between paired runs
    sd_from: str  # what it was measured on
    pairs: int | None  # to detect the effect with 80 % power; None: too many
    pairs_if_noisier: int | None  # for noise at the upper end of what the trial allows
    pairs_for_equivalence: int | None  # to call equal arms equivalent within the effect
    run_seconds: float
    jobs: int
    runs_a_pair: int
    runs_before: int = 0  # for tuning

    def minutes(self, pairs: int | None) -> float | None:
        if pairs is None:
            return None
        return (self.runs_before + pairs * self.runs_a_pair) * self.run_seconds / self.jobs / 60

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "minutes": self.minutes(self.pairs)}

    def lines(self) -> list[str]:
        effect = text_of(self.metric, self.effect)
        lines = [
            f"noise: pairs differ by chance with sd {text_of(self.metric, self.sd)} of {self.metric} ({self.sd_from})",
            f"time: {duration(self.run_seconds)} a run, {self.jobs} at a time, {self.runs_a_pair} runs a pair"
            + (f", {self.runs_before} runs for tuning" if self.runs_before else ""),
            self._line(f"to detect an effect of {effect} with 80 % power", self.pairs),
        ]
        if self.pairs_if_noisier != self.pairs:
            lines.append(self._line("if the noise is larger, as a short trial cannot exclude", self.pairs_if_noisier))
        lines.append(self._line(f"to call equal arms equivalent within {effect}", self.pairs_for_equivalence))
        return lines

    def _line(self, what: str, pairs: int | None) -> str:
        minutes = self.minutes(pairs)
        if pairs is None or minutes is None:
            return f"{what}: more than {stats.MOST_PAIRS:,} pairs; ask for a larger effect"
        return f"{what}: {pairs:,} pairs, {duration(60 * minutes)}"


class PlanStopped(KeyboardInterrupt):
    """The user stopped the trial runs. They are saved, and the same call continues."""


def plan_study(
    study: Study,
    effect: float | str,
    *,
    jobs: int | None = None,
    seconds: float = SECONDS,
    home: Path | None = None,
    listen: Callable[[StudyEvent], object] = lambda _: None,
) -> StudyPlan:
    """Forecast pairs and minutes for an effect, from what the store has of the study or from short trial runs."""
    if len(study.variants) < 2:
        raise InputError("this study compares nothing: h2h plan needs a study that varies something")
    read_amount(effect)  # before the trial runs
    home, jobs = home or store.home(), jobs or os.cpu_count() or 1
    folder = folder_of(study, home)
    steps = task_of(study.control).steps
    if not _has_pairs(folder):
        trial = dataclasses.replace(_shorter(study, steps, jobs, seconds), again=False)
        folder = _train_trial(trial, Execution(jobs=jobs, device="cpu", save_every=1e9), home / files.TRIALS, listen)
    forecast = _forecast(study, folder, effect, steps, jobs)
    store.write_whole(folder_of(study, home) / files.PLAN, store.to_text(forecast.to_json()))
    return forecast


def _train_trial(trial: Study, how: Execution, home: Path, listen: Callable[[StudyEvent], object]) -> Path:
    for event in train_study(trial, how, home=home):
        listen(event)
        if isinstance(event, StudyTrained):
            return event.folder
    raise PlanStopped


def _has_pairs(folder: Path) -> bool:
    if not has_study(folder):
        return False
    return any(row.verdict.pairs >= 3 and row.verdict.sd > 0 for row in load_outcome(folder).verdicts)


def _shorter(study: Study, steps: int, jobs: int, seconds: float) -> Study:
    """The control and the first variant, with as many steps as the time allows, at most those of the study. Fewer steps
    still show how long a step takes, and roughly the noise."""
    arm = study.control
    task = task_of(arm)
    model = task.build(0)
    times = []
    for step in range(6):
        start = time.perf_counter()
        task.loss(model, task.batch(0, step), "cpu").backward()
        times.append(time.perf_counter() - start)
    runs = 2 * TRIAL_PAIRS
    room = seconds * jobs / runs - USUAL_OTHER
    steps_of_trial = max(20, min(steps, int(room / (1.3 * min(times)))))  # an update takes a little more
    name, variant = study.variants[1].name, study.variants[1].arm
    short = [f"train.steps={steps_of_trial}"] if steps_of_trial < steps else []
    return Study(
        question=study.question,
        control=arm.settings(short),
        vary=list(study.paths),
        arms={name: variant.settings(short)},
        seeds=TRIAL_PAIRS,
        metric=study.measured,
        name=f"{study.folder_name[: LONGEST_NAME - 6]}-trial",
    )


def _forecast(study: Study, folder: Path, effect: float | str, steps: int, jobs: int) -> StudyPlan:
    outcome = load_outcome(folder)
    verdicts = outcome.verdicts
    rows = [row for row in outcome.all_rows if row.status == "complete"]
    judged = [row.verdict for row in verdicts if row.verdict.pairs >= 2 and math.isfinite(row.verdict.sd)]
    if not rows or not judged:
        whys = [f"{row.arm}, seed {row.seed}: {row.why}" for row in outcome.all_rows if row.status != "complete"]
        raise InputError(f"no pair of the trial was completed, so there is nothing to plan with: {whys[0]}")
    free = sum(v.pairs - 1 for v in judged)
    sd = math.sqrt(sum((v.pairs - 1) * v.sd**2 for v in judged) / free)
    upper = sd * math.sqrt(free / (2 * special.gammaincinv(free / 2, 0.2)))  # the lower fifth of chi-squared
    times = [store.Record.at(outcome.home, row.run).times for row in rows]
    step = float(np.median([t.step_ms or 0.0 for t in times])) / 1000
    other = float(np.median([USUAL_OTHER if t.other_seconds is None else t.other_seconds for t in times]))
    size = absolute(effect, verdicts.control_mean)
    arms = len(study.variants) - 1
    done = rows[0].steps or steps
    pairs = stats.pairs_for(size / sd, arms) if sd > 0 else stats.LEAST_PAIRS
    return StudyPlan(
        study=study.folder_name,
        effect=size,
        control_mean=verdicts.control_mean,
        metric=study.measured,
        arms=arms,
        sd=sd,
        sd_from=f"{free + len(judged)} pairs of {done:,} steps"
        + (f", the study has {steps:,}" if done < steps else ""),
        pairs=pairs,
        pairs_if_noisier=stats.pairs_for(size / upper, arms) if sd > 0 else stats.LEAST_PAIRS,
        pairs_for_equivalence=stats.pairs_for_equivalence(size / sd) if sd > 0 else stats.LEAST_PAIRS,
        run_seconds=steps * step + other,
        jobs=jobs,
        # a tuned study may have every variant twice: at its own best, and at the control's
        runs_a_pair=len(study.variants) + study.again + (arms if study.tune else 0),
        runs_before=len(study.variants) * len(list(study.grid())) * study.tuning_seeds if study.tune else 0,
    )


def compare_with_plan(folder: Path, minutes: float, fresh: int) -> list[str]:
    """Compare the forecast with a call that trained `fresh` runs in `minutes`."""
    path = folder / files.PLAN
    if not path.is_file():
        return []
    try:
        plan = StudyPlan.from_json(json.loads(path.read_text(encoding="utf-8")))
        float(plan.run_seconds * plan.jobs + plan.sd)
    except DAMAGED:
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
