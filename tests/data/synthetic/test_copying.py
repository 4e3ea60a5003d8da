"""Copying: answers recomputed by reading the symbols from the left."""

from __future__ import annotations

import pytest

from headtohead import Compression, Copying, Induction, InputError, SelectiveCopying
from helpers.synthetic import pairs_of, rows


def test_induction_answers_with_what_followed_the_last_time() -> None:
    for symbols, answers in rows(Induction(vocab=5)):
        for t, answer in enumerate(answers):
            before = [s for s in range(t) if symbols[s] == symbols[t]]
            assert answer == (symbols[before[-1] + 1] if before else None)


@pytest.mark.parametrize("task", [Copying(), Copying(least_length=None), Copying(length=1), Copying(least_length=7)])
def test_copies_repeat_what_stands_before_the_mark(task: Copying) -> None:
    lengths = set()
    for symbols, answers in rows(task):
        n = symbols.index(">")
        lengths.add(n)
        assert symbols[n + 1 : 2 * n] == symbols[: n - 1]
        assert symbols[2 * n :] == ["."] * (len(symbols) - 2 * n)
        assert answers == [*[None] * n, *symbols[:n], *[None] * (len(symbols) - 2 * n)]
    assert lengths == set(range(task.least_length or task.length, task.length + 1))


def test_selective_copies_leave_out_blanks() -> None:
    for symbols, answers in rows(SelectiveCopying()):
        assert symbols[32:] == [">"] * 8
        assert answers[:32] == [None] * 32
        assert answers[32:] == [symbol for symbol in symbols[:32] if symbol != "."]


def test_compressed_symbols_are_asked_by_their_place() -> None:
    places = set()
    for symbols, t, answer in pairs_of(Compression()):
        assert symbols[8] == "|"
        place = int(symbols[t].removeprefix("@"))
        places.add((t, place))
        assert answer == symbols[place]
    assert len(places) == 64, "every place is asked at every position"


@pytest.mark.parametrize(
    "made", [lambda: Copying(length=4, least_length=5), lambda: SelectiveCopying(marked=9, length=8)]
)
def test_impossible_examples_are_refused(made) -> None:
    with pytest.raises(InputError, match="make"):
        made()
