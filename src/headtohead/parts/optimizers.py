"""Optimizers. A part builds torch optimizers for groups of parameters: most parts build one, Muon builds two. The last
parts of this file are those of the library `pytorch_optimizer`, which the extra `optim` installs.

The caller sorts the parameters into `Groups`. Weight decay applies to matrices and embeddings, and with `decay_all`
also to biases and gains.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from headtohead.errors import needs_extra
from headtohead.spec import Part, knob


@dataclass(frozen=True)
class Groups:
    """The parameters of a model, by kind."""

    matrices: tuple[nn.Parameter, ...]  # weights of linear layers inside the model
    tables: tuple[nn.Parameter, ...]  # embeddings and output heads
    plain: tuple[nn.Parameter, ...]  # biases and gains: fewer than two dimensions


class Stepper(Protocol):
    """What the trainer needs from an optimizer. Every torch optimizer has it."""

    param_groups: list[dict[str, Any]]  # each with `params` and `lr`
    state: Any  # parameter → name → tensor or number

    def step(self) -> Any: ...


class Optimizer(Part, family="optimizer", of="train"):
    """How a gradient becomes an update. Every optimizer has a peak learning rate `lr` that the schedule scales."""

    averages: ClassVar[bool] = False  # it averages weights itself: what it builds has the method `averaged`

    @abc.abstractmethod
    def build(self, groups: Groups) -> list[Stepper]:
        """Build optimizers that together update each parameter once. The `lr` of a group is its peak."""


def _with_decay(groups: Groups, weight_decay: float = 0.0, decay_all: bool = False) -> list[dict[str, Any]]:
    """Parameter groups as torch optimizers take them."""
    param_groups = [
        {"params": [*groups.matrices, *groups.tables], "weight_decay": weight_decay},
        {"params": list(groups.plain), "weight_decay": weight_decay if decay_all else 0.0},
    ]
    return [group for group in param_groups if group["params"]]


class AdamW(Optimizer):
    """Adam with weight decay that does not pass through the gradient."""

    equation: ClassVar[str] = "w ← w − lr · ( m̂ / (sqrt(v̂) + eps) + weight_decay · w )"
    reference: ClassVar[str] = "Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization"

    lr: float = knob(default=3e-3, gt=0, help="peak learning rate")
    betas: tuple[float, float] = knob(
        default=(0.9, 0.999), help="decay of the running means of the gradient and of its square"
    )
    eps: float = knob(default=1e-8, gt=0, help="avoids division by zero")
    weight_decay: float = knob(default=0.01, ge=0, help="strength of the pull towards zero")
    decay_all: bool = knob(default=False, help="apply weight decay to biases and gains too")

    def build(self, groups: Groups) -> list[Stepper]:
        return [_adam(_with_decay(groups, self.weight_decay, self.decay_all), self, decoupled=True)]


class Adam(Optimizer):
    """Steps scaled by the running mean and variance of the gradient."""

    equation: ClassVar[str] = "w ← w − lr · m̂ / (sqrt(v̂) + eps)"
    reference: ClassVar[str] = "Kingma and Ba 2015, Adam"

    lr: float = knob(default=1e-3, gt=0, help="peak learning rate")
    betas: tuple[float, float] = knob(
        default=(0.9, 0.999), help="decay of the running means of the gradient and of its square"
    )
    eps: float = knob(default=1e-8, gt=0, help="avoids division by zero")

    def build(self, groups: Groups) -> list[Stepper]:
        return [_adam(_with_decay(groups), self, decoupled=False)]


def _adam(groups: list[dict[str, Any]], spec: Adam | AdamW, decoupled: bool) -> Stepper:
    """The bare fused kernel on a CPU; otherwise torch's optimizer."""
    kernel = getattr(torch, "_fused_adamw_" if decoupled else "_fused_adam_", None)
    if kernel is not None and all(p.device.type == "cpu" for group in groups for p in group["params"]):
        return FusedAdam(groups, spec, kernel)
    optimizer = torch.optim.AdamW if decoupled else torch.optim.Adam
    return optimizer(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=True)


class FusedAdam:
    """torch's fused kernel of Adam and AdamW, called directly; the results are the same to the bit.

    For small models torch's optimizer class takes longer than the kernel, and it also imports a compiler.
    """

    def __init__(self, groups: list[dict[str, Any]], spec: Adam | AdamW, kernel: Callable[..., None]) -> None:
        self.param_groups = [{**group, "lr": spec.lr} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Any]] = {p: {} for group in groups for p in group["params"]}
        self.betas, self.eps, self.kernel = spec.betas, spec.eps, kernel

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            states = [self._next_state(p) for p in parameters]
            counts = {n: torch.tensor(n) for n in {state["step"] for state in states}}
            self.kernel(
                parameters,
                [p.grad for p in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],  # used by AMSGrad only
                [counts[state["step"]] for state in states],
                lr=group["lr"],
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=group["weight_decay"],
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )

    def _next_state(self, p: nn.Parameter) -> dict[str, Any]:
        state = self.state[p]
        if not state:
            state |= {"step": 0.0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        state["step"] = float(state["step"]) + 1
        return state


class SGD(Optimizer):
    """Steps along the gradient, with optional momentum."""

    equation: ClassVar[str] = "u ← momentum · u + g;  w ← w − lr · u"
    reference: ClassVar[str] = "Robbins and Monro 1951, A Stochastic Approximation Method"

    lr: float = knob(default=0.1, gt=0, help="peak learning rate")
    momentum: float = knob(default=0.9, ge=0, lt=1, help="share of the last update that is kept")
    nesterov: bool = knob(default=False, help="Nesterov momentum; no effect without momentum")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, added to the gradient")

    def build(self, groups: Groups) -> list[Stepper]:
        param_groups = _with_decay(groups, self.weight_decay)
        nesterov = self.nesterov and self.momentum > 0
        return [torch.optim.SGD(param_groups, lr=self.lr, momentum=self.momentum, nesterov=nesterov, fused=True)]


class Adagrad(Optimizer):
    """Steps that shrink for each weight with the sum of its squared gradients."""

    equation: ClassVar[str] = "s ← s + g²;  w ← w − lr · g / (sqrt(s) + eps)"
    reference: ClassVar[str] = "Duchi et al. 2011, Adaptive Subgradient Methods"

    lr: float = knob(default=1e-2, gt=0, help="peak learning rate")
    eps: float = knob(default=1e-10, gt=0, help="avoids division by zero")
    initial: float = knob(default=0.0, ge=0, help="initial value of the sum")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, added to the gradient")

    def build(self, groups: Groups) -> list[Stepper]:
        param_groups = _with_decay(groups, self.weight_decay)
        options: dict[str, Any] = {"eps": self.eps, "initial_accumulator_value": self.initial}
        return [torch.optim.Adagrad(param_groups, lr=self.lr, **options, fused=True)]


class Muon(Optimizer):
    """Orthogonalised momentum for matrices; AdamW for embeddings, output heads, biases and gains."""

    equation: ClassVar[str] = "u ← momentum · u + g;  W ← W − lr · scale · UVᵀ,  where u ≈ USVᵀ"
    reference: ClassVar[str] = "Jordan et al. 2024, Muon: an optimizer for hidden layers"

    lr: float = knob(default=0.02, gt=0, help="peak learning rate of the matrices")
    momentum: float = knob(default=0.95, ge=0, lt=1, help="share of the last direction that is kept")
    steps: int = knob(default=5, ge=1, help="Newton–Schulz iterations that orthogonalise the direction")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, for matrices")
    rest: AdamW = knob(default=AdamW(lr=1e-3), help="optimizer of all other parameters, with its own learning rate")

    def build(self, groups: Groups) -> list[Stepper]:
        optimizers = self.rest.build(Groups((), groups.tables, groups.plain)) if groups.tables or groups.plain else []
        if groups.matrices:  # first, because the rate of the first optimizer is displayed
            optimizers.insert(0, Orthogonal(list(groups.matrices), self))
        return optimizers


class Orthogonal:
    """Muon's update of matrices: Nesterov momentum, orthogonalised and scaled by sqrt(max(1, rows/columns)).

    Matrices of one shape are orthogonalised in one batched product, because for small matrices the calls cost more
    than the arithmetic.
    """

    def __init__(self, matrices: list[nn.Parameter], spec: Muon) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": matrices, "lr": spec.lr}]
        self.state: dict[nn.Parameter, dict[str, Any]] = {w: {} for w in matrices}
        self.momentum, self.steps, self.weight_decay = spec.momentum, spec.steps, spec.weight_decay

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for w in group["params"]:
                if w.grad is not None:
                    by_shape.setdefault(w.shape, []).append(w)
            for (rows, columns), matrices in by_shape.items():
                directions = torch.stack([self._direction(w) for w in matrices])
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for w, u in zip(matrices, orthogonalised(directions, self.steps), strict=True):
                    w.mul_(1 - group["lr"] * self.weight_decay).sub_(u, alpha=scale)

    def _direction(self, w: nn.Parameter) -> Tensor:
        assert w.grad is not None
        state = self.state[w]
        if not state:
            state["momentum"] = torch.zeros_like(w)
        u = state["momentum"].mul_(self.momentum).add_(w.grad)
        return w.grad.add(u, alpha=self.momentum)


def orthogonalised(x: Tensor, steps: int) -> Tensor:
    """Bring the singular values of x (N, rows, columns) near 1 by iterating an odd polynomial of degree 5."""
    a, b, c = 3.4445, -4.7750, 2.0315  # the steepest slope at 0 that keeps singular values in about [0.7, 1.2]
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


# -- of the library pytorch_optimizer: a part states the equation and the knobs, the library makes the updates ---------


def _library(name: str) -> Any:
    """A class of the library, by its name."""
    try:
        import pytorch_optimizer
    except ImportError:
        raise needs_extra(f"the optimizer {name}", "optim") from None
    return getattr(pytorch_optimizer, name)


class Lion(Optimizer):
    """Steps of one size: the sign of a running mean of the gradient."""

    equation: ClassVar[str] = "w ← w − lr · ( sign(β₁·m + (1−β₁)·g) + weight_decay · w );  m ← β₂·m + (1−β₂)·g"
    reference: ClassVar[str] = "Chen et al. 2023, Symbolic Discovery of Optimization Algorithms"

    lr: float = knob(default=1e-3, gt=0, help="peak learning rate; a third to a tenth of AdamW's")
    betas: tuple[float, float] = knob(
        default=(0.9, 0.99), help="share of the running mean in the update, and decay of the running mean"
    )
    weight_decay: float = knob(default=0.03, ge=0, help="strength of the pull towards zero")

    def build(self, groups: Groups) -> list[Stepper]:
        return [_library("Lion")(_with_decay(groups, self.weight_decay), lr=self.lr, betas=self.betas)]


class SOAP(Optimizer):
    """Adam in the eigenbasis of the gradient's second moments of rows and columns. The first step only measures."""

    equation: ClassVar[str] = (
        "L ← β·L + (1−β)·GGᵀ, R ← β·R + (1−β)·GᵀG, with eigenvectors Q_L, Q_R;  "
        "W ← W − lr · Q_L · Adam(Q_Lᵀ G Q_R) · Q_Rᵀ"
    )
    reference: ClassVar[str] = "Vyas et al. 2024, SOAP: Improving and Stabilizing Shampoo using Adam"

    lr: float = knob(default=3e-3, gt=0, help="peak learning rate")
    betas: tuple[float, float] = knob(
        default=(0.95, 0.95), help="decay of the running means of the gradient and of its square; β is the second"
    )
    eps: float = knob(default=1e-8, gt=0, help="avoids division by zero")
    weight_decay: float = knob(default=0.01, ge=0, help="strength of the pull towards zero")
    every: int = knob(default=10, ge=1, help="steps between updates of the eigenvectors")
    largest: int = knob(
        default=1024, ge=1, help="longest side with an eigenbasis; a longer one, such as the vocabulary, has none"
    )

    def build(self, groups: Groups) -> list[Stepper]:
        optimizer = _library("SOAP")(
            _with_decay(groups, self.weight_decay),
            lr=self.lr,
            betas=self.betas,
            eps=self.eps,
            precondition_frequency=self.every,
            max_precondition_dim=self.largest,
        )
        return [optimizer]


class ScheduleFreeAdamW(Optimizer):
    """AdamW without a schedule: gradients at a point between the weights and their average, which is evaluated.

    The average takes the place of a falling rate. Use it with a warm-up and a constant rate:
    WarmupStableDecay(decay=0).
    """

    equation: ClassVar[str] = (
        "y = (1−β₁)·z + β₁·x;  z ← z − lr · ( g(y)/(sqrt(v) + eps) + weight_decay · y );  "
        "x ← (1−c)·x + c·z,  c = lr²/Σ lr²,  and x is evaluated"
    )
    reference: ClassVar[str] = "Defazio et al. 2024, The Road Less Scheduled"
    averages: ClassVar[bool] = True

    lr: float = knob(default=1e-2, gt=0, help="learning rate")
    betas: tuple[float, float] = knob(
        default=(0.9, 0.999), help="share of the average in y, and decay of the running mean of the squared gradient"
    )
    eps: float = knob(default=1e-8, gt=0, help="avoids division by zero")
    weight_decay: float = knob(default=0.01, ge=0, help="strength of the pull towards zero")

    def check(self) -> None:
        _refuse_no_average("betas", self.betas[0])

    def build(self, groups: Groups) -> list[Stepper]:
        optimizer = _library("ScheduleFreeAdamW")(
            _with_decay(groups, self.weight_decay), lr=self.lr, betas=self.betas, eps=self.eps
        )
        return [ScheduleFree(optimizer, self.betas[0])]


class ScheduleFreeSGD(Optimizer):
    """SGD without a schedule: gradients at a point between the weights and their average, which is evaluated."""

    equation: ClassVar[str] = (
        "y = (1−β)·z + β·x;  z ← z − lr · (g(y) + weight_decay · y);  x ← (1−c)·x + c·z,  c = lr²/Σ lr²,  "
        "and x is evaluated"
    )
    reference: ClassVar[str] = "Defazio et al. 2024, The Road Less Scheduled"
    averages: ClassVar[bool] = True

    lr: float = knob(default=1.0, gt=0, help="learning rate")
    momentum: float = knob(default=0.9, gt=0, lt=1, help="β, share of the average in y")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, added to the gradient")

    def build(self, groups: Groups) -> list[Stepper]:
        optimizer = _library("ScheduleFreeSGD")(
            _with_decay(groups, self.weight_decay), lr=self.lr, momentum=self.momentum
        )
        return [ScheduleFree(optimizer, self.momentum)]


def _refuse_no_average(knob: str, beta: float) -> None:
    if not 0 < beta < 1:
        raise ValueError(f"{knob}: the first must be between 0 and 1, not {beta:g}")


class ScheduleFree:
    """A schedule-free optimizer of the library. The model has the weights y; `averaged` computes the weights x.

    The library can switch the model between y and x in place, but that rounds: training would depend on when the model
    was evaluated.
    """

    def __init__(self, optimizer: Any, beta: float) -> None:
        self.param_groups, self.state, self.step = optimizer.param_groups, optimizer.state, optimizer.step
        self.beta = beta

    def averaged(self) -> Mapping[nn.Parameter, Tensor]:
        """Return x = (y − (1−β)·z) / β of every parameter that has been updated."""
        return {p: p.lerp(s["z"], 1 - 1 / self.beta) for p, s in self.state.items() if "z" in s}


class AdaMuon(Optimizer):
    """Muon with a running mean square of each weight's direction; AdamW for everything that is not a matrix."""

    equation: ClassVar[str] = (
        "m ← β₁·m + (1−β₁)·g, u = UVᵀ where m ≈ USVᵀ, v ← β₂·v + (1−β₂)·u²;  "
        "W ← W − 0.2 · lr · u/sqrt(v), scaled to a root mean square of 1"
    )
    reference: ClassVar[str] = "Si et al. 2025, AdaMuon: Adaptive Muon Optimizer"

    lr: float = knob(default=1e-2, gt=0, help="peak learning rate of the matrices")
    betas: tuple[float, float] = knob(
        default=(0.95, 0.95), help="decay of the running means of the gradient and of the squared direction"
    )
    steps: int = knob(default=5, ge=1, help="Newton–Schulz iterations that orthogonalise the direction")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, for matrices")
    rest: AdamW = knob(default=AdamW(lr=3e-3), help="optimizer of all other parameters, with its own learning rate")

    def build(self, groups: Groups) -> list[Stepper]:
        options = {"lr": self.lr, "betas": self.betas, "ns_steps": self.steps, "weight_decay": self.weight_decay}
        return _matrices_and_rest("AdaMuon", groups, options, self.rest)


class NorMuon(Optimizer):
    """Muon with rows of equal size; AdamW for everything that is not a matrix."""

    equation: ClassVar[str] = (
        "u = UVᵀ of the Nesterov momentum ≈ USVᵀ, v_r ← β₂·v_r + (1−β₂)·mean(u_r²) of each row r;  "
        "W ← W − lr · scale · u_r/sqrt(v_r), scaled to the norm of u"
    )
    reference: ClassVar[str] = "Li et al. 2025, NorMuon: Making Muon more efficient and scalable"

    lr: float = knob(default=0.02, gt=0, help="peak learning rate of the matrices")
    momentum: float = knob(default=0.95, ge=0, lt=1, help="share of the last direction that is kept")
    beta2: float = knob(default=0.95, ge=0, lt=1, help="decay of the running mean square of each row")
    steps: int = knob(default=5, ge=1, help="Newton–Schulz iterations that orthogonalise the direction")
    weight_decay: float = knob(default=0.0, ge=0, help="strength of the pull towards zero, for matrices")
    scale: Literal["shape", "rms"] = knob(
        default="shape", help="size of an update: sqrt(max(1, rows/columns)) as in Muon, or a root mean square of 0.2"
    )
    rest: AdamW = knob(default=AdamW(lr=3e-3), help="optimizer of all other parameters, with its own learning rate")

    def build(self, groups: Groups) -> list[Stepper]:
        options = {
            "lr": self.lr,
            "momentum": self.momentum,
            "beta2": self.beta2,
            "ns_steps": self.steps,
            "weight_decay": self.weight_decay,
            "update_scale": {"shape": "preserve_norm", "rms": "match_rms"}[self.scale],
        }
        return _matrices_and_rest("NorMuon", groups, options, self.rest)


def _matrices_and_rest(name: str, groups: Groups, options: dict[str, Any], rest: AdamW) -> list[Stepper]:
    """An optimizer of the library for the matrices, and AdamW for the rest. The first one's rate is displayed."""
    optimizers = rest.build(Groups((), groups.tables, groups.plain)) if groups.tables or groups.plain else []
    if groups.matrices:
        matrices = {"params": list(groups.matrices), "use_muon": True, **options}
        optimizers.insert(0, _library(name)([matrices], foreach=True))
    return optimizers
