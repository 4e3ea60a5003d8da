"""Compares the answers of the course report with headtohead's, and with the weights that they give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.puzzles import puzzle
from headtohead.puzzles.base import WITHIN, listed, row, show_lines
from headtohead.puzzles.published import UNIT, answers

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Row:
    """One published answer and its evaluation."""

    puzzle: int
    title: str
    says: str
    printed: Any  # the figures in the course report; None: not printed
    difference: (
        float | None
    )  # largest difference between the printed figures and those computed from the recovered keys
    reproduced: bool | None  # whether they agree to the last printed digit
    weights: Any  # the weights that the answer gives
    distance: float | None
    right: bool | None
    best: float  # the distance of the best answer

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rows() -> list[Row]:
    """One row for each of the six published answers."""
    table = []
    for number, report in answers().items():
        p = puzzle(number)
        best = p.solve().distance
        if report.answer is None:
            table.append(Row(number, p.title, report.says, None, None, None, None, None, None, best))
            continue
        ours = next(iter(report.answer.values()))
        off = None if report.printed is None else float(np.abs(ours - report.printed).max())
        measured = p.measure(report.answer)
        table.append(
            Row(
                *(number, p.title, report.says, listed(report.printed), off, None if off is None else off <= UNIT),
                *(listed(measured.weights), measured.distance, measured.is_right(WITHIN), best),
            )
        )
    return table


def show(table: list[Row], console: Console) -> None:
    """Print the rows."""
    lines = []
    for r in table:
        lines += [f"{r.puzzle}  {r.title}", f"   published: {r.says}"]
        if r.difference is not None:
            lines.append(
                f"   figures: ours differ by at most {r.difference:.1g}; half the last printed digit is {UNIT:g}"
            )
        lines += [f"   weights  {row(np.array(w))}" for w in r.weights or ()]
        if r.distance is not None:
            verdict = "within" if r.right else "not within"
            lines.append(f"   distance {r.distance:.2g} ({verdict} {WITHIN:g}); best possible: {r.best:.2g}")
        else:
            lines.append(f"   best possible: distance {r.best:.2g}")
    show_lines(lines, console)
