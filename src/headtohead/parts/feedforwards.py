"""Feed-forward layers, applied to each token separately.

Shapes of experts: N tokens of a batch, D width, E experts, k active experts of a token.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.auxiliary import add_term, collects_terms
from headtohead.spec import Dims, Part, knob

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2", "leaky_relu2"]
Routing = Literal["softmax of active", "softmax of all", "sigmoid"]
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


class Experts(FeedForward):
    """Each token is computed by the few experts that a router scores highest, and their results are weighed.

    No expert has a limit by default, so that each token is computed separately. A capacity makes a token depend on the
    other texts of its batch, and the audit reports it.
    """

    equation: ClassVar[str] = (
        "scale · Σ_e g_e · f_e(x) + Σ_s f_s(x),  e the k experts with the largest scores W·x; g: softmax of their "
        "scores (Mixtral), of all scores (Switch), or their sigmoids divided by their sum (DeepSeek-V3)"
    )
    reference: ClassVar[str] = (
        "Shazeer et al. 2017, Outrageously Large Neural Networks; Jiang et al. 2024, Mixtral of Experts; "
        "DeepSeek-AI 2024, DeepSeek-V3"
    )

    expert: FeedForward = knob(default=Gated(), help="what each expert is; its hidden size is that of one expert")
    count: int = knob(default=8, ge=1, le=4096, help="E, number of experts that the router chooses from")
    active: int = knob(default=2, ge=1, help="k, experts that a token uses")
    shared: int = knob(default=0, ge=0, help="experts that every token uses, in addition")
    routing: Routing = knob(
        default="softmax of active", help="weights of the active experts: softmax of active, softmax of all, or sigmoid"
    )
    scale: float = knob(default=1.0, gt=0, help="factor of what the chosen experts give")
    balance: float = knob(
        default=1.0, ge=0, help="weight of the term for balanced load, times the objective's weight of such terms"
    )
    router_z: float = knob(
        default=0.0, ge=0, help="weight of the router's z-loss, times the objective's weight of such terms"
    )
    bias_step: float = knob(
        default=0.0, ge=0, help="per update, how far the bias of an expert's score moves towards balanced load"
    )
    capacity: float | None = knob(
        default=None,
        gt=0,
        le=4,
        help="most tokens of an expert, times the average; further tokens skip it; none: no limit",
    )

    def check(self) -> None:
        if self.active > self.count:
            raise InputError(f"Experts: {self.active} active experts of {self.count}: choose at most {self.count}")
        if self.active == 1 and self.routing != "softmax of all":
            raise InputError(
                "Experts: the weight of one active expert is always 1, so the router would not learn: "
                "set routing='softmax of all', or two active experts"
            )

    @property
    def by_token(self) -> bool:
        return self.capacity is None

    def build(self, dims: Dims) -> nn.Module:
        return ExpertLayers(self, dims)


class ExpertLayers(nn.Module):
    bias: Tensor  # (E,), only with `bias_step`

    def __init__(self, spec: Experts, dims: Dims) -> None:
        super().__init__()
        self.spec = spec
        self.router = nn.Linear(dims.width, spec.count, bias=False)
        self.experts = nn.ModuleList(spec.expert.build(dims) for _ in range(spec.count))
        self.shared = nn.ModuleList(spec.expert.build(dims) for _ in range(spec.shared))
        if spec.bias_step:
            self.register_buffer("bias", torch.zeros(spec.count))
        self.tokens: Tensor | None = None  # (E,) tokens of each expert in the latest forward pass

    @property
    def idle(self) -> int:
        """How many parameters a token does not use."""
        of_experts = sum(p.numel() for p in self.experts.parameters())
        return of_experts * (self.spec.count - self.spec.active) // self.spec.count

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, D)
        weights, chosen = self.route(rows)  # (N, k) each
        y = self._chosen(rows, weights, chosen)
        for expert in self.shared:
            y = y + expert(rows)
        return y.view(x.shape)

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and the numbers of the experts of each token, (N, k) both."""
        spec, z = self.spec, self.router(x)  # (N, E)
        p = z.sigmoid() if spec.routing == "sigmoid" else z.softmax(dim=1)
        ranks = p + self.bias if spec.bias_step else p
        chosen = ranks.topk(spec.active, dim=1).indices
        weights = p.gather(1, chosen)
        if spec.routing != "softmax of all":
            weights = weights / weights.sum(dim=1, keepdim=True)
        self.tokens = torch.bincount(chosen.flatten(), minlength=spec.count)
        if collects_terms():
            self._add_terms(z, p)
        return spec.scale * weights, chosen

    def _chosen(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return Σ_e g_e · f_e(x): the tokens are sorted by expert, so that each expert computes its tokens at once."""
        assert self.tokens is not None
        order = chosen.flatten().argsort(stable=True)  # (N·k,), sorted by expert, then by token
        sizes = self.tokens.tolist()
        pieces = x.index_select(0, order // self.spec.active).split(sizes)
        learns = torch.is_grad_enabled()  # every expert then gets a gradient, zero without tokens
        pairs = zip(self.experts, pieces, strict=True)
        y = torch.cat([expert(piece) for expert, piece in pairs if learns or len(piece)])
        if self.spec.capacity is not None:
            most = math.ceil(self.spec.capacity * len(order) / self.spec.count)
            place = torch.cat([torch.arange(size, device=x.device) for size in sizes])
            y = y * (place < most)[:, None]
        y = y.index_select(0, order.argsort()).view(*chosen.shape, -1)  # (N, k, D)
        return (weights[:, None] @ y).squeeze(1)

    def _add_terms(self, z: Tensor, p: Tensor) -> None:
        """Add the terms of the loss: E · Σ_e load_e · mean p_e, which is 1 if balanced, and the mean squared logarithm
        of the softmax's denominator. Move the biases that choose experts."""
        assert self.tokens is not None
        spec, load = self.spec, self.tokens / self.tokens.sum()
        if spec.balance:
            share = p / p.sum(dim=1, keepdim=True)
            add_term("balance", spec.balance * spec.count * (load * share.mean(dim=0)).sum())
        if spec.router_z:
            add_term("router z", spec.router_z * z.logsumexp(dim=1).square().mean())
        if spec.bias_step and self.training:
            self.bias.add_(spec.bias_step * (1 / spec.count - load).sign())
