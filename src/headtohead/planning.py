"""How many pairs, how many minutes? Before a study: a short trial of it says what a step takes and how much arms differ
by chance. Afterwards: what the forecast was worth."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from headtohead import stats, store
from headtohead.carry import StudyEvent, carry_out, folder_of
from headtohead.errors import InputError
from headtohead.metrics import absolute, text_of
from headtohead.outcome import load_outcome
from headtohead.runs import NotBegun, Options, Stopped
from headtohead.screen import duration
from headtohead.study import Study
from headtohead.tasks import work_on

TRIAL_PAIRS = 5
SECONDS = 60.0
USUAL_OTHER = 2.0  # seconds of a run outside its steps, before anything is measured


@dataclass(frozen=True)
class Forecast:
    """Of a study with so many pairs."""

    study: str
    effect: float  # in the metric's own unit
    control_mean: float  # as measured, perhaps of shorter runs
    metric: str
    arms: int  # variants
    sd: float  # of the differences between paired runs
    sd_from: str  # what it was measured on
    pairs: int | None  # to see the effect with 80 % power; none: hopeless
    pairs_if_noisier: int | None  # were the noise at the upper end of what the trial allows
    pairs_for_equivalence: int | None  # to call arms equivalent that are, within the effect
    run_seconds: float
    jobs: int
    runs_a_pair: int
    runs_before: int = 0  # for tuning

    def minutes(self, pairs: int | None) -> float | None:
        if pairs is None:
            return None
        return (self.runs_before + pairs * self.runs_a_pair) * self.run_seconds / self.jobs / 60

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "minutes": self.minutes(self.pairs)}

    def lines(self) -> list[str]:
        effect = text_of(self.metric, self.effect)
        said = [
            f"noise: pairs differ by chance with sd {text_of(self.metric, self.sd)} of {self.metric} ({self.sd_from})",
            f"time: {duration(self.run_seconds)} a run, {self.jobs} at a time, {self.runs_a_pair} runs a pair"
            + (f", {self.runs_before} runs for tuning" if self.runs_before else ""),
            self._says(f"to see an effect of {effect} with 80 % power", self.pairs),
        ]
        if self.pairs_if_noisier != self.pairs:
            said.append(
                self._says("if the noise is larger, as it well may be after so short a trial", self.pairs_if_noisier)
            )
        said.append(self._says(f"to call arms equivalent within {effect} that are", self.pairs_for_equivalence))
        return said

    def _says(self, what: str, pairs: int | None) -> str:
        minutes = self.minutes(pairs)
        if pairs is None or minutes is None:
            return f"{what}: more than {stats.MOST_PAIRS:,} pairs; ask for a larger effect"
        return f"{what}: {pairs:,} pairs, {duration(60 * minutes)}"


def plan(
    study: Study, effect: float | str, *, jobs: int | None = None, seconds: float = SECONDS, home: Path | None = None
) -> Iterator[StudyEvent | Forecast]:
    """Events of the trial, then the forecast. What the store has of the study already is taken instead of a trial."""
    if len(study.variants) < 2:
        raise InputError("nothing is compared here: h2h plan is for a study with something to vary")
    home, jobs = home or store.home(), jobs or os.cpu_count() or 1
    folder = folder_of(study, home)
    steps = work_on(study.control).steps
    if not _pairs_there(folder):
        trial = dataclasses.replace(_shorter(study, steps, jobs, seconds), again=False)
        folder = folder_of(trial, home / "trials")
        for event in carry_out(trial, home / "trials", jobs=jobs, options=Options(save_every=1e9)):
            yield event
            if isinstance(event, Stopped | NotBegun):
                return
    forecast = _forecast(study, folder, effect, steps, jobs)
    store.write_whole(folder_of(study, home) / "plan.json", store.to_text(forecast.to_json()))
    yield forecast


def _pairs_there(folder: Path) -> bool:
    if not (folder / "study.json").is_file():
        return False
    return any(row.verdict.pairs >= 3 and row.verdict.sd > 0 for row in load_outcome(folder).verdicts())


def _shorter(study: Study, steps: int, jobs: int, seconds: float) -> Study:
    """The control and the first variant, cut to what the time allows. As many steps as the study itself has make the
    best trial; fewer say what a step takes and something about the noise."""
    arm = study.control
    work = work_on(arm)
    model = work.build(0)
    times = []
    for step in range(6):
        start = time.perf_counter()
        work.loss(model, work.batch(0, step), "cpu").backward()
        times.append(time.perf_counter() - start)
    runs = 2 * TRIAL_PAIRS
    room = seconds * jobs / runs - USUAL_OTHER
    few = max(20, min(steps, int(room / (1.3 * min(times)))))  # an update takes a little more
    name, variant = study.variants[1].name, study.variants[1].arm
    short = [f"train.steps={few}"] if few < steps else []
    return Study(
        question=study.question,
        control=arm.settings(short),
        vary=list(study.paths),
        arms={name: variant.settings(short)},
        seeds=TRIAL_PAIRS,
        metric=study.measured,
        name=f"{study.name or 'study'}-trial",
    )


def _forecast(study: Study, folder: Path, effect: float | str, steps: int, jobs: int) -> Forecast:
    outcome = load_outcome(folder)
    verdicts = outcome.verdicts()
    rows = [row for row in outcome.all_rows if row.status == "complete"]
    judged = [row.verdict for row in verdicts if row.verdict.pairs >= 2 and math.isfinite(row.verdict.sd)]
    if not rows or not judged:
        whys = [f"{row.arm}, seed {row.seed}: {row.why}" for row in outcome.all_rows if row.status != "complete"]
        raise InputError(f"no pair of the trial was completed, so there is nothing to plan by: {whys[0]}")
    free = sum(v.pairs - 1 for v in judged)
    sd = math.sqrt(sum((v.pairs - 1) * v.sd**2 for v in judged) / free)
    upper = sd * math.sqrt(free / (2 * special.gammaincinv(free / 2, 0.2)))  # the lower fifth of chi-squared
    times = [store.Record(outcome.home / "runs" / row.run).times for row in rows]
    step = float(np.median([t["step_ms"] for t in times])) / 1000
    other = float(np.median([t.get("other_seconds", USUAL_OTHER) for t in times]))
    size = absolute(effect, verdicts.control_mean)
    arms = len(study.variants) - 1
    done = rows[0].steps or steps
    pairs = stats.pairs_for(size / sd, arms) if sd > 0 else stats.LEAST_PAIRS
    return Forecast(
        study=study.name,
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


def how_it_went(folder: Path, minutes: float, fresh: int) -> list[str]:
    """The forecast beside what happened: `fresh` runs were trained in this call, which took so many minutes."""
    path = folder / "plan.json"
    if not path.is_file():
        return []
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        float(said["run_seconds"] * said["jobs"] + said["sd"]), str(said["metric"])
    except (ValueError, TypeError, KeyError):
        return [f"{path} cannot be read, so the forecast is not held against what happened"]
    lines = []
    if fresh:
        forecast = fresh * said["run_seconds"] / said["jobs"] / 60
        lines.append(
            f"forecast {duration(60 * forecast)} for {fresh} runs, took {duration(60 * minutes)} "
            f"({100 * (minutes / forecast - 1):+.0f} %)"
        )
    sds = [row.verdict.sd for row in load_outcome(folder).verdicts() if math.isfinite(row.verdict.sd)]
    if sds and said["sd"] > 0:
        low, high = (text_of(said["metric"], x) for x in (min(sds), max(sds)))
        span = low if low == high else f"{low} to {high}"
        lines.append(f"forecast noise sd {text_of(said['metric'], said['sd'])}, was {span}")
    return lines
