"""Sets and batches of synthetic tasks: nothing shared between training and tests, the same from the same seed, no
answer that can be guessed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2

from headtohead import Compression, Copying, Induction, InputError, ModularAddition, Mqar, Parity, Spec
from headtohead.data.synthetic import Examples, Synthetic
from headtohead.data.synthetic.synthetic import NO_ANSWER
from headtohead.spec import knob
from helpers.synthetic import TASKS, rows

EVERY = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
RANDOM = [task for task in TASKS if task.name != "bigrams"]  # answers that the symbols decide


def seen(examples: Examples) -> set[bytes]:
    return {row.tobytes() for row in examples.ids}


@EVERY
def test_symbols_are_different_words(task: Synthetic) -> None:
    assert len(set(task.symbols)) == len(task.symbols)
    assert all(symbol == symbol.strip() and len(symbol.split()) == 1 for symbol in task.symbols)
    assert task.separates
    assert 2 <= task.choices <= len(task.symbols)


@EVERY
def test_every_example_asks_and_its_answers_are_symbols(task: Synthetic) -> None:
    for examples in (*task.sets().values(), task.batch(32, 0, 0)):
        assert examples.ids.shape == examples.answers.shape
        assert examples.asked.any(axis=1).all()
        assert examples.ids.min() >= 0
        assert set(np.unique(examples.answers)) <= {NO_ANSWER, *range(len(task.symbols))}
        assert examples.ids.max() < len(task.symbols)


@EVERY
def test_no_example_is_in_two_sets(task: Synthetic) -> None:
    sets = {name: seen(examples) for name, examples in task.sets().items()}
    fixed = dataclasses.replace(task, examples=500).train()
    assert fixed is not None
    sets["train"] = seen(fixed) | set().union(
        *(seen(task.batch(64, seed, step)) for seed in (0, 1) for step in range(5))
    )
    test = sets.pop("test").union(*(sets.pop(name) for name in task.others()))
    assert not test & sets["train"]
    assert not test & sets["validation"]
    assert not sets["train"] & sets["validation"]


@EVERY
def test_held_out_examples_are_different(task: Synthetic) -> None:
    for examples in task.sets().values():
        assert len(seen(examples)) == len(examples)
        assert 0 < len(examples) <= task.tested


@EVERY
def test_the_same_seed_draws_the_same(task: Synthetic) -> None:
    again = Spec.from_json(task.to_json())
    one, other = task.batch(16, 3, 5), again.batch(16, 3, 5)
    assert (one.ids == other.ids).all()
    assert (one.answers == other.answers).all()
    assert again.fingerprint() == task.fingerprint()
    for seed, step in ((3, 6), (4, 5)):
        assert (task.batch(16, seed, step).ids != one.ids).any()
    assert dataclasses.replace(task, seed=1).fingerprint() != task.fingerprint()


@EVERY
def test_a_batch_does_not_depend_on_earlier_ones(task: Synthetic) -> None:
    alone = task.batch(8, 0, 7)
    for step in range(7):
        task.batch(8, 0, step)
    assert (task.batch(8, 0, 7).ids == alone.ids).all()


@pytest.mark.parametrize("task", RANDOM, ids=lambda task: task.name)
def test_answers_are_equally_likely(task: Synthetic) -> None:
    """One answer of each example, because those of one example depend on each other."""
    found = task.draw(np.random.default_rng(1), 6000)
    first = found.answers[np.arange(6000), found.asked.argmax(axis=1)]
    counts = np.unique(first, return_counts=True)[1]
    assert len(counts) == task.choices
    expected = 6000 / task.choices
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-6, task.choices - 1)


@pytest.mark.parametrize("task", RANDOM, ids=lambda task: task.name)
def test_an_answer_does_not_depend_on_its_position(task: Synthetic) -> None:
    """The best guess for each position, fitted to half of the examples, is no better than chance on the other half."""
    found = task.draw(np.random.default_rng(2), 8000)
    right = asked = 0
    for own in found.answers.T:
        fitted, judged = own[:4000][own[:4000] >= 0], own[4000:][own[4000:] >= 0]
        if len(fitted) and len(judged):
            right += int((judged == np.bincount(fitted).argmax()).sum())
            asked += len(judged)
    chance = asked / task.choices
    assert right < chance + 0.06 * asked


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_guessing_is_stated(task: Synthetic) -> None:
    assert task.guess.accuracy == pytest.approx(1 / task.choices)
    assert task.guess.loss == pytest.approx(np.log(task.choices))
    best = task.optimum(task.sets()["test"])
    assert task.guess.loss > best.loss >= 0
    assert task.guess.accuracy < best.accuracy <= 1
    assert (best == (1.0, 0.0)) == (task.name != "bigrams")


def test_further_test_sets_have_other_knobs() -> None:
    task = Mqar(least_pairs=1, test_pairs=(2, 5), tested=50)
    assert list(task.sets()) == ["validation", "test", "pairs_2", "pairs_5"]
    assert task.others()["pairs_5"] == Mqar(pairs=5, tested=50)
    assert set((task.sets()["pairs_5"].asked.sum(axis=1)).tolist()) == {5}
    assert set((task.sets()["test"].asked.sum(axis=1)).tolist()) == set(range(1, 9))
    assert Copying(length=4, test_length=(8, 32)).longest == 64


def test_examples_that_ask_nothing_are_left_out() -> None:
    task = Induction(length=3, test_length=(), tested=100)
    assert not task.draw(np.random.default_rng(0), 100).asked.any(axis=1).all()
    for examples in (*task.sets().values(), task.batch(50, 0, 0)):
        assert examples.asked.any(axis=1).all()


def test_a_set_with_other_symbols_is_refused() -> None:
    class LongerCompression(Compression):
        """Asks for places that training does not know."""

        test_length: tuple[int, ...] = knob(default=(12,), help="further test sets")

    with pytest.raises(InputError, match="other symbols"):
        LongerCompression().sets()


def test_a_small_task_gives_what_it_has() -> None:
    sums = ModularAddition(modulus=7)
    sets = sums.sets()
    assert sum(map(len, sets.values())) < 49
    train = dataclasses.replace(sums, examples=1000).train()
    assert train is not None
    assert len(train) + sum(map(len, sets.values())) == 49, "each of the 7 · 7 sums is in exactly one set"


def test_a_task_without_enough_examples_is_refused() -> None:
    with pytest.raises(InputError, match="too few different examples"):
        Parity(length=1, test_length=(), held=0.01).sets()


def test_examples_that_show_their_answers_are_known() -> None:
    shown = {task.name for task in TASKS if task.sets()["validation"].are_shown}
    assert shown == {"copying", "in-context-recall", "fuzzy-recall", "bigrams"}


def test_texts_and_labels_are_refused() -> None:
    with pytest.raises(InputError, match="no running text"):
        Mqar().texts()
    with pytest.raises(InputError, match="no labels"):
        Mqar().sentences()


@EVERY
def test_names_are_made_from_the_class(task: Synthetic) -> None:
    assert task.name.replace("-", "") == type(task).__name__.lower()


def test_rows_are_names_and_answers() -> None:
    symbols, answers = next(rows(Parity(length=3)))
    assert set(symbols) <= {"0", "1"}
    assert len(answers) == 3
