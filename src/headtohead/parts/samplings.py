"""Samplings: which windows or labelled texts a step reads. A function of (seed, step) only; imports no torch."""

from __future__ import annotations

import abc
import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from headtohead.spec import Part, knob
from headtohead.spec.streams import stream


class Sampling(Part, family="sampling", of="train"):
    """Which windows of the text are in a batch of a language model."""

    @abc.abstractmethod
    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        """Return the start (B,) of each window in this step, from 0 to windows − 1."""

    @abc.abstractmethod
    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        """Return the number of steps in one epoch."""

    def texts(self, count: int, batch: int, seed: int, step: int) -> np.ndarray:
        """Return which of `count` labelled texts are in this step. Each epoch reads every text once, in a new order."""
        return in_passes(count, batch, seed, step)


class RandomWindows(Sampling):
    """Windows at random positions, with replacement."""

    equation: ClassVar[str] = "start ~ U{0, …, n − T − 1};  an epoch reads as many tokens as the text has"
    reference: ClassVar[str] = "nanoGPT's get_batch"

    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        return _generator(seed, step).integers(0, windows, batch)

    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        return math.ceil(windows / (block * batch))


class ShuffledWindows(Sampling):
    """Windows that start at every `stride`-th token, each once per epoch, in a new random order each epoch."""

    equation: ClassVar[str] = "start ∈ stride · permutation(0, …, ⌈(n − T)/stride⌉ − 1)"
    reference: ClassVar[str] = "a shuffled DataLoader over strided windows, as in the course reports"

    stride: int = knob(default=1, ge=1, help="tokens from the start of one window to the next")

    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        return self.stride * in_passes(math.ceil(windows / self.stride), batch, seed, step)

    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        return math.ceil(math.ceil(windows / self.stride) / batch)


class HalfOfText(Sampling):
    """A random half of the training data, or the other half; steps stay as many. The difference between the two halves
    shows how much a result depends on the choice of training text.

    Running text is cut into pieces, of which half are read, because neighbouring windows are alike.
    """

    equation: ClassVar[str] = "start ∈ the pieces π(1), …, π(n/2) of n pieces, or the others;  π a permutation"
    reference: ClassVar[str] = "McCarthy 1969, Pseudo-Replication: Half Samples"

    within: Sampling = knob(default=RandomWindows(), help="which windows of the half form a batch")
    draw: int = knob(default=0, ge=0, help="another number divides the text differently")
    other: bool = knob(default=False, help="read the other half")
    pieces: int = knob(default=64, ge=2, help="pieces that a running text is cut into")

    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        half = _half(windows, self.pieces, self.draw, self.other)
        return half[self.within.starts(len(half), batch, seed, step)]

    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        return self.within.steps_per_epoch(windows, block, batch)

    def texts(self, count: int, batch: int, seed: int, step: int) -> np.ndarray:
        half = _half(count, count, self.draw, self.other)
        return half[self.within.texts(len(half), batch, seed, step)]


@lru_cache(maxsize=4)
def _half(count: int, pieces: int, draw: int, other: bool) -> np.ndarray:
    """The numbers 0 … count − 1 that are in half of the pieces, in order. All of them where there is only one."""
    pieces = min(pieces, count)
    order = np.random.Generator(np.random.Philox(key=stream(draw, "half"))).permutation(pieces)
    half = order[pieces // 2 :] if other else order[: pieces // 2]
    piece = np.arange(count) * pieces // count
    found = np.flatnonzero(np.isin(piece, half))
    return found if len(found) else np.arange(count)


def in_passes(count: int, batch: int, seed: int, step: int) -> np.ndarray:
    """Return the items of one step: each epoch is a new permutation of 0 … count − 1, cut into batches.

    The last batch of an epoch may be smaller.
    """
    epoch, n = divmod(step, math.ceil(count / batch))
    return _permutation(count, seed, epoch)[n * batch : (n + 1) * batch].copy()


@lru_cache(maxsize=2)
def _permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    return _generator(seed, epoch).permutation(count)


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=stream(seed, "order", number)))
