"""The puzzles as a playground. The page computes weights as answers change; this checks, solves and explains."""

from __future__ import annotations

import re
from typing import Any

from starlette.routing import Route

from headtohead.errors import InputError
from headtohead.puzzles import ALL, WITHIN, Puzzle, puzzle
from headtohead.puzzles.base import listed
from headtohead.web.answers import answered
from headtohead.web.bench import Bench

NEAR_BEST = 0.005  # a distance this near to the smallest possible one counts as the smallest
MOST_KEYS = 12  # that the page draws
Given = dict[str, Any]  # inputs of a puzzle, or an answer, by name
SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def routes(bench: Bench) -> list[Route]:  # noqa: ARG001  (as every page)
    return [
        Route("/api/puzzles", answered(every_puzzle)),
        Route("/api/puzzles/one", answered(one_puzzle)),
        Route("/api/puzzles/changed/look", answered(changed_puzzle), methods=["POST"]),
        Route("/api/puzzles/check/look", answered(check), methods=["POST"]),
        Route("/api/puzzles/solve/look", answered(solve), methods=["POST"]),
    ]


def every_puzzle() -> dict[str, Any]:
    return {"puzzles": [{"number": p.number, "name": p.name, "title": p.title} for p in ALL.values()]}


def one_puzzle(which: str) -> dict[str, Any]:
    return shown(puzzle(which))


def changed_puzzle(which: str, given: Given) -> dict[str, Any]:
    """A puzzle with other inputs, such as keys of the user's."""
    return shown(_posed(which, given))


def check(which: str, given: Given, answer: Given) -> dict[str, Any]:
    """Check an answer. Some puzzles have no right answer: then one that nothing can improve on counts."""
    posed = _posed(which, given)
    checked, best = posed.check(WITHIN, **_named(answer)), posed.solve(WITHIN)
    is_best = not best.ok and not checked.measured.fault and checked.distance <= best.distance + NEAR_BEST
    return {**checked.to_json(), "best": best.distance, "possible": best.ok, "is_best": is_best}


def solve(which: str, given: Given) -> dict[str, Any]:
    return _posed(which, given).solve(WITHIN).to_json()


def shown(posed: Puzzle) -> dict[str, Any]:
    """A puzzle with its texts, its inputs and what the page needs to compute the weights."""
    _one_thread(posed)
    values = posed.to_json()
    target = getattr(posed, "target", None)  # of puzzles about keys
    return {
        **values,
        "number": posed.number,
        "question": getattr(posed, "question", posed.statement),
        "target": None if target is None else listed(target),
        "limits": posed.limits,
        "hints": hints(posed),
        "within": WITHIN,
        "material": {name: listed(value) for name, value in posed.material().items()},
    }


def hints(posed: Puzzle) -> list[str]:
    """The first sentences of the explanation, one by one."""
    return SENTENCE.split(posed.explanation)[:3]


def _posed(which: str, given: Given) -> Puzzle:
    posed = puzzle(which, **_named(given))
    keys = getattr(posed, "keys", ())
    if len(keys) > MOST_KEYS:
        raise InputError(f"the page draws at most {MOST_KEYS} keys: use h2h puzzles for more")
    _one_thread(posed)
    return posed


def _named(values: Given) -> Given:
    """The values, unless a name would be taken for an argument of ours."""
    for name in values:
        if not name.isidentifier() or name in ("which", "within"):
            raise InputError(f"there is no input '{name[:40]}': reload the page and try again")
    return values


def _one_thread(posed: Puzzle) -> None:
    """Use one thread for the small models of puzzles 7 to 13; the others need no torch."""
    if not hasattr(posed, "keys"):
        import torch

        torch.set_num_threads(1)
