"""Base of mixers that keep a state of fixed size instead of all keys: chunked for training, one step for generation.

    S_t = decay_t · S_(t−1) + k_tᵀ v_t,    o_t = q_t · S_t          (B, H, dk, dv): one matrix per text and head

A mixer of this kind reads from left to right. Where the pattern of its layer shows later tokens too (`Full()` in a
classifier), it reads the text in both directions with the same weights and takes the mean. Padding leaves the state as
it is. Shapes: B texts, T tokens, H heads, dk width of keys, dv width of values, C tokens of a chunk.
"""

from __future__ import annotations

import abc
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.decay import decays_within
from headtohead.parts.mixers.mixer import Mixer, MixerHooks
from headtohead.parts.patterns import Pattern
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache

STATE = "state"  # names in a layer's cache: the state, and the last inputs of a mixer's short convolution
INPUTS = "inputs"
CHUNK = 64  # tokens that are compared pair by pair; more costs time, fewer makes products small


def _both_directions(pattern: Pattern) -> bool:
    return not pattern.is_causal(64)


class RecurrentMixer(Mixer):
    """A mixer that reads from left to right, or in both directions where the pattern shows later tokens."""

    def allowed(self, pattern: Pattern, i: Any, j: Any) -> Any:
        return (i >= 0) & (j >= 0) if _both_directions(pattern) else j <= i


class Recurrent(MixerHooks):
    """The module of a recurrent mixer. Subclasses write `read`."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.both = _both_directions(layer.pattern)

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        """Return what `read` gets, (B, T, …): x as texts. Subclasses may add what both directions have in common."""
        return mask.texts(x)

    @abc.abstractmethod
    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        """Read texts x (B, T, …) from left to right and return (B, T, D). x is zero where `keep` (B, T) is false; these
        tokens must not change the state. The state before the text is in the cache, if there is one, and the state
        after it is stored there."""

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        texts, keep = self.project(x, mask, position, cache), mask.keep
        y = self.read(texts, keep, cache)
        if self.both:
            back = self.read(texts.flip(1), None if keep is None else keep.flip(1), None)
            y = (y + back.flip(1)) / 2
        return mask.like(y, x)


def heads(x: Tensor, count: int) -> Tensor:
    """Split (B, T, H·d) into heads (B, H, T, d)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(o: Tensor) -> Tensor:
    """Join heads (B, H, T, d) to (B, T, H·d)."""
    return o.transpose(1, 2).flatten(2)


def repeated(x: Tensor, count: int) -> Tensor:
    """Repeat each head of x (B, H, T, …) for `count` heads that follow each other."""
    return x if count == 1 else x.repeat_interleave(count, dim=1)


def kept(x: Tensor, keep: Tensor | None) -> Tensor:
    """Set x (B, H, T, …) to zero at padding."""
    return x if keep is None else x * keep.view(len(keep), 1, -1, *[1] * (x.dim() - 3))


def scan(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, state: Tensor | None = None, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """Return o_t = q_t · S_t for S_t = exp(g_t) · S_(t−1) + k_tᵀ v_t, and the last state.

    q and k (B, H, T, dk), v (B, H, T, dv), g (B, H, T) at most 0, or None for no decay; state (B, H, dk, dv) or None
    for zeros. Time and memory grow linearly with T: within a chunk all pairs of tokens are compared, and a state is
    passed from chunk to chunk. The result does not depend on `chunk`, up to rounding.
    """
    B, H, T, dk = k.shape
    state = k.new_zeros(B, H, dk, v.shape[-1]) if state is None else state
    if T == 1:
        state = k.transpose(-1, -2) * v + (state if g is None else state * g.exp()[..., None])
        return q @ state, state
    q, k, v = (in_chunks(x, chunk) for x in (q, k, v))  # (B, H, N, C, d)
    scores = (q @ k.transpose(-1, -2)).tril()
    if g is None:
        o, news, decays = scores @ v, k.transpose(-1, -2) @ v, None
    else:
        between, since, until = decays_within(in_chunks(g, chunk))
        o = (scores * between) @ v
        news = (k * until).transpose(-1, -2) @ v
        decays, q = since[..., -1:, :], q * since
    before = []  # the state before each chunk
    moves = (None,) * q.shape[2] if decays is None else decays.unbind(dim=2)
    for new, move in zip(news.unbind(dim=2), moves, strict=True):  # indexing would cost quadratic time in backward
        before.append(state)
        state = new + (state if move is None else state * move)
    o = o + q @ torch.stack(before, dim=2)
    return o.flatten(2, 3)[:, :, :T], state


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Split (B, H, T, …) into chunks (B, H, N, C, …), the last one filled with zeros."""
    length = x.shape[2]
    size = min(chunk, length)
    missing = -length % size
    if missing:
        x = F.pad(x, (0, 0) * (x.dim() - 3) + (0, missing))
    return x.unflatten(2, (-1, size))
