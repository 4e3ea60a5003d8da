"""Chains: the next symbol is random, and the best possible forecast of it is known.

Shapes: N examples, T symbols, K different symbols.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headtohead.data.synthetic.synthetic import Examples, Level, Synthetic, named
from headtohead.spec import knob


class Bigrams(Synthetic):
    """A Markov chain with new transitions in every example; the answer is the next symbol. No model foresees it: the
    best one counts what followed each symbol so far."""

    equation: ClassVar[str] = "p(b after a) ~ Dirichlet(1, …, 1);  best forecast (n_ab + 1) / (n_a + K)"
    reference: ClassVar[str] = "Edelman et al. 2024, The Evolution of Statistical Induction Heads"
    separates: ClassVar[str] = "models that count pairs in the context from those that count single symbols"

    length: int = knob(default=64, ge=2, help="T, symbols of an example")
    vocab: int = knob(default=4, ge=2, help="K, different symbols")

    @property
    def symbols(self) -> tuple[str, ...]:
        return named("a", self.vocab)

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        share = rng.exponential(size=(count, self.vocab, self.vocab))
        below = np.cumsum(share / share.sum(axis=2, keepdims=True), axis=2)[:, :, :-1]
        x = np.empty((count, self.length + 1), np.int64)
        x[:, 0] = rng.integers(0, self.vocab, count)
        for t, u in enumerate(rng.random((self.length, count, 1))):
            x[:, t + 1] = (below[np.arange(count), x[:, t]] < u).sum(axis=1)
        return Examples(x[:, :-1], x[:, 1:])

    def optimum(self, examples: Examples) -> Level:
        """Return what counting reaches on these examples. It is the best on average over all examples."""
        rows, right, nats = np.arange(len(examples)), 0.0, 0.0
        seen = np.ones((len(examples), self.vocab, self.vocab))
        for now, following in zip(examples.ids.T, examples.answers.T, strict=True):
            p = seen[rows, now] / seen[rows, now].sum(axis=1, keepdims=True)  # (N, K)
            right += float((p.argmax(axis=1) == following).sum())
            nats -= float(np.log(p[rows, following]).sum())
            seen[rows, now, following] += 1
        return Level(right / examples.ids.size, nats / examples.ids.size)
