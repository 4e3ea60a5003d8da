"""Published figures and measured ones, side by side. A published figure is one run: it matches where one more run of
ours might well have come out so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headtohead.errors import InputError
from headtohead.metrics import better_way
from headtohead.reproduce.evidence import Outcomes, rows_of, value_in
from headtohead.stats import t_quantile
from headtohead.store import Record
from headtohead.study import Study

FEWEST = 6  # runs of ours that say where one more might fall
Mark = Literal["matches", "better", "worse", "not comparable"]


@dataclass(frozen=True)
class Shown:
    """A figure of the reports, and where to find ours."""

    figure: str  # in figures.toml: doc000.decoder.obama
    study: Study
    arm: str
    metric: str
    take: Literal["last", "first", "best"] = "last"  # of the looks along the way, as the report did
    at: int | None = None  # or the look at this step
    scale: float = 1.0
    unlike: str = ""  # why it cannot be compared


@dataclass(frozen=True)
class Row:
    figure: str
    published: float
    mean: float
    low: float  # of the seeds
    high: float
    runs: int
    mark: Mark
    why: str
    study: str

    @property
    def said(self) -> str:
        return f"{self.mark}: {self.why}" if self.why else self.mark

    @property
    def cells(self) -> list[str]:
        """As people read it: figure, published, measured, from … to, runs, mark."""
        spread = f"{_number(self.low)} … {_number(self.high)}"
        return [self.figure, _number(self.published), _number(self.mean), spread, str(self.runs), self.said]

    def to_json(self) -> dict[str, Any]:
        return vars(self)


HEAD = ("figure", "published", "measured, mean", "from … to", "runs", "")


def _number(x: float) -> str:
    return "–" if not math.isfinite(x) else f"{x:,.2f}" if abs(x) < 1e6 else f"{x:.3g}"


def row_of(shown: Shown, figures: dict[str, Any], outcomes: Outcomes) -> Row:
    published = _figure(figures, shown.figure)
    outcome = outcomes(shown.study)
    rows = rows_of(outcome, shown.arm, None)
    values = [shown.scale * x for row in rows if math.isfinite(x := _taken(outcome, row, shown))]
    if not values:
        return Row(
            shown.figure, published, math.nan, math.nan, math.nan, 0, "not comparable", "no run", outcome.said["name"]
        )
    mark, why = _mark(published, values, shown)
    return Row(
        figure=shown.figure,
        published=published,
        mean=float(np.mean(values)),
        low=min(values),
        high=max(values),
        runs=len(values),
        mark=mark,
        why=why,
        study=outcome.said["name"],
    )


def _mark(published: float, values: list[float], shown: Shown) -> tuple[Mark, str]:
    if shown.unlike:
        return "not comparable", shown.unlike
    n, mean = len(values), float(np.mean(values))
    if n < FEWEST:
        return "not comparable", f"fewer than {FEWEST} runs of ours say little of the next"
    # where one more run would fall, 95 times in a hundred
    reach = t_quantile(0.975, n) * float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / n)
    if abs(published - mean) <= reach:
        return "matches", ""
    lower = better_way(shown.metric) == "lower"
    return ("better" if (mean < published) == lower else "worse"), ""


def _taken(outcome: Any, row: Any, shown: Shown) -> float:
    if shown.take == "last" and shown.at is None:
        return value_in(outcome, row, shown.metric)
    looks = [x for x in Record(outcome.home / "runs" / row.run).metrics if shown.at in (None, x["step"])]
    values = [x[shown.metric] for x in looks if x.get(shown.metric) is not None]
    if not values:
        return math.nan
    return values[0] if shown.take == "first" else max(values) if better_way(shown.metric) == "higher" else min(values)


def _figure(figures: dict[str, Any], name: str) -> float:
    found: Any = figures
    try:
        for key in name.split("."):
            found = found[key]
        return float(found)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"figures.toml has no number {name}: write it there, or mend the recipe's Shown") from None


def notes_on(figures: dict[str, Any], rows: Sequence[Row]) -> list[str]:
    """What figures.toml says of a report's figures, and which of them have no row."""
    notes = [str(report["note"]) for report in figures.values() if isinstance(report, dict) and "note" in report]
    shown = {row.figure for row in rows}
    left = [
        f"{report}.{part}.{name}"
        for report, parts in figures.items()
        if isinstance(parts, dict)
        for part, values in parts.items()
        if isinstance(values, dict)
        for name in values
        if f"{report}.{part}.{name}" not in shown
    ]
    return [*notes, f"Without a row: {', '.join(left)}."] if left else notes
