"""The puzzles as the page asks for them."""

from __future__ import annotations

import pytest

from headtohead.errors import InputError
from headtohead.puzzles import ALL
from headtohead.web import puzzles

NAMES = [p.name for p in ALL.values()]


def test_all_fourteen_are_listed():
    assert [p["name"] for p in puzzles.every_puzzle()["puzzles"]] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_best_answer_counts_as_solved(name):
    posed = puzzles.one_puzzle(name)
    assert posed["hints"] == [h for h in posed["hints"] if h in posed["explanation"]] != []
    best = puzzles.solve(name, {})
    checked = puzzles.check(name, {}, best["answer"])
    assert checked["ok"] or checked["is_best"]
    assert checked["possible"] == best["ok"]
    assert checked["ok"] == (name not in ("unit-key", "linear"))  # no answer to these two is near enough


def test_a_poor_answer_to_an_impossible_puzzle_is_not_solved():
    checked = puzzles.check("linear", {}, {"slope": 5})
    assert not checked["ok"]
    assert not checked["is_best"]
    assert checked["best"] < checked["distance"]


def test_a_key_of_another_length_is_never_the_best():
    assert not puzzles.check("unit-key", {}, {"key": [9.0, 9.0, 0.2]})["is_best"]


def test_a_changed_question_has_other_inputs():
    changed = puzzles.changed_puzzle("rotary", {"back": 5})
    assert "5 back" in changed["question"]
    assert puzzles.changed_puzzle("select", {"keys": [[1, 0, 0], [0, 1, 0]]})["target"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: puzzles.one_puzzle("nothing"), "there is no puzzle"),
        (lambda: puzzles.check("select", {}, {}), "asks for --query"),
        (lambda: puzzles.check("select", {}, {"query": [1, 2]}), "takes 3 numbers"),
        (lambda: puzzles.check("select", {}, {"within": 1}), "there is no input 'within'"),
        (lambda: puzzles.check("select", {"which": 2}, {}), "there is no input 'which'"),
        (lambda: puzzles.check("select", {"a b": 2}, {}), "there is no input"),
        (lambda: puzzles.check("first", {}, {"score": float("nan")}), "not finite"),
        (lambda: puzzles.solve("select", {"keys": [[n, 1, 2] for n in range(40)]}), "at most 12 keys"),
    ],
)
def test_wrong_requests_get_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
