"""Recall: answers recomputed from the printed symbols with a dictionary."""

from __future__ import annotations

import pytest

from headtohead import FuzzyRecall, InContextRecall, InputError, Mqar, MultiHop
from helpers.synthetic import pairs_of, rows

MQAR = [
    Mqar(),
    Mqar(pairs=4, least_pairs=1, length=40),
    Mqar(pairs=3, questions=20),
    Mqar(pairs=10, keys=10, values=10),
]


@pytest.mark.parametrize("task", MQAR, ids=str)
def test_mqar_answers_are_the_values_of_the_keys(task: Mqar) -> None:
    for symbols, answers in rows(task):
        value_of: dict[str, str] = {}
        for key, value in zip(symbols[0 : 2 * task.pairs : 2], symbols[1 : 2 * task.pairs : 2], strict=True):
            if key != ".":
                assert key not in value_of, "no key twice"
                value_of[key] = value
        assert len(set(value_of.values())) == len(value_of)
        assert answers[: 2 * task.pairs] == [None] * (2 * task.pairs)
        after = list(zip(symbols, answers, strict=True))[2 * task.pairs :]
        assert all(answer == value_of.get(symbol) for symbol, answer in after), "and every key after the pairs is asked"
        asked = [symbol for symbol, answer in after if answer is not None]
        assert len(symbols) == task.length
        if task.questions:
            assert len(asked) == task.questions
        else:
            assert sorted(asked) == sorted(value_of)


def test_mqar_questions_stand_anywhere_after_the_pairs() -> None:
    places = {t for _, t, _ in pairs_of(Mqar(pairs=2, length=12))}
    assert places == set(range(4, 12))


@pytest.mark.parametrize(
    "task", [InContextRecall(), InContextRecall(noise=0.25, keys=5), InContextRecall(length=11, noise=0.5)]
)
def test_in_context_recall_answers_repeated_keys(task: InContextRecall) -> None:
    for symbols, answers in rows(task):
        value_of: dict[str, str] = {}
        for t, (symbol, answer) in enumerate(zip(symbols, answers, strict=True)):
            if symbol.startswith("k"):
                assert answer == value_of.get(symbol)
                assert value_of.setdefault(symbol, symbols[t + 1]) == symbols[t + 1]
            else:
                assert answer is None
        noise = sum(symbol.startswith("n") for symbol in symbols)
        assert noise == pytest.approx(task.noise * task.length, abs=2)
        assert len(symbols) == task.length


@pytest.mark.parametrize(
    "task", [FuzzyRecall(), FuzzyRecall(widest=3, keys=8), FuzzyRecall(widest=1, length=16)], ids=str
)
def test_fuzzy_recall_answers_the_values_of_repeated_keys(task: FuzzyRecall) -> None:
    widths = set()
    for symbols, answers in rows(task):
        value_of: dict[str, str] = {}
        expected: list[str | None] = [None] * len(symbols)
        at = 0
        for pair in " ".join(symbols).split(" ;"):
            key, mark, value = pair.strip().partition(" : ")
            words = value.split()
            if mark and key in value_of:
                known = value_of[key].split()
                assert words == known[: len(words)]
                colon = at + len(key.split())
                for n, word in enumerate(known):
                    if colon + n < len(symbols):
                        expected[colon + n] = word
            elif mark and f"{' '.join(symbols)} ".find(f"{pair.strip()} ;") >= 0:
                value_of[key] = value
                widths.add(len(key.split()))
            at += len(pair.split()) + 1
        for t, (want, answer) in enumerate(zip(expected, answers, strict=True)):
            if want is not None:
                assert answer == want, (symbols, t)
            elif answer is not None:  # the last pair is cut before its value
                assert symbols[t] == ":"
                assert t == len(symbols) - 1
    assert widths == set(range(1, task.widest + 1))


@pytest.mark.parametrize("task", [MultiHop(), MultiHop(hops=1), MultiHop(facts=5, hops=4, questions=5)], ids=str)
def test_multi_hop_answers_follow_the_facts(task: MultiHop) -> None:
    for symbols, t, answer in pairs_of(task):
        facts = dict(zip(symbols[0 : 2 * task.facts : 2], symbols[1 : 2 * task.facts : 2], strict=True))
        assert len(facts) == task.facts
        assert symbols[t - 1] == "?"
        found = symbols[t]
        for _ in range(task.hops):
            found = facts[found]
        assert found == answer
    assert all(sum(a is not None for a in answers) == task.questions for _, answers in rows(task, 20))


def test_the_facts_form_one_circle() -> None:
    for symbols, _ in rows(MultiHop(facts=6), 50):
        facts = dict(zip(symbols[0:12:2], symbols[1:12:2], strict=True))
        at, seen = symbols[0], set()
        while at not in seen:
            seen.add(at)
            at = facts[at]
        assert len(seen) == 6


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Mqar(pairs=20), "make length larger"),
        (lambda: Mqar(pairs=9, values=8), "make keys and values larger"),
        (lambda: Mqar(least_pairs=9), "make it smaller"),
        (lambda: InContextRecall(length=9), "add or take one"),
        (lambda: FuzzyRecall(keys=9), "make vocab larger"),
        (lambda: MultiHop(hops=8), "give more facts"),
        (lambda: MultiHop(facts=17), "make vocab larger"),
    ],
)
def test_impossible_examples_are_refused(made, says: str) -> None:
    with pytest.raises(InputError, match=says):
        made()
