"""Residual connections: where the norm is placed around a sublayer f, and what follows the last block.

The residual stream x has shape (B, T, D), packed (N, D), or (B, D) for one token of each text. A wiring may widen it.
A layer has two sublayers: the mixer f and the feed-forward layer g.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.spec import Part, knob

Sublayer = Callable[[Tensor], Tensor]
MakeNorm = Callable[[], nn.Module]


class Wire(nn.Module):
    """Connects one sublayer f to the residual stream. It calls f exactly once."""

    def enter(self, x: Tensor, start: Tensor) -> Tensor:
        """Change the stream before the sublayer. `start` is what entered the first block."""
        return x

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + f(x)


class Residual(Part, family="residual"):
    """How a sublayer is connected to the residual stream."""

    @abc.abstractmethod
    def build(self, norm: MakeNorm) -> Wire:
        """Build the connection of one sublayer. Each call of `norm()` makes a new norm."""

    def build_in(self, layer: Layer, norm: MakeNorm, first: bool) -> Wire:
        """Build the connection of the first sublayer of a layer, the mixer, or of the second. Override this for a
        wiring that needs sizes."""
        return self.build(norm)

    def run(self, x: Tensor, around_f: Any, f: Sublayer, around_g: Any, g: Sublayer) -> Tensor:
        """Apply mixer f and feed-forward layer g to the stream, each with its connection."""
        return around_g(around_f(x, f), g)

    @property
    def streams(self) -> int:
        """How many vectors of width D the stream has for each token. It is the same in all layers of a model."""
        return 1

    def open(self, x: Tensor) -> Tensor:
        """Make the residual stream from what enters the first block."""
        return x

    def close(self, x: Tensor) -> Tensor:
        """Return vectors (…, D) from the residual stream after the last block."""
        return x

    def build_last(self, norm: MakeNorm) -> nn.Module:
        """Build what follows the last block: a norm, because the residual stream has none so far."""
        return norm()


class PreNorm(Residual):
    """A norm before each sublayer."""

    equation: ClassVar[str] = "x + f(norm(x)), and a norm after the last block"
    reference: ClassVar[str] = "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture"

    def build(self, norm: MakeNorm) -> Wire:
        return PreWire(norm)


class PreWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + f(self.norm(x))


class PostNorm(Residual):
    """A norm after each residual sum."""

    equation: ClassVar[str] = "norm(x + f(x))"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.1"

    def build(self, norm: MakeNorm) -> Wire:
        return PostWire(norm)

    def build_last(self, norm: MakeNorm) -> nn.Module:
        return nn.Identity()  # the last block ends with a norm


class PostWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return self.norm(x + f(x))


class Sandwich(Residual):
    """A norm before and a norm after each sublayer, none on the residual stream."""

    equation: ClassVar[str] = "x + norm'(f(norm(x))), and a norm after the last block"
    reference: ClassVar[str] = "Ding et al. 2021, CogView"

    def build(self, norm: MakeNorm) -> Wire:
        return SandwichWire(norm)


class SandwichWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm, self.norm_after = norm(), norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.norm_after(f(self.norm(x)))


class Parallel(Residual):
    """Mixer and feed-forward layer read the same stream, and both results are added at once."""

    equation: ClassVar[str] = "x + f(norm(x)) + g(norm(x)), and a norm after the last block"
    reference: ClassVar[str] = "Wang and Komatsuzaki 2021, GPT-J-6B; Chowdhery et al. 2022, PaLM, section 2"

    shared: bool = knob(default=True, help="one norm for both sublayers, as in GPT-J and PaLM; false: one each")

    def build(self, norm: MakeNorm) -> Wire:
        return PreWire(norm)

    def build_in(self, layer: Layer, norm: MakeNorm, first: bool) -> Wire:
        return PreWire(norm) if first or not self.shared else Wire()

    def run(self, x: Tensor, around_f: Any, f: Sublayer, around_g: Any, g: Sublayer) -> Tensor:
        h = around_f.norm(x)
        return x + f(h) + g(h if self.shared else around_g.norm(x))


class LayerScale(Residual):
    """The result of each sublayer is multiplied by a learned vector that starts small."""

    equation: ClassVar[str] = "x + g ⊙ f(norm(x)),  g learned, and a norm after the last block"
    reference: ClassVar[str] = "Touvron et al. 2021, Going Deeper with Image Transformers"

    start: float = knob(default=0.1, help="initial value of g; 0.1 for up to 18 layers in the paper, less for more")
    norm: Literal["before", "after", "both"] = knob(
        default="before", help="norm before f, on f's result before g, or both, as in Sandwich"
    )

    def build(self, norm: MakeNorm) -> Wire:
        raise NotImplementedError("it needs the width: call build_in")

    def build_in(self, layer: Layer, norm: MakeNorm, first: bool) -> Wire:
        return LayerScaleWire(self, layer.dims.width, norm)


class LayerScaleWire(Wire):
    def __init__(self, spec: LayerScale, width: int, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm() if spec.norm in ("before", "both") else nn.Identity()
        self.norm_after = norm() if spec.norm in ("after", "both") else nn.Identity()
        self.gains = nn.Parameter(torch.full((width,), spec.start))

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.gains * self.norm_after(f(self.norm(x)))


class LearnedScales(Residual):
    """Learned numbers weigh the stream and the embeddings before each block, and the result of each sublayer.

    At the start it equals PreNorm.
    """

    equation: ClassVar[str] = (
        "x ← a·x + b·x_0 before a block, then x + c·f(norm(x));  a, b, c learned, a = c = 1, b = 0"
    )
    reference: ClassVar[str] = "Jordan et al. 2024, modded-nanogpt, log of records (skip from the embedding)"

    embedding: float = knob(default=0.0, help="initial value of b, the weight of the embeddings x_0")
    sublayer: float = knob(default=1.0, help="initial value of c, the weight of a sublayer's result")

    def build(self, norm: MakeNorm) -> Wire:
        return ScaledWire(norm, self.sublayer)

    def build_in(self, layer: Layer, norm: MakeNorm, first: bool) -> Wire:
        return FirstScaledWire(norm, self) if first else ScaledWire(norm, self.sublayer)


class ScaledWire(Wire):
    def __init__(self, norm: MakeNorm, sublayer: float) -> None:
        super().__init__()
        self.norm = norm()
        self.of_sublayer = nn.Parameter(torch.tensor(sublayer))

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.of_sublayer * f(self.norm(x))


class FirstScaledWire(ScaledWire):
    """The wire of a block's first sublayer, which also mixes the embeddings into the stream."""

    def __init__(self, norm: MakeNorm, spec: LearnedScales) -> None:
        super().__init__(norm, spec.sublayer)
        self.of_stream = nn.Parameter(torch.tensor(1.0))
        self.of_embedding = nn.Parameter(torch.tensor(spec.embedding))

    def enter(self, x: Tensor, start: Tensor) -> Tensor:
        return self.of_stream * x + self.of_embedding * start


class HyperConnections(Residual):
    """Several residual streams for each token. Learned weights say what a sublayer reads, how the streams mix, and
    where its result is added. At the start it equals PreNorm."""

    equation: ClassVar[str] = (
        "H ← Aᵣᵀ H + bᵀ f(norm(aᵀ H)),  H (n, D) copies of the embedding at the start, Σ_n H_n after the last block; "
        "dynamic: a, Aᵣ, b plus s·tanh(norm(H) W)"
    )
    reference: ClassVar[str] = "Zhu et al. 2024, Hyper-Connections"

    count: int = knob(default=4, ge=1, le=64, help="n, number of streams")
    dynamic: bool = knob(default=True, help="the weights also depend on the streams")

    @property
    def streams(self) -> int:
        return self.count

    def build(self, norm: MakeNorm) -> Wire:
        raise NotImplementedError("it needs the width: call build_in")

    def build_in(self, layer: Layer, norm: MakeNorm, first: bool) -> Wire:
        return HyperWire(self, layer.dims.width, norm, read=(2 * layer.n + (not first)) % self.count)

    def open(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-2).repeat_interleave(self.count, dim=-2)  # (…, n, D)

    def close(self, x: Tensor) -> Tensor:
        return x.sum(dim=-2)


class HyperWire(Wire):
    """`read` is the stream that the sublayer reads at the start."""

    def __init__(self, spec: HyperConnections, width: int, norm: MakeNorm, read: int) -> None:
        super().__init__()
        n = spec.count
        self.norm = norm()
        reads = torch.zeros(n, 1)
        reads[read] = 1
        self.alpha = nn.Parameter(torch.cat([reads, torch.eye(n)], dim=1))  # (n, 1 + n): a and A_r
        self.beta = nn.Parameter(torch.ones(n))
        self.dynamic = spec.dynamic
        if spec.dynamic:
            self.norm_of_streams = norm()
            self.to_alpha = nn.Parameter(torch.zeros(width, n + 1))
            self.to_beta = nn.Parameter(torch.zeros(width))
            self.alpha_scale = nn.Parameter(torch.tensor(0.01))
            self.beta_scale = nn.Parameter(torch.tensor(0.01))

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        alpha: Tensor = self.alpha
        beta: Tensor = self.beta
        if self.dynamic:
            h = self.norm_of_streams(x)  # (…, n, D)
            alpha = alpha + self.alpha_scale * torch.tanh(h @ self.to_alpha)  # (…, n, 1 + n)
            beta = beta + self.beta_scale * torch.tanh(h @ self.to_beta)  # (…, n)
        mixed = alpha.transpose(-1, -2) @ x  # (…, 1 + n, D)
        result = f(self.norm(mixed[..., 0, :]))
        return mixed[..., 1:, :] + beta[..., None] * result.unsqueeze(-2)
