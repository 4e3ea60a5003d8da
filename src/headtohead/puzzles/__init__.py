"""Attention puzzles: what a query, a key or a head can select and average.

from headtohead.puzzles import puzzle
puzzle(1).solve().found.answer["query"]
puzzle(3).check(query=[0, 0, 0]).ok
"""

from __future__ import annotations

import dataclasses
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.puzzles.base import WITHIN, Answer, Checked, Puzzle
from headtohead.puzzles.contents import Copy, Induction, Majority
from headtohead.puzzles.keys import AverageAll, AverageTwo, Identity, SelectFirst, ThirdToo, UnitThird, Weights
from headtohead.puzzles.places import FirstToken, LinearBack, Previous, RotaryBack

__all__ = ["ALL", "WITHIN", "Answer", "Checked", "Puzzle", "puzzle", "split"]

ALL: dict[int, type[Puzzle]] = {
    p.number: p
    for p in (
        *(SelectFirst, Identity, AverageAll, AverageTwo, ThirdToo, UnitThird),
        *(Previous, FirstToken, Copy, Majority, Induction, RotaryBack, LinearBack, Weights),
    )
}


def puzzle(which: int | str, **given: Any) -> Puzzle:
    """The puzzle with this number or name. `given` replaces its default inputs: `puzzle(1, keys=…)`."""
    by_name = {p.name: p for p in ALL.values()}
    text = str(which).strip().lower()
    kind = by_name.get(text) or (ALL.get(int(text)) if text.isdecimal() and len(text) < 10 else None)
    if kind is None:
        hint = nearest(text[:40], by_name)
        raise InputError(f"there is no puzzle '{text[:40]}': give a number from 1 to {max(ALL)} or a name; {hint}")
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in given:
        if name in kind.asks and name not in known:
            raise InputError(
                f"--{name} is the answer to puzzle {kind.number}: give it to h2h puzzles check {kind.number}"
            )
        if name not in known:
            changes = f"; the puzzle is changed by --{', --'.join(known)}" if known else ""
            raise InputError(
                f"puzzle {kind.number} takes no --{name}: its answer is --{', --'.join(kind.asks)}{changes}"
            )
    return kind(**given)


def split(which: int | str, options: dict[str, Any]) -> tuple[Puzzle, dict[str, Any]]:
    """Split options into the puzzle that they change and the answer that they give."""
    asks = puzzle(which).asks
    answer = {name: value for name, value in options.items() if name in asks}
    return puzzle(which, **{name: value for name, value in options.items() if name not in asks}), answer
