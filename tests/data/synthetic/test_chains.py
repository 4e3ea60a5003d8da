"""Chains: the stated optimum is that of the posterior, and no other simple forecast is better."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead import Bigrams


def test_the_optimum_counts_pairs_so_far() -> None:
    task = Bigrams(length=20, vocab=3)
    examples = task.draw(np.random.default_rng(0), 30)
    nats, right = 0.0, 0
    for ids, answers in zip(examples.ids.tolist(), examples.answers.tolist(), strict=True):
        for t, (now, following) in enumerate(zip(ids, answers, strict=True)):
            counts = [1 + sum(ids[s] == now and ids[s + 1] == k for s in range(t)) for k in range(3)]
            nats -= math.log(counts[following] / sum(counts))
            right += counts.index(max(counts)) == following
    best = task.optimum(examples)
    assert best.loss == pytest.approx(nats / 600)
    assert best.accuracy == pytest.approx(right / 600)


def test_the_answer_is_the_next_symbol() -> None:
    examples = Bigrams().draw(np.random.default_rng(0), 50)
    assert (examples.answers[:, :-1] == examples.ids[:, 1:]).all()


def test_other_smoothing_is_worse() -> None:
    task = Bigrams()
    examples = task.draw(np.random.default_rng(3), 4000)
    best = task.optimum(examples).loss
    for prior in (0.5, 2.0):
        rows, nats, seen = np.arange(4000), 0.0, np.full((4000, 4, 4), prior)
        for now, following in zip(examples.ids.T, examples.answers.T, strict=True):
            nats -= np.log(seen[rows, now, following] / seen[rows, now].sum(axis=1)).sum()
            seen[rows, now, following] += 1
        assert nats / examples.ids.size > best
