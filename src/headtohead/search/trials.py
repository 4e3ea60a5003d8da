"""Trials: settings that are tried, with the value that each one reaches on the validation set. Searches and the tuning
of studies use them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.errors import InputError
from headtohead.outcome.metrics import better_way, value_of
from headtohead.run.searches import TrialRecord
from headtohead.run.store import Record
from headtohead.search.space import Point
from headtohead.training.arm import RunSpec


@dataclass(frozen=True)
class Trial:
    """One point and its runs by seed."""

    number: int  # from 0, in the order of proposals
    point: Point
    runs: dict[int, RunSpec]  # empty where the settings do not fit together
    why: str = ""  # why they do not
    arm: str = ""  # the arm of a study that is tuned

    @property
    def spec(self) -> RunSpec | None:
        """The run with the first seed."""
        return next(iter(self.runs.values()), None)

    def records(self, home: Path) -> list[Record]:
        return [Record.at(home, spec.id) for spec in self.runs.values()]

    def measured(self, metric: str, home: Path) -> TrialRecord:
        """What came of the trial. Its value is the mean over the seeds; it has none if one of the runs diverged."""
        records = self.records(home)
        results = [record.result for record in records]
        ended = [result for result in results if result is not None]
        if not ended or len(ended) < len(results):
            why = next((record.failure for record in records if record.failure), self.why)
            return self.without_value(why)
        values = [value_of(result, metric) if result.is_complete else math.nan for result in ended]
        mean, run = sum(values) / len(values), records[0].id
        seconds = None
        with contextlib.suppress(InputError):  # a damaged times.json costs no value
            seconds = records[0].times.seconds
        if math.isfinite(mean):
            return TrialRecord(self.number, self.point, run, "complete", mean, "", seconds)
        why = next((result.ended for result in ended if not result.is_complete), ended[0].ended)
        return TrialRecord(self.number, self.point, run, "diverged", None, why, seconds)

    def without_value(self, why: str) -> TrialRecord:
        return TrialRecord(self.number, self.point, None if self.spec is None else self.spec.id, "failed", None, why)


def ranked(trials: Iterable[TrialRecord], metric: str) -> list[TrialRecord]:
    """The best first, of equal ones the one that was proposed first; those without a value last."""
    sign = -1 if better_way(metric) == "higher" else 1
    return sorted(trials, key=lambda trial: (trial.value is None, sign * (trial.value or 0), trial.number))


def at_edge(point: Point, tried: Mapping[str, Sequence[Any]]) -> list[str]:
    """Settings of a point whose value is the smallest or largest that was tried: a better one may lie beyond."""
    return [
        path for path, values in tried.items() if _are_numbers(values) and point[path] in (min(values), max(values))
    ]


def _are_numbers(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
