"""The analyses of a study while it runs: which arms are decided, which are trained further, how long that may take."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from pathlib import Path

import numpy as np

from headtohead.outcome.history import note_shown
from headtohead.outcome.outcome import ArmVerdict, Outcome, load_outcome
from headtohead.run import store
from headtohead.run.events import Analysed
from headtohead.run.studies import StudyRecord, read_study
from headtohead.stats import LEAST_PAIRS, Design, Verdict, t_quantile

HOPELESS = 0.1  # chance of a verdict below which an arm is stopped for futility
LOST = 1 / 3  # share of an arm's runs whose loss ends its training
DRAWS = 400  # simulated continuations of an arm
USUAL_OTHER = 2.0  # seconds of a run outside its steps, before anything is measured


def load_without(folder: Path, to_come: Collection[int]) -> Outcome:
    """The outcome as it was before the pairs of later analyses, of which an interrupted study has some already. So a
    study that continues repeats its earlier analyses exactly."""
    outcome = load_outcome(folder)
    seeds = tuple(seed for seed in outcome.record.seeds if seed not in to_come)
    return Outcome(folder, dataclasses.replace(outcome.record, seeds=seeds))


def analyse(outcome: Outcome, *, futility: bool, jobs: int, last: bool) -> Analysed:
    """Judge the pairs of an outcome: which arms are decided, and which are trained further."""
    design, pairs = outcome.record.planned, len(outcome.record.seeds)
    decided: dict[str, str] = {}
    stopped: dict[str, str] = {}
    still_open: list[str] = []
    for name, rows in _by_name(outcome).items():
        words = [row.verdict.verdict for row in rows]
        if "unresolved" not in words:
            decided[name] = words[0]
        elif _lost(outcome, name) > LOST:
            stopped[name] = "too many of its runs diverged, collapsed or failed"
        elif _lost(outcome, outcome.verdicts.control) > LOST:
            stopped[name] = "too many of the control's runs diverged, collapsed or failed"
        elif futility and all(chance_of_verdict(row.verdict, design) < HOPELESS for row in rows):
            stopped[name] = f"futility: its chance of a verdict is below {100 * HOPELESS:.0f} %"
        else:
            still_open.append(name)
    if last:
        stopped |= dict.fromkeys(still_open, "this was the last analysis")
        still_open = []
    numbers = [n for n, point in enumerate(design.analyses, start=1) if point <= pairs]
    number = numbers[-1] if numbers else 0
    later = [point for point in design.analyses if point > pairs]
    return Analysed(
        number=number,
        of=len(design.analyses),
        pairs=pairs,
        spent=design.spent[number - 1] if number else 0.0,
        decided=decided,
        open=tuple(still_open),
        stopped=stopped,
        next_pairs=later[0] if later and still_open else None,
        seconds_left=_seconds(outcome, (len(still_open) + 1) * (design.pairs - pairs), jobs)
        if later and still_open
        else None,
        folder=str(outcome.folder),
        seeds=outcome.record.seeds,
    )


def seconds_until(outcome: Outcome, arms: int, pairs: int, jobs: int, more_runs: int = 0) -> float | None:
    """How long more pairs of the control and of some arms take, and more runs of the control."""
    return _seconds(outcome, (arms + 1) * pairs + more_runs, jobs)


def _by_name(outcome: Outcome) -> dict[str, list[ArmVerdict]]:
    """The rows of each arm that the study still has; a tuned study has two tables."""
    found: dict[str, list[ArmVerdict]] = {}
    for title in outcome.titles:
        for row in outcome.table(title):
            if not row.dropped:
                found.setdefault(row.arm, []).append(row)
    return found


def _lost(outcome: Outcome, arm: str) -> float:
    rows = [row for (_, name), rows in outcome.rows.items() if name == arm for row in rows]
    return sum(row.status in ("diverged", "collapsed", "failed") for row in rows) / max(1, len(rows))


def _seconds(outcome: Outcome, runs: int, jobs: int) -> float | None:
    taken = []
    for row in outcome.all_rows:
        if row.status == "complete" and row.step_ms and row.steps:
            other = store.Record.at(outcome.home, row.run).times.other_seconds
            taken.append(row.steps * row.step_ms / 1000 + (USUAL_OTHER if other is None else other))
    return float(np.median(taken)) * runs / jobs if taken else None


def chance_of_verdict(v: Verdict, design: Design) -> float:
    """The chance that this arm is decided by the last planned analysis, if it continues as it began: its mean and noise
    are drawn from what the pairs so far allow. Student's t stands for the test."""
    more = design.pairs - v.pairs
    if v.pairs < LEAST_PAIRS or more <= 0 or not v.sd > 0:
        return 1.0 if v.pairs < LEAST_PAIRS else 0.0
    rng = np.random.default_rng(v.pairs)
    sd = v.sd * np.sqrt((v.pairs - 1) / rng.chisquare(v.pairs - 1, size=DRAWS))
    mean = v.difference + sd / math.sqrt(v.pairs) * rng.standard_normal(DRAWS)
    added = mean[:, None] + sd[:, None] * rng.standard_normal((DRAWS, more))
    n = design.pairs
    total = (v.difference * v.pairs + added.sum(axis=1)) / n
    squares = (v.pairs - 1) * v.sd**2 + v.pairs * v.difference**2 + (added**2).sum(axis=1)
    error = np.sqrt(np.maximum(squares - n * total**2, 0) / (n - 1) / n)
    differs = np.abs(total) > t_quantile(1 - design.planned / 2 / v.arms, n) * error
    if v.margin is not None:
        differs |= np.abs(total) + t_quantile(1 - design.planned / v.arms, n) * error < v.margin
    return float(differs.mean())


# -- what was shown ----------------------------------------------------------------------------------------------------


def note_analysis(analysed: Analysed) -> None:
    """Write into study.json that the verdicts of this analysis were shown."""
    folder = Path(analysed.folder)
    note_shown(Outcome(folder, dataclasses.replace(read_study(folder), seeds=analysed.seeds)), analysed.number)


def was_shown(record: StudyRecord | None) -> bool:
    """Whether verdicts of the study were shown: from then on its plan is fixed."""
    return record is not None and (bool(record.history) or record.design is None)
