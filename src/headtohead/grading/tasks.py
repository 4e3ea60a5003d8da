"""Small tasks with a known best result, drawn from a seed, for figures that a submission must reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headtohead.errors import InputError, nearest

TRAINING, TEST = 512, 256  # texts


@dataclass(frozen=True)
class Texts:
    """Texts to train on and to test on. `labels` are classes, or None for a language model."""

    ids: np.ndarray  # (texts, T)
    mask: np.ndarray  # (texts, T), True at tokens
    labels: np.ndarray | None

    def part(self, first: int, last: int) -> Texts:
        labels = None if self.labels is None else self.labels[first:last]
        return Texts(self.ids[first:last], self.mask[first:last], labels)


@dataclass(frozen=True)
class Task:
    """A task and what can be reached in it."""

    metric: str  # accuracy, or perplexity
    texts: Texts
    best: float  # that anything can reach

    @property
    def training(self) -> Texts:
        return self.texts.part(0, TRAINING)

    @property
    def test(self) -> Texts:
        return self.texts.part(TRAINING, TRAINING + TEST)


def make_task(name: str, seed: int, vocab: int, block: int, classes: int) -> Task:
    """Draw a task. Another seed gives other texts and other rules."""
    if name == "majority":
        return _majority(seed, vocab, block, classes)
    if name == "chain":
        return _chain(seed, vocab, block)
    raise InputError(f"no task '{name}': {nearest(name, ['majority', 'chain'])}")


def _majority(seed: int, vocab: int, block: int, classes: int) -> Task:
    """Which of the classes' own tokens is in the text most often? Texts have several lengths; 0 is padding."""
    if vocab < classes + 3:
        raise InputError(f"the task majority needs a vocabulary of {classes + 3} or more, not {vocab}")
    draw = np.random.default_rng(seed)
    n = TRAINING + TEST
    own = 1 + draw.permutation(vocab - 1)[:classes]
    others = np.setdiff1d(np.arange(1, vocab), own)
    lengths = draw.integers(max(4, block // 2), block + 1, n)
    labels = draw.integers(0, classes, n)
    ids = draw.choice(others, (n, block))
    for row in range(n):
        places = draw.permutation(lengths[row])
        most = min(3, lengths[row] - 1)
        ids[row, places[:most]] = own[labels[row]]
        ids[row, places[most : most + 1]] = own[draw.integers(0, classes)]
    mask = np.arange(block) < lengths[:, None]
    return Task("accuracy", Texts(np.where(mask, ids, 0), mask, labels), 1.0)


def _chain(seed: int, vocab: int, block: int) -> Task:
    """Each token depends on the one before it, and on nothing else. The best perplexity is that of the chain."""
    draw = np.random.default_rng(seed)
    n = TRAINING + TEST
    likely = draw.dirichlet(np.full(vocab, 0.1), vocab)
    sums = likely.cumsum(axis=1)
    ids = np.zeros((n, block), dtype=np.int64)
    ids[:, 0] = draw.integers(0, vocab, n)
    for t in range(1, block):
        ids[:, t] = (draw.random(n)[:, None] > sums[ids[:, t - 1]]).sum(axis=1).clip(max=vocab - 1)
    test = ids[TRAINING:]
    best = float(np.exp(-np.log(likely[test[:, :-1], test[:, 1:]]).mean()))
    return Task("perplexity", Texts(ids, np.ones_like(ids, dtype=bool), None), best)
