"""Batches: each a function of (tokens, seed, step) alone, never of the model. Numpy only.

Shapes: B texts, T tokens. ids (B, T), targets (B, T) or (B,), keep (B, T), true at real tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headtohead.errors import InputError
from headtohead.parts.samplings import in_passes


@dataclass(frozen=True)
class Batch:
    ids: np.ndarray
    targets: np.ndarray
    keep: np.ndarray | None = None

    @property
    def tokens(self) -> int:
        return int(self.ids.size if self.keep is None else self.keep.sum())


# -- running text ------------------------------------------------------------------------------------------------------


def windows_in(tokens: np.ndarray, block: int, what: str = "the training text") -> int:
    """How many windows of `block` tokens, each with its next tokens, there are."""
    if len(tokens) < block + 1:
        raise InputError(
            f"{what} has {len(tokens):,} tokens and one window needs {block + 1}: "
            "give more text, or a smaller model.block"
        )
    return len(tokens) - block


def windows(tokens: np.ndarray, starts: np.ndarray, block: int) -> Batch:
    taken = tokens[starts[:, None] + np.arange(block + 1)].astype(np.int64)
    return Batch(taken[:, :-1], taken[:, 1:])


# -- sentences ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    """Labelled token sequences, laid end to end."""

    tokens: np.ndarray  # (all tokens,)
    offsets: np.ndarray  # (N + 1,)
    labels: np.ndarray  # (N,)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def sentence_steps(count: int, batch: int) -> int:
    return math.ceil(count / batch)


def shuffled_sentences(items: Encoded, block: int, batch: int, seed: int, step: int) -> Batch:
    """Each sentence once an epoch, in a new order every epoch."""
    return sentences(items, in_passes(len(items), batch, seed, step), block)


def sentences(items: Encoded, which: np.ndarray, block: int) -> Batch:
    """Cut to the block, padded on the right to the longest of the batch. A sentence without tokens keeps one
    padding token, so that every row has something to look at."""
    lengths = np.clip(items.offsets[which + 1] - items.offsets[which], 1, block)
    places = np.arange(lengths.max())
    keep = places < lengths[:, None]
    # a place beyond the sentence reads some other token, which keep then hides
    taken = items.tokens[np.minimum(items.offsets[which, None] + places, len(items.tokens) - 1)]
    empty = items.offsets[which + 1] == items.offsets[which]
    ids = np.where(keep & ~empty[:, None], taken, 0).astype(np.int64)
    return Batch(ids, items.labels[which], keep)
