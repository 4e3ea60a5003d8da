"""Batches: a batch depends only on tokens, seed and step. Imports no torch.

Shapes: B texts, T tokens. ids (B, T), targets (B, T) or (B,), keep (B, T), which is true at real tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headtohead.errors import InputError


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of one step."""

    ids: np.ndarray
    targets: np.ndarray
    keep: np.ndarray | None = None

    @property
    def tokens(self) -> int:
        return int(self.ids.size if self.keep is None else self.keep.sum())

    def split(self, pieces: int) -> list[Batch]:
        """Cut the batch into pieces of nearly the same number of texts, at most one per text."""
        rows = np.array_split(np.arange(len(self.ids)), min(pieces, len(self.ids)))
        return [Batch(self.ids[r], self.targets[r], None if self.keep is None else self.keep[r]) for r in rows]


def windows_in(tokens: np.ndarray, block: int, what: str = "the training text") -> int:
    """Return the number of windows of `block` tokens that have a next token for each."""
    if len(tokens) < block + 1:
        raise InputError(
            f"{what} has {len(tokens):,} tokens and one window needs {block + 1}: "
            "give more text, or a smaller model.block"
        )
    return len(tokens) - block


def windows(tokens: np.ndarray, starts: np.ndarray, block: int) -> Batch:
    """Return the windows that begin at `starts`; each target is the next token."""
    taken = tokens[starts[:, None] + np.arange(block + 1)].astype(np.int64)
    return Batch(taken[:, :-1], taken[:, 1:])


@dataclass(frozen=True)
class Encoded:
    """Labelled token sequences, concatenated."""

    tokens: np.ndarray  # (all tokens,)
    offsets: np.ndarray  # (N + 1,)
    labels: np.ndarray  # (N,)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def sentences(items: Encoded, which: np.ndarray, block: int) -> Batch:
    """Return these sentences, cut to the block and padded on the right to the longest one.

    A sentence without tokens keeps one padding token as real, so that every row has a key to attend to.
    """
    lengths = np.clip(items.offsets[which + 1] - items.offsets[which], 1, block)
    positions = np.arange(lengths.max())
    keep = positions < lengths[:, None]
    # positions beyond a sentence read some other token, which `keep` hides
    taken = items.tokens[np.minimum(items.offsets[which, None] + positions, len(items.tokens) - 1)]
    empty = items.offsets[which + 1] == items.offsets[which]
    ids = np.where(keep & ~empty[:, None], taken, 0).astype(np.int64)
    return Batch(ids, items.labels[which], keep)
