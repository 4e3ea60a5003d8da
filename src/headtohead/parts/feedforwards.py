"""Feed-forward layers, applied to each token separately."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor, nn

from headtohead.spec import Dims, Part, knob

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2", "leaky_relu2"]
Inner = Callable[[Tensor], Tensor]  # what is applied to the hidden values before the activation


def activation(name: Activation) -> nn.Module:
    """Build the activation of that name. `gelu` is exact; `gelu_tanh` is the approximation that GPT-2 uses; `relu2` is
    from So et al. 2021, Primer, and `leaky_relu2` is leaky_relu(x, 0.5)²."""
    return {
        "relu": nn.ReLU(),
        "gelu": nn.GELU(),
        "gelu_tanh": nn.GELU(approximate="tanh"),
        "silu": nn.SiLU(),
        "relu2": Squared(nn.ReLU()),
        "leaky_relu2": Squared(nn.LeakyReLU(0.5)),
    }[name]


class Squared(nn.Module):
    """The square of an activation."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x).square()


class FeedForward(Part, family="feedforward"):
    """The layer after attention, applied to each token separately."""

    opens: ClassVar[bool] = False  # whether the module takes `inner`, for a convolution of the hidden values

    @property
    def by_token(self) -> bool:
        """Whether each token is computed without the other tokens of the batch; the audit checks this claim."""
        return True

    def inside(self, dims: Dims) -> int:
        """Return the number of hidden values of a token that `inner` is applied to; 0 without `opens`."""
        return 0

    @abc.abstractmethod
    def build(self, dims: Dims) -> nn.Module:
        """Build a module that maps (…, D) to (…, D). Set `into_residual = True` on a linear layer that writes into the
        residual stream: the initialisation scales such layers."""


class Mlp(FeedForward):
    """A linear layer up, an activation, a linear layer down."""

    equation: ClassVar[str] = "W_2 · act(W_1 · x + b_1) + b_2"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.3"

    activation: Activation = knob(
        default="gelu", help="relu, gelu (exact), gelu_tanh, silu, relu2 (the square) or leaky_relu2 (slope 0.5)"
    )
    hidden: int | None = knob(default=None, ge=1, help="hidden size; none: 4 times the width")
    bias: bool = knob(default=True, help="learn b_1 and b_2")

    opens: ClassVar[bool] = True

    def inside(self, dims: Dims) -> int:
        return self.hidden or 4 * dims.width

    def build(self, dims: Dims) -> nn.Module:
        return MlpLayers(dims.width, self.inside(dims), self)


class MlpLayers(nn.Module):
    def __init__(self, width: int, hidden: int, spec: Mlp) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=spec.bias)
        self.act = activation(spec.activation)
        self.down = nn.Linear(hidden, width, bias=spec.bias)
        self.down.into_residual = True  # type: ignore[assignment]

    def forward(self, x: Tensor, inner: Inner | None = None) -> Tensor:
        h = self.up(x)
        return self.down(self.act(h if inner is None else inner(h)))


class Gated(FeedForward):
    """Two linear layers up, one of which gates the other: SwiGLU with silu, GEGLU with gelu."""

    equation: ClassVar[str] = "W_2 · ( act(W_g · x) ⊙ (W_1 · x) )"
    reference: ClassVar[str] = "Shazeer 2020, GLU Variants Improve Transformer"

    activation: Activation = knob(
        default="silu", help="relu, gelu (exact), gelu_tanh, silu, relu2 (the square) or leaky_relu2 (slope 0.5)"
    )
    hidden: int | None = knob(
        default=None, ge=1, help="hidden size; none: 8/3 of the width, as many weights as the default Mlp"
    )
    bias: bool = knob(default=False, help="learn a bias in all three projections")

    opens: ClassVar[bool] = True

    def inside(self, dims: Dims) -> int:
        return self.hidden or round(8 * dims.width / 3)

    def build(self, dims: Dims) -> nn.Module:
        return GatedLayers(dims.width, self.inside(dims), self)


class GatedLayers(nn.Module):
    def __init__(self, width: int, hidden: int, spec: Gated) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=spec.bias)
        self.act = activation(spec.activation)
        self.up = nn.Linear(width, hidden, bias=spec.bias)
        self.down = nn.Linear(hidden, width, bias=spec.bias)
        self.down.into_residual = True  # type: ignore[assignment]

    def forward(self, x: Tensor, inner: Inner | None = None) -> Tensor:
        h = self.up(x)
        return self.down(self.act(self.gate(x)) * (h if inner is None else inner(h)))
