"""Many pieces of work: in order, or as they finish."""

from __future__ import annotations

from threading import Event

from headtohead.sandbox import Nursery
from headtohead.sandbox.batch import as_finished, in_order


def test_a_piece_is_given_when_it_is_finished() -> None:
    second_done = Event()

    def run(piece: str, _: Nursery) -> str:
        if piece == "slow":
            assert second_done.wait(20)
        return piece.upper()

    found = as_finished(["slow", "quick"], run, [], 2)
    assert next(found) == (1, "QUICK")
    second_done.set()
    assert list(found) == [(0, "SLOW")]


def test_pieces_are_given_in_order() -> None:
    second_done = Event()

    def run(piece: str, _: Nursery) -> str:
        second_done.set() if piece == "quick" else second_done.wait(20)
        return piece.upper()

    assert list(in_order(["slow", "quick", "last"], run, [], 2)) == ["SLOW", "QUICK", "LAST"]
