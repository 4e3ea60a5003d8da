"""Position encodings: how the model receives the position of a token.

The model calls every hook of the position, and a position overrides the hooks that its paper describes:

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )

Shapes in `embed`: x (B, T, D), i (B|1, T). Shapes in `rotate` and `bias`: q and k (B, H, T, d), i (B|1, 1, T, 1),
j (B|1, 1, 1, T). The result of `bias` broadcasts to (B, H, T, T).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.spec import Dims, Part, knob


class LayerHooks(Protocol):
    """What the attention of one layer calls on a position."""

    @property
    def scale(self) -> float: ...
    def rotate(self, x: Tensor, i: Tensor) -> Tensor: ...
    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor | None: ...


class PositionHooks(nn.Module):
    """The module of a position. A hook that is not overridden changes nothing."""

    scale: float = 1.0

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        """Add positions i (B|1, T) to the token embeddings x (B, T, D)."""
        return x

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        """Rotate queries or keys x (B, H, T, d) by their positions i."""
        return x

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor | None:
        """Return what is added to the scores, or None."""
        return None

    def layer(self, n: int) -> LayerHooks:
        """Return the hooks of layer n. Override this for a position that has weights in every layer."""
        return self


class Position(Part, family="position"):
    """How the model receives the position of a token."""

    # Claims about the position; the audit checks them.
    relative: ClassVar[bool] = False  # attention depends only on i − j
    decays: ClassVar[bool] = False  # the bias falls with |i − j|, on both sides of the query
    # It rotates queries and keys, so that mixers without a bias of scores can use it too.
    rotates: ClassVar[bool] = False
    reads_vectors: ClassVar[bool] = False  # the bias depends on queries and keys, not only on i and j

    @abc.abstractmethod
    def build(self, dims: Dims) -> PositionHooks:
        """Build the module."""


class NoPosition(Position):
    """No position encoding. A causal model can still infer the order, because each token sees only earlier tokens."""

    equation: ClassVar[str] = "x_i = e_i"
    reference: ClassVar[str] = "Haviv et al. 2022, Transformer Language Models without Positional Encodings"
    relative: ClassVar[bool] = True

    def build(self, dims: Dims) -> PositionHooks:
        return PositionHooks()


class Learned(Position):
    """One learned vector per position, added to the token embedding."""

    equation: ClassVar[str] = "x_i = e_i + p[i]"
    reference: ClassVar[str] = "Radford et al. 2019 (GPT-2); Devlin et al. 2018 (BERT)"

    def build(self, dims: Dims) -> PositionHooks:
        return LearnedHooks(dims)


class LearnedHooks(PositionHooks):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.table = nn.Embedding(dims.block, dims.width)

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        return x + self.table(i)


class Sinusoidal(Position):
    """Fixed sines and cosines of many wavelengths, added to the token embedding."""

    equation: ClassVar[str] = "x_i = e_i + amplitude · [sin(i·w_0), cos(i·w_0), sin(i·w_1), …],  w_m = base^(−2m/D)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.5"

    base: float = knob(default=10_000.0, gt=1, help="the longest wavelength is 2π times this many tokens")
    amplitude: float = knob(default=1.0, gt=0, help="size of the waves; it matters when token embeddings start small")

    def build(self, dims: Dims) -> PositionHooks:
        if dims.width % 2:
            raise InputError(f"Sinusoidal needs an even width, for pairs of sine and cosine; the width is {dims.width}")
        return SinusoidalHooks(dims, self)


class SinusoidalHooks(PositionHooks):
    frequencies: Tensor

    def __init__(self, dims: Dims, spec: Sinusoidal) -> None:
        super().__init__()
        self.amplitude = spec.amplitude
        self.register_buffer("frequencies", _frequencies(dims.width, spec.base), persistent=False)

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        angle = i[..., None] * self.frequencies  # (B|1, T, D/2)
        waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # interleaved: sin, cos, sin, cos, …
        return x + self.amplitude * waves.to(x.dtype)


class Alibi(Position):
    """A penalty on the scores that grows linearly with distance, with a different slope in each head."""

    equation: ClassVar[str] = "bias_ij = −m_h · |i − j|,  m_h = 2^(−8h/H) for h = 1 … H, or one given slope"
    reference: ClassVar[str] = "Press et al. 2021, Train Short, Test Long"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    slope: float | None = knob(default=None, gt=0, help="the same slope for every head; none: 2^(−8h/H) for head h")

    def build(self, dims: Dims) -> PositionHooks:
        return AlibiHooks(dims, self)


class AlibiHooks(PositionHooks):
    slopes: Tensor

    def __init__(self, dims: Dims, spec: Alibi) -> None:
        super().__init__()
        geometric = [2 ** (-8 * h / dims.heads) for h in range(1, dims.heads + 1)]
        slopes = torch.tensor(geometric if spec.slope is None else [spec.slope] * dims.heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)  # (H, 1, 1)

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        # Without abs(), an encoder would favour later tokens.
        return -self.slopes * (i - j).abs()


class Rope(Position):
    """Queries and keys rotated by an angle proportional to their position, so that scores depend on the offset."""

    equation: ClassVar[str] = (
        "rotate(x, i) rotates the pair (x_m, x_{m+r/2}) by the angle i · theta^(−2m/r),  r = fraction · d"
    )
    reference: ClassVar[str] = "Su et al. 2021, RoFormer"
    relative: ClassVar[bool] = True
    rotates: ClassVar[bool] = True

    theta: float = knob(
        default=10_000.0, gt=1, help="the slowest pair makes one turn in about 2π times this many tokens"
    )
    fraction: float = knob(
        default=1.0, gt=0, le=1, help="share of each head that is rotated; the rest carries no position"
    )

    def build(self, dims: Dims) -> PositionHooks:
        rotated = round(self.fraction * dims.head_width)
        if rotated % 2 or rotated == 0:
            raise InputError(
                f"Rope rotates pairs, but {self.fraction:g} of a head of width {dims.head_width} is {rotated}: "
                "choose a fraction or a head width that gives an even number above zero"
            )
        return RopeHooks(rotated, self.theta)


class RopeHooks(PositionHooks):
    frequencies: Tensor

    def __init__(self, rotated: int, theta: float) -> None:
        super().__init__()
        self.rotated = rotated
        self.register_buffer("frequencies", _frequencies(rotated, theta), persistent=False)

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        angle = i * self.frequencies  # (B|1, 1, T, r/2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b, rest = x.split([self.rotated // 2, self.rotated // 2, x.shape[-1] - self.rotated], dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


class Disentangled(Position):
    """Separate score terms for content and relative position: content-to-position and position-to-content.

    Both terms use the offset i − j, as the published models do. The paper writes j − i in the second term.
    """

    equation: ClassVar[str] = (
        "a_ij ∝ ( q_i·k_j + q_i·K[δ(i,j)] + k_j·Q[δ(i,j)] ) / sqrt(terms·d),  δ = clamp(i − j + span, 0, 2·span − 1), "
        "K = P·W_k and Q = P·W_q per layer"
    )
    reference: ClassVar[str] = "He et al. 2020, DeBERTa"
    relative: ClassVar[bool] = True
    reads_vectors: ClassVar[bool] = True

    span: int = knob(default=16, ge=1, help="offsets beyond ± span share the vector at ± span")
    terms: Literal["both", "content-to-position", "position-to-content"] = knob(
        default="both", help="which of the two position terms are used"
    )

    def build(self, dims: Dims) -> PositionHooks:
        return DisentangledHooks(dims, self)


class DisentangledHooks(PositionHooks):
    def __init__(self, dims: Dims, spec: Disentangled) -> None:
        super().__init__()
        self.table = nn.Embedding(2 * spec.span, dims.width)  # P, shared by all layers
        size = dims.heads * dims.head_width
        keys, queries = spec.terms != "position-to-content", spec.terms != "content-to-position"
        self.keys = nn.ModuleList(nn.Linear(dims.width, size) for _ in range(dims.layers if keys else 0))
        self.queries = nn.ModuleList(nn.Linear(dims.width, size) for _ in range(dims.layers if queries else 0))
        self.heads, self.span = dims.heads, spec.span
        self.scale = 1 / math.sqrt(1 + keys + queries)

    def layer(self, n: int) -> LayerHooks:
        return DisentangledLayer(self, n)


class DisentangledLayer:
    """The position terms of one layer. The weights belong to DisentangledHooks."""

    def __init__(self, shared: DisentangledHooks, n: int) -> None:
        self.shared, self.n, self.scale = shared, n, shared.scale

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        return x

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        p, span = self.shared, self.shared.span
        offset = (i - j + span).clamp(0, 2 * span - 1)  # (B|1, 1, Tq, Tk)
        offset = offset.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        bias = torch.zeros((), dtype=q.dtype, device=q.device)
        if p.keys:
            towards_position = q @ self._heads(p.keys[self.n]).transpose(-1, -2)  # (B, H, Tq, 2·span)
            bias = bias + towards_position.gather(-1, offset)
        if p.queries:
            towards_content = k @ self._heads(p.queries[self.n]).transpose(-1, -2)  # (B, H, Tk, 2·span)
            bias = bias + towards_content.gather(-1, offset.transpose(-1, -2)).transpose(-1, -2)
        return bias * (self.scale / math.sqrt(q.shape[-1]))

    def _heads(self, project: nn.Module) -> Tensor:
        return (
            project(self.shared.table.weight).unflatten(-1, (self.shared.heads, -1)).transpose(0, 1)
        )  # (H, 2·span, d)


class RelativeBias(Position):
    """One learned number per head and distance bucket, added to the scores and shared by all layers."""

    equation: ClassVar[str] = "bias_ij = b_h[bucket(i − j)],  exact for near offsets, logarithmic up to max_distance"
    reference: ClassVar[str] = "Raffel et al. 2020 (T5), section 2.1"
    relative: ClassVar[bool] = True

    buckets: int = knob(default=32, ge=4, help="number of buckets; with sides=both, half of them for each side")
    max_distance: int = knob(default=128, ge=2, help="larger distances share the last bucket")
    sides: Literal["both", "past"] = knob(default="both", help="past: later keys share the bucket of offset 0")
    scaled: bool = knob(default=True, help="divide scores by sqrt(d); T5 does not")

    def check(self) -> None:
        exact = self.buckets // (4 if self.sides == "both" else 2)
        if self.buckets % 2 or self.max_distance <= exact:
            raise InputError(
                f"RelativeBias needs an even number of buckets and a max_distance above {exact}: "
                f"it has {self.buckets} buckets and a max_distance of {self.max_distance}"
            )

    def build(self, dims: Dims) -> PositionHooks:
        return RelativeBiasHooks(dims, self)


class RelativeBiasHooks(PositionHooks):
    def __init__(self, dims: Dims, spec: RelativeBias) -> None:
        super().__init__()
        self.spec = spec
        self.scale = 1.0 if spec.scaled else math.sqrt(dims.head_width)
        self.table = nn.Parameter(torch.empty(spec.buckets, dims.heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.table[self.bucket(i - j)[:, 0]].permute(0, 3, 1, 2)  # (B|1, H, Tq, Tk)

    def bucket(self, offset: Tensor) -> Tensor:
        """Return the bucket of each offset i − j: half the buckets hold one offset, the others grow logarithmically."""
        s = self.spec
        if s.sides == "both":
            buckets, later = s.buckets // 2, (offset < 0) * (s.buckets // 2)
            distance = offset.abs()
        else:
            buckets, later = s.buckets, torch.zeros_like(offset)
            distance = offset.clamp(min=0)
        exact = buckets // 2
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(s.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return later + torch.where(distance < exact, distance, far)


class LayeredHooks(PositionHooks):
    """Positions that differ from layer to layer: one module for each position part, used in its own layers."""

    def __init__(self, positions: Sequence[Position], dims: Dims) -> None:
        super().__init__()
        kinds = list(dict.fromkeys(positions))
        self.parts = nn.ModuleList(part.build(replace(dims, layers=positions.count(part))) for part in kinds)
        # which part a layer has, and how many earlier layers have the same part
        self.places = [(kinds.index(part), positions[:n].count(part)) for n, part in enumerate(positions)]
        for part, built in zip(kinds, self.parts, strict=True):
            if type(built).embed is not PositionHooks.embed:  # type: ignore[attr-defined]
                raise InputError(
                    f"{part} is added to the embeddings, before the first layer, so it cannot differ from layer to "
                    "layer: choose positions that act in attention, such as Rope, Alibi or NoPosition"
                )

    def layer(self, n: int) -> LayerHooks:
        part, index = self.places[n]
        hooks = self.parts[part]
        assert isinstance(hooks, PositionHooks)
        return hooks.layer(index)


def _frequencies(width: int, base: float) -> Tensor:
    """base^(−2m/width) for m = 0 … width/2 − 1."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
