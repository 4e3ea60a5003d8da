"""Position encodings: how the model learns where a token stands.

The attention equation calls every hook, always; a position overrides those its paper speaks of:

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )

Shapes: x (B, T, D) in `embed` with i (B|1, T); q, k (B, H, T, d) with i (B|1, 1, T, 1) and j (B|1, 1, 1, T) in `rotate`
and `bias`, whose result broadcasts to (B, H, T, T).
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.spec import Dims, Part, knob


class LayerHooks(Protocol):
    """What the attention of one layer asks of a position."""

    @property
    def scale(self) -> float: ...
    def rotate(self, x: Tensor, i: Tensor) -> Tensor: ...
    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor | None: ...


class PositionHooks(nn.Module):
    """A position at work. Every hook is neutral until overridden."""

    scale: float = 1.0

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        """Token embeddings x (B, T, D), positioned."""
        return x

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        """Queries or keys x (B, H, T, d), turned by their position."""
        return x

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor | None:
        """What is added to the scores, or None for nothing."""
        return None

    def layer(self, n: int) -> LayerHooks:
        """The hooks of layer n, for positions with weights of their own in every layer."""
        return self


class Position(Part, family="position"):
    """How the model learns where a token stands."""

    # What a position says of itself; the audit proves it.
    relative: ClassVar[bool] = False  # attention depends on i − j alone
    decays: ClassVar[bool] = False  # the bias falls with |i − j|, before and after the query

    @abc.abstractmethod
    def build(self, dims: Dims) -> PositionHooks: ...


class NoPosition(Position):
    """No position at all: a causal model still tells order by what each token can see."""

    equation: ClassVar[str] = "x_i = e_i"
    reference: ClassVar[str] = "Haviv et al. 2022, Transformer Language Models without Positional Encodings"
    relative: ClassVar[bool] = True

    def build(self, dims: Dims) -> PositionHooks:
        return PositionHooks()


class Learned(Position):
    """One learned vector per position, added to the token's."""

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
    """Fixed sines and cosines of many wavelengths, added to the token's vector."""

    equation: ClassVar[str] = "x_i = e_i + amplitude · [sin(i·w_0), cos(i·w_0), sin(i·w_1), …],  w_m = base^(−2m/D)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.5"

    base: float = knob(default=10_000.0, gt=1, help="the longest wavelength is 2π times this")
    amplitude: float = knob(
        default=1.0, gt=0, help="size beside the token embeddings; it matters when those start small"
    )

    def build(self, dims: Dims) -> PositionHooks:
        if dims.width % 2:
            raise InputError(f"Sinusoidal needs an even width, not {dims.width}: sines and cosines come in pairs")
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
    """A penalty on the scores that grows with distance, steeper in some heads than in others."""

    equation: ClassVar[str] = "bias_ij = −m_h · |i − j|,  m_h = 2^(−8h/H) for h = 1 … H, or one given slope"
    reference: ClassVar[str] = "Press et al. 2021, Train Short, Test Long"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    slope: float | None = knob(default=None, gt=0, help="one slope for every head; none: geometric slopes")

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
        # The distance without its sign: with a signed one an encoder would favour the tokens that come later.
        return -self.slopes * (i - j).abs()


class Rope(Position):
    """Queries and keys are turned by an angle proportional to their position, so scores depend on the offset."""

    equation: ClassVar[str] = (
        "rotate(x, i) turns the pair (x_m, x_{m+r/2}) by the angle i · theta^(−2m/r),  r = fraction · d"
    )
    reference: ClassVar[str] = "Su et al. 2021, RoFormer"
    relative: ClassVar[bool] = True

    theta: float = knob(default=10_000.0, gt=1, help="the slowest pair turns once in 2π times this many tokens")
    fraction: float = knob(
        default=1.0, gt=0, le=1, help="share of each head that is turned; the rest carries no position"
    )

    def build(self, dims: Dims) -> PositionHooks:
        turned = round(self.fraction * dims.head_width)
        if turned % 2 or turned == 0:
            raise InputError(
                f"Rope turns pairs, and {self.fraction:g} of a head of width {dims.head_width} is {turned}: "
                "choose a fraction or a head width that gives an even number above zero"
            )
        return RopeHooks(turned, self.theta)


class RopeHooks(PositionHooks):
    frequencies: Tensor

    def __init__(self, turned: int, theta: float) -> None:
        super().__init__()
        self.turned = turned
        self.register_buffer("frequencies", _frequencies(turned, theta), persistent=False)

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        angle = i * self.frequencies  # (B|1, 1, T, r/2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b, rest = x.split([self.turned // 2, self.turned // 2, x.shape[-1] - self.turned], dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


class Disentangled(Position):
    """Content and relative position meet in separate terms: content-to-position and position-to-content.

    Both terms use the offset i − j, as the published models do; the paper writes j − i in the second.
    """

    equation: ClassVar[str] = (
        "a_ij ∝ ( q_i·k_j + q_i·K[δ(i,j)] + k_j·Q[δ(i,j)] ) / sqrt(terms·d),  δ = clamp(i − j + span, 0, 2·span − 1), "
        "K = P·W_k and Q = P·W_q per layer"
    )
    reference: ClassVar[str] = "He et al. 2020, DeBERTa"
    relative: ClassVar[bool] = True

    span: int = knob(default=16, ge=1, help="offsets beyond ± span share one vector")
    terms: Literal["both", "content-to-position", "position-to-content"] = knob(
        default="both", help="which of the two crossed terms are there"
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
    """The terms of one layer; its weights are registered in DisentangledHooks."""

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

    buckets: int = knob(default=32, ge=4, help="how many; half of them for each side where both sides count")
    max_distance: int = knob(default=128, ge=2, help="all offsets beyond share the last bucket")
    sides: Literal["both", "past"] = knob(
        default="both", help="past: keys after the query share the bucket of offset 0"
    )
    scaled: bool = knob(default=True, help="divide scores by sqrt(d) as everywhere else; T5 itself does not")

    def check(self) -> None:
        exact = self.buckets // (4 if self.sides == "both" else 2)
        if self.buckets % 2 or self.max_distance <= exact:
            raise InputError(
                f"RelativeBias needs an even number of buckets and a max_distance above {exact}, "
                f"not {self.buckets} and {self.max_distance}"
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
        """The bucket of i − j: half the buckets hold one offset each, the rest grow logarithmically."""
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


def _frequencies(width: int, base: float) -> Tensor:
    """base^(−2m/width) for m = 0 … width/2 − 1."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
