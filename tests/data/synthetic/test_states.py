"""States: answers recomputed one symbol after another."""

from __future__ import annotations

import pytest

from headtohead import Brackets, InputError, ModularAddition, Parity, StateTracking
from helpers.synthetic import pairs_of, rows


@pytest.mark.parametrize("each", [True, False])
def test_parity_counts_ones(each: bool) -> None:
    for symbols, answers in rows(Parity(each=each)):
        expected = [str(symbols[: t + 1].count("1") % 2) for t in range(len(symbols))]
        assert answers == (expected if each else [*[None] * 15, expected[-1]])


def test_sums_are_modular() -> None:
    for symbols, t, answer in pairs_of(ModularAddition(terms=3, modulus=11)):
        assert (t, symbols[3]) == (3, "=")
        assert int(answer) == sum(map(int, symbols[:3])) % 11


def test_states_of_s5_are_composed_permutations() -> None:
    for symbols, answers in rows(StateTracking(group="S5"), 50):
        state = [1, 2, 3, 4, 5]
        for x, answer in zip(symbols, answers, strict=True):
            state = [int(x[i - 1]) for i in state]  # first what was so far, then x
            assert answer == "".join(map(str, state))


def test_states_of_a_product_are_those_of_its_factors() -> None:
    for symbols, answers in rows(StateTracking(group="Z4xZ3"), 50):
        total = [0, 0]
        for x, answer in zip(symbols, answers, strict=True):
            total = [(a + int(b)) % n for a, b, n in zip(total, x.split("/"), (4, 3), strict=True)]
            assert answer == f"{total[0]}/{total[1]}"


@pytest.mark.parametrize("task", [Brackets(), Brackets(depth=2), Brackets(kinds=8, length=3)], ids=str)
def test_brackets_close_what_is_open(task: Brackets) -> None:
    for symbols, answers in rows(task):
        stack: list[str] = []
        for symbol, answer in zip(symbols, answers, strict=True):
            if symbol.startswith("("):
                stack.append(symbol.removeprefix("("))
                assert answer is None
            else:
                assert stack.pop() == symbol.removesuffix(")")
                assert answer == (f"{stack[-1]})" if stack else None)
            assert len(stack) <= task.depth


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(InputError, match="there is no group 'Q8'"):
        StateTracking(group="Q8")
