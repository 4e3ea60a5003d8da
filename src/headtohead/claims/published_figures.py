"""Published figures next to measured ones.

A published figure comes from one run. It matches if one more run of ours would fall there in 95 of 100 cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headtohead.claims.evidence import Outcomes, rows_of, value_in
from headtohead.errors import InputError
from headtohead.outcome.metrics import better_way
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.run.store import Record
from headtohead.stats import t_quantile
from headtohead.study.study import Study

LEAST_RUNS = 6  # fewer runs do not show where one more might fall
Mark = Literal["matches", "better", "worse", "not comparable"]


@dataclass(frozen=True)
class Shown:
    """A published figure, and the runs that measure the same."""

    figure: str  # in figures.toml: doc000.decoder.obama
    study: Study
    arm: str
    metric: str
    take: Literal["last", "first", "best"] = "last"  # which evaluation during training the report quotes
    at: int | None = None  # or the evaluation at this step
    scale: float = 1.0
    unlike: str = ""  # why it cannot be compared


@dataclass(frozen=True)
class Row:
    """A published figure with the mean and range of the runs that measure it."""

    figure: str
    published: float
    mean: float
    low: float  # of the seeds
    high: float
    runs: int
    mark: Mark
    why: str
    study: str
    reach: float = math.nan  # one more run falls within mean ± reach in 95 of 100 cases

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def row_of(shown: Shown, figures: dict[str, Any], outcomes: Outcomes) -> Row:
    """Compare a published figure with the runs of its study."""
    published = _published(figures, shown.figure)
    outcome = outcomes(shown.study)
    rows = rows_of(outcome, shown.arm, None)
    values = [shown.scale * x for row in rows if math.isfinite(x := _value(outcome, row, shown))]
    study = outcome.record.name
    if not values:
        return Row(shown.figure, published, math.nan, math.nan, math.nan, 0, "not comparable", "no run", study)
    n, mean = len(values), float(np.mean(values))
    reach = t_quantile(0.975, n) * float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / n) if n > 1 else math.nan
    mark: Mark = "not comparable"
    why = shown.unlike or (f"fewer than {LEAST_RUNS} runs" if n < LEAST_RUNS else "")
    if not why and abs(published - mean) <= reach:
        mark = "matches"
    elif not why:
        lower_is_better = better_way(shown.metric) == "lower"
        mark = "better" if (mean < published) == lower_is_better else "worse"
    return Row(shown.figure, published, mean, min(values), max(values), n, mark, why, study, reach)


def _value(outcome: Outcome, row: RunRow, shown: Shown) -> float:
    if shown.take == "last" and shown.at is None:
        return value_in(outcome, row, shown.metric)
    evaluations = [x for x in Record.at(outcome.home, row.run).metrics if shown.at in (None, x["step"])]
    values = [x[shown.metric] for x in evaluations if x.get(shown.metric) is not None]
    if not values:
        return math.nan
    return values[0] if shown.take == "first" else max(values) if better_way(shown.metric) == "higher" else min(values)


def _published(figures: dict[str, Any], name: str) -> float:
    value: Any = figures
    try:
        for key in name.split("."):
            value = value[key]
        return float(value)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"figures.toml has no number {name}: add it there, or correct the recipe's Shown") from None
