"""The tasks of figures: the same seed gives the same texts, and the best result is what it says."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.grading.tasks import TEST, TRAINING, make_task


@pytest.mark.parametrize("name", ["majority", "chain"])
def test_a_seed_gives_the_same_texts_and_another_seed_others(name: str) -> None:
    a, b, c = (make_task(name, seed, 23, 20, 3) for seed in (1, 1, 2))
    assert np.array_equal(a.texts.ids, b.texts.ids)
    assert not np.array_equal(a.texts.ids, c.texts.ids)
    assert (len(a.training.ids), len(a.test.ids)) == (TRAINING, TEST)


def test_counting_the_classes_own_tokens_solves_majority() -> None:
    task = make_task("majority", 3, 23, 20, 3)
    labels = task.texts.labels
    assert labels is not None
    counts = np.stack([(task.texts.ids == token).sum(axis=1) for token in range(23)], axis=1)
    best = [counts[labels == label].mean(axis=0)[1:].argmax() + 1 for label in range(3)]
    assert (counts[:, best].argmax(axis=1) == labels).mean() > 0.99
    assert ((task.texts.ids == 0) == ~task.texts.mask).all()


def test_counts_of_pairs_reach_the_best_perplexity_of_the_chain() -> None:
    task = make_task("chain", 3, 11, 20, 0)
    counts = np.full((11, 11), 0.01)
    np.add.at(counts, (task.training.ids[:, :-1], task.training.ids[:, 1:]), 1)
    likely = counts / counts.sum(axis=1, keepdims=True)
    test = task.test.ids
    reached = float(np.exp(-np.log(likely[test[:, :-1], test[:, 1:]]).mean()))
    assert task.best < reached < 1.05 * task.best


def test_an_unknown_task_or_a_small_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean chain"):
        make_task("chan", 0, 9, 9, 3)
    with pytest.raises(InputError, match="needs a vocabulary of 6"):
        make_task("majority", 0, 5, 9, 3)
