"""Base of mixers that keep a state of fixed size instead of all keys: chunked for training, one step for generation.

    S_t = decay_t · S_(t−1) + k_tᵀ v_t,    o_t = q_t · S_t          (B, H, dk, dv): one matrix per text and head

A mixer of this kind reads from left to right. Where the pattern of its layer shows later tokens too (`Full()` in a
classifier), it reads the text in both directions with the same weights and takes the mean. Padding leaves the state as
it is. Shapes: B texts, T tokens, H heads, dk width of keys, dv width of values, N chunks of C tokens.
"""

from __future__ import annotations

import abc
from typing import Any

import torch
from torch import Tensor, nn
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
LEAST = -64.0  # a decay of exp(−64) or less is zero up to rounding, also in double precision
SHOWN = 64  # the first tokens show whether a pattern has later keys: all pairs of a long text would take seconds


def _both_directions(pattern: Pattern) -> bool:
    return not pattern.is_causal(SHOWN)


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


class RecurrentHeads(Recurrent):
    """Base of recurrent mixers with the projections of attention: queries, keys and values of heads, and an output."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        D, H, d = layer.dims.width, layer.dims.heads, layer.dims.head_width
        kv_heads, biases = layer.kv_heads, layer.biases
        self.q = nn.Linear(D, H * d, bias=biases.q)
        self.k = nn.Linear(D, kv_heads * d, bias=biases.k)
        self.v = nn.Linear(D, kv_heads * d, bias=biases.v)
        with layer.seeded("qk_norm"):
            self.q_norm, self.k_norm = layer.qk_norm.build(d), layer.qk_norm.build(d)
        self.convolve = layer.convolution.build(layer, "B", (H + 2 * kv_heads) * d)
        with layer.seeded("fuse"):
            self.fuse = layer.fusion.build(layer.dims, layer.n)
        self.out = nn.Linear(H * d, D, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.heads, self.kv_heads = H, kv_heads
        self.widths = [H * d, kv_heads * d, kv_heads * d]  # of q, k and v

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        """Return q, k and v of all heads, (B, T, (H + 2 Hkv)·d)."""
        return mask.texts(self.convolve(torch.cat([self.q(x), self.k(x), self.v(x)], dim=-1), mask, cache))

    def split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return normed q (B, H, T, d) and k, and v (both B, Hkv, T, d)."""
        q, k, v = qkv.split_with_sizes(self.widths, dim=-1)
        return self.q_norm(heads(q, self.heads)), self.k_norm(heads(k, self.kv_heads)), heads(v, self.kv_heads)

    def grouped(self, x: Tensor) -> Tensor:
        """Give each head the key or value x (B, Hkv, T, …) of its group: (B, H, T, …)."""
        return x if self.kv_heads == self.heads else x.repeat_interleave(self.heads // self.kv_heads, dim=1)


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

    q and k (B, H, T, dk), v (B, H, T, dv), state (B, H, dk, dv) or None for zeros. The decays g, at most 0, are one per
    head (B, H, T), one per channel of the keys (B, H, T, dk), or None for no decay.

    Time and memory grow linearly with T: within a chunk all pairs of tokens are compared, and a state is passed from
    chunk to chunk. The result does not depend on `chunk`, up to rounding. No product has a factor above 1 for a decay,
    so nothing overflows however strong the decays are.
    """
    B, H, T, dk = k.shape
    state = k.new_zeros(B, H, dk, v.shape[-1]) if state is None else state
    if g is not None:
        g = (g[..., None] if g.dim() == 3 else g).clamp(min=LEAST)  # (B, H, T, 1 or dk)
    if T == 1:
        state = k.transpose(-1, -2) * v + (state if g is None else state * g.exp().transpose(-1, -2))
        return q @ state, state
    q, k, v = (in_chunks(x, chunk) for x in (q, k, v))  # (B, H, N, C, d)
    moves: tuple[Tensor | None, ...] = (None,) * q.shape[2]
    if g is None:
        o, news = (q @ k.transpose(-1, -2)).tril() @ v, k.transpose(-1, -2) @ v
    else:
        g = in_chunks(g, chunk)  # (B, H, N, C, 1 or dk)
        if g.shape[-1] == 1:
            between, since, until = decays_within(g[..., 0])
            o = (q @ k.transpose(-1, -2) * between) @ v
        else:
            total = g.cumsum(dim=-2)  # since the chunk began
            since, until = total.exp(), (total[..., -1:, :] - total).exp()
            o = _by_halves(q, k, v, total)
        news = (k * until).transpose(-1, -2) @ v
        moves, q = since[..., -1:, :].transpose(-1, -2).unbind(dim=2), q * since
    before = []  # the state before each chunk
    for new, move in zip(news.unbind(dim=2), moves, strict=True):  # indexing would cost quadratic time in backward
        before.append(state)
        state = new + (state if move is None else state * move)
    o = o + q @ torch.stack(before, dim=2)
    return o.flatten(2, 3)[:, :, :T], state


def _by_halves(q: Tensor, k: Tensor, v: Tensor, total: Tensor) -> Tensor:
    """Return o_i = Σ_j≤i Σ_c q_ic k_jc exp(total_ic − total_jc) v_j in each chunk, for decays per channel c.

    Between a key of the first half and a query of the second half lies the last token m of the first half. The decay
    exp(total_i − total_m) · exp(total_m − total_j) has two factors of at most 1, so each half can be multiplied by its
    own. The pairs within each half are found in the same way.
    """
    C = q.shape[-2]
    if C == 1:
        return (q * k).sum(dim=-1, keepdim=True) * v
    if C % 2:  # repeat the last token, which no other token sees
        return _by_halves(*(torch.cat([x, x[..., -1:, :]], dim=-2) for x in (q, k, v, total)))[..., :-1, :]
    q, k, v, total = (x.unflatten(-2, (2, C // 2)) for x in (q, k, v, total))
    first, second = _by_halves(q, k, v, total).unbind(dim=-3)
    middle = total[..., 0, -1:, :]
    queries = q[..., 1, :, :] * (total[..., 1, :, :] - middle).exp()
    keys = k[..., 0, :, :] * (middle - total[..., 0, :, :]).exp()
    second = second + (queries @ keys.transpose(-1, -2)) @ v[..., 0, :, :]
    return torch.cat([first, second], dim=-2)


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Split (B, H, T, …) into chunks (B, H, N, C, …), the last one filled with zeros."""
    length = x.shape[2]
    size = min(chunk, length)
    missing = -length % size
    if missing:
        x = F.pad(x, (0, 0) * (x.dim() - 3) + (0, missing))
    return x.unflatten(2, (-1, size))
