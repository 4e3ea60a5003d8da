"""Samplings: which windows of a running text a step trains on. A function of (seed, step) alone. Numpy only."""

from __future__ import annotations

import abc
import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from headtohead.spec import Part, knob
from headtohead.streams import stream


class Sampling(Part, family="sampling", of="train"):
    """Which windows of the text a language model's batch holds."""

    @abc.abstractmethod
    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        """(B,) where each window of this step begins; windows may begin at 0 … windows − 1."""

    @abc.abstractmethod
    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        """Steps in one pass."""


class RandomWindows(Sampling):
    """Windows at random places, with replacement."""

    equation: ClassVar[str] = "start ~ U{0, …, n − T − 1};  a pass shows as many tokens as there are"
    reference: ClassVar[str] = "nanoGPT's get_batch"

    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        return _draw(seed, step).integers(0, windows, batch)

    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        return math.ceil(windows / (block * batch))


class ShuffledWindows(Sampling):
    """Windows at every `stride`-th token, each once a pass, in a new random order every pass."""

    equation: ClassVar[str] = "start ∈ stride · permutation(0, …, ⌈(n − T)/stride⌉ − 1)"
    reference: ClassVar[str] = "a shuffled DataLoader over strided windows, as in the documents"

    stride: int = knob(default=1, ge=1, help="tokens between the starts of neighbouring windows")

    def starts(self, windows: int, batch: int, seed: int, step: int) -> np.ndarray:
        return self.stride * in_passes(math.ceil(windows / self.stride), batch, seed, step)

    def steps_per_epoch(self, windows: int, block: int, batch: int) -> int:
        return math.ceil(math.ceil(windows / self.stride) / batch)


def in_passes(count: int, batch: int, seed: int, step: int) -> np.ndarray:
    """The step's share of a fresh permutation of `count` things a pass; the last batch of a pass may be smaller."""
    epoch, place = divmod(step, math.ceil(count / batch))
    return _permutation(count, seed, epoch)[place * batch : (place + 1) * batch].copy()


@lru_cache(maxsize=2)
def _permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    return _draw(seed, epoch).permutation(count)


def _draw(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=stream(seed, "order", number)))
