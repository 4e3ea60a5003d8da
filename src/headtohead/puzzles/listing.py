"""Compares the answers of the course report with headtohead's, and with the weights that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.puzzles import puzzle
from headtohead.puzzles.base import WITHIN, listed, row, show_lines
from headtohead.puzzles.published import UNIT, answers

if TYPE_CHECKING:
    from rich.console import Console


def rows() -> list[dict[str, Any]]:
    """One row for each of the six published answers. A value is None if the course report prints no such figures."""
    table = []
    for number, report in answers().items():
        p = puzzle(number)
        measured = None if report.answer is None else p.measure(report.answer)
        off = None  # largest difference between the printed figures and those computed from the recovered keys
        if report.answer is not None and report.printed is not None:
            off = float(np.abs(next(iter(report.answer.values())) - report.printed).max())
        table.append(
            {
                "puzzle": number,
                "title": p.title,
                "says": report.says,
                "printed": listed(report.printed),
                "difference": off,
                "reproduced": None if off is None else off <= UNIT,  # to the last printed digit
                "weights": measured and listed(measured.weights),
                "distance": measured and measured.distance,
                "right": measured and measured.is_right(WITHIN),
                "best": p.solve().distance,
            }
        )
    return table


def show(table: list[dict[str, Any]], console: Console) -> None:
    """Print the rows."""
    lines = []
    for r in table:
        lines += [f"{r['puzzle']}  {r['title']}", f"   published: {r['says']}"]
        if r["difference"] is not None:
            half = f"half the last printed digit is {UNIT:g}"
            lines.append(f"   figures: ours differ by at most {r['difference']:.1g}; {half}")
        lines += [f"   weights  {row(np.array(w))}" for w in r["weights"] or ()]
        if r["distance"] is not None:
            verdict = "within" if r["right"] else "not within"
            lines.append(f"   distance {r['distance']:.2g} ({verdict} {WITHIN:g}); best possible: {r['best']:.2g}")
        else:
            lines.append(f"   best possible: distance {r['best']:.2g}")
    show_lines(lines, console)
