"""The document's answers held against ours, and against what softmax makes of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.puzzles import puzzle
from headtohead.puzzles.base import WITHIN, listed, row
from headtohead.puzzles.published import UNIT, answers

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Row:
    """One published answer."""

    puzzle: int
    title: str
    says: str
    printed: Any  # the figures in the document; none where there are none
    difference: float | None  # the largest between them and ours from the recovered keys
    reproduced: bool | None  # to the last printed digit
    weights: Any  # that the answer gives
    distance: float | None
    right: bool | None
    best: float  # the distance of the best answer there is

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rows() -> list[Row]:
    found = []
    for number, said in answers().items():
        posed = puzzle(number)
        best = posed.solve().distance
        if said.answer is None:
            found.append(Row(number, posed.title, said.says, None, None, None, None, None, None, best))
            continue
        ours = next(iter(said.answer.values()))
        off = None if said.printed is None else float(np.abs(ours - said.printed).max())
        measured = posed.measure(said.answer)
        found.append(
            Row(
                *(number, posed.title, said.says, listed(said.printed), off, None if off is None else off <= UNIT),
                *(listed(measured.weights), measured.distance, measured.is_right(WITHIN), best),
            )
        )
    return found


def show(found: list[Row], console: Console) -> None:
    from headtohead.puzzles.base import show_lines

    lines = []
    for r in found:
        lines += [f"{r.puzzle}  {r.title}", f"   published: {r.says}"]
        if r.difference is not None:
            lines.append(
                f"   figures: ours differ by at most {r.difference:.1g}; half of the last printed digit is {UNIT:g}"
            )
        lines += [f"   weights  {row(np.array(w))}" for w in r.weights or ()]
        if r.distance is not None:
            verdict = "right" if r.right else "not within"
            lines.append(f"   distance {r.distance:.2g} ({verdict} {WITHIN:g}); the best there is: {r.best:.2g}")
        else:
            lines.append(f"   the best there is: distance {r.best:.2g}")
    show_lines(lines, console)
