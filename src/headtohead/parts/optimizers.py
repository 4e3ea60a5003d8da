"""Optimizers. A part builds torch optimizers over groups of parameters; most build one, Muon two.

Groups come from the caller: `decayed` are matrices and embeddings, `plain` are biases, gains and what else has one
dimension; weight decay applies to the first only, unless the part is told to decay all.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from headtohead.spec import Part, knob


@dataclass(frozen=True)
class Groups:
    """A model's parameters, sorted by what they are."""

    matrices: tuple[nn.Parameter, ...]  # of linear layers inside the model
    tables: tuple[nn.Parameter, ...]  # embeddings, and the heads that end the model
    plain: tuple[nn.Parameter, ...]  # biases, gains: fewer than two dimensions


class Stepper(Protocol):
    """What training needs of an optimizer; any of torch's own will do."""

    param_groups: list[dict[str, Any]]  # each with `params` and `lr`
    state: Any  # parameter → name → tensor or number

    def step(self) -> Any: ...


class Optimizer(Part, family="optimizer", of="train"):
    """How a gradient becomes an update. Every optimizer has a peak learning rate `lr`, which the schedule scales."""

    @abc.abstractmethod
    def build(self, groups: Groups) -> list[Stepper]:
        """Optimizers that together own every parameter once; each group's `lr` is its peak."""


def _split(groups: Groups, weight_decay: float, decay_all: bool) -> list[dict[str, Any]]:
    wide = [*groups.matrices, *groups.tables]
    made = [
        {"params": wide, "weight_decay": weight_decay},
        {"params": list(groups.plain), "weight_decay": weight_decay if decay_all else 0.0},
    ]
    return [g for g in made if g["params"]]


class AdamW(Optimizer):
    """Adam with decay of the weights themselves."""

    equation: ClassVar[str] = "w ← w − lr · ( m̂ / (sqrt(v̂) + eps) + weight_decay · w )"
    reference: ClassVar[str] = "Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization"

    lr: float = knob(default=1e-3, gt=0, help="peak learning rate")
    betas: tuple[float, float] = knob(default=(0.9, 0.999), help="memory of the mean and of the square")
    eps: float = knob(default=1e-8, gt=0, help="keeps the division finite")
    weight_decay: float = knob(default=0.01, ge=0, help="pull towards zero")
    decay_all: bool = knob(default=False, help="biases and gains decay too")

    def build(self, groups: Groups) -> list[Stepper]:
        made = _split(groups, self.weight_decay, self.decay_all)
        return [_adam(made, self, decoupled=True)]


class Adam(Optimizer):
    """A step as long as the gradient is steady."""

    equation: ClassVar[str] = "w ← w − lr · m̂ / (sqrt(v̂) + eps)"
    reference: ClassVar[str] = "Kingma and Ba 2015, Adam"

    lr: float = knob(default=1e-3, gt=0, help="peak learning rate")
    betas: tuple[float, float] = knob(default=(0.9, 0.999), help="memory of the mean and of the square")
    eps: float = knob(default=1e-8, gt=0, help="keeps the division finite")

    def build(self, groups: Groups) -> list[Stepper]:
        made = _split(groups, 0.0, False)
        return [_adam(made, self, decoupled=False)]


def _adam(groups: list[dict[str, Any]], spec: Adam | AdamW, decoupled: bool) -> Stepper:
    kernel = getattr(torch, "_fused_adamw_" if decoupled else "_fused_adam_", None)
    if kernel is not None and all(p.device.type == "cpu" for group in groups for p in group["params"]):
        return FusedAdam(groups, spec, kernel)
    whole = torch.optim.AdamW if decoupled else torch.optim.Adam
    return whole(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=True)


class FusedAdam:
    """torch's fused kernel for Adam and AdamW without the optimizer around it, to the same bits. For models of this
    size what surrounds the kernel takes longer than the kernel, and loads a compiler that nobody asked for."""

    def __init__(self, groups: list[dict[str, Any]], spec: Adam | AdamW, kernel: Callable[..., None]) -> None:
        self.param_groups = [{**group, "lr": spec.lr} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Any]] = {p: {} for group in groups for p in group["params"]}
        self.betas, self.eps, self.kernel = spec.betas, spec.eps, kernel

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            states = [self._advanced(p) for p in moved]
            counts = {n: torch.tensor(n) for n in {state["step"] for state in states}}
            self.kernel(
                moved,
                [p.grad for p in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],  # the largest squares: AMSGrad's
                [counts[state["step"]] for state in states],
                lr=group["lr"],
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=group["weight_decay"],
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )

    def _advanced(self, p: nn.Parameter) -> dict[str, Any]:
        state = self.state[p]
        if not state:
            state |= {"step": 0.0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        state["step"] = float(state["step"]) + 1
        return state


class SGD(Optimizer):
    """Straight down the gradient, with momentum where wanted."""

    equation: ClassVar[str] = "u ← momentum · u + g;  w ← w − lr · u"
    reference: ClassVar[str] = "Robbins and Monro 1951, A Stochastic Approximation Method"

    lr: float = knob(default=0.1, gt=0, help="peak learning rate")
    momentum: float = knob(default=0.9, ge=0, lt=1, help="share of the last update that goes on")
    nesterov: bool = knob(default=False, help="look ahead; needs momentum")
    weight_decay: float = knob(default=0.0, ge=0, help="pull towards zero, through the gradient")

    def build(self, groups: Groups) -> list[Stepper]:
        made = _split(groups, self.weight_decay, False)
        nesterov = self.nesterov and self.momentum > 0
        return [torch.optim.SGD(made, lr=self.lr, momentum=self.momentum, nesterov=nesterov, fused=True)]


class Adagrad(Optimizer):
    """Each weight's steps shrink with the sum of its squared gradients."""

    equation: ClassVar[str] = "s ← s + g²;  w ← w − lr · g / (sqrt(s) + eps)"
    reference: ClassVar[str] = "Duchi et al. 2011, Adaptive Subgradient Methods"

    lr: float = knob(default=1e-2, gt=0, help="peak learning rate")
    eps: float = knob(default=1e-10, gt=0, help="keeps the division finite")
    initial: float = knob(default=0.0, ge=0, help="what the sum starts from")
    weight_decay: float = knob(default=0.0, ge=0, help="pull towards zero, through the gradient")

    def build(self, groups: Groups) -> list[Stepper]:
        made = _split(groups, self.weight_decay, False)
        return [torch.optim.Adagrad(made, lr=self.lr, eps=self.eps, initial_accumulator_value=self.initial, fused=True)]


class Muon(Optimizer):
    """Matrices move by their momentum made orthogonal; embeddings, heads, biases and gains by AdamW."""

    equation: ClassVar[str] = "u ← momentum · u + g;  W ← W − lr · scale · UVᵀ,  where u ≈ USVᵀ"
    reference: ClassVar[str] = "Jordan et al. 2024, Muon: an optimizer for hidden layers"

    lr: float = knob(default=0.02, gt=0, help="peak learning rate of the matrices")
    momentum: float = knob(default=0.95, ge=0, lt=1, help="share of the last direction that goes on")
    steps: int = knob(default=5, ge=1, help="Newton–Schulz iterations that make the direction orthogonal")
    weight_decay: float = knob(default=0.0, ge=0, help="pull towards zero, of the matrices")
    rest: AdamW = knob(default=AdamW(), help="the optimizer of everything else, with its own learning rate")

    def build(self, groups: Groups) -> list[Stepper]:
        made = self.rest.build(Groups((), groups.tables, groups.plain)) if groups.tables or groups.plain else []
        if groups.matrices:
            made.insert(0, Orthogonal(list(groups.matrices), self))  # first: its rate is the one that is shown
        return made


class Orthogonal:
    """Muon's own rule. Nesterov momentum; the step is scaled by sqrt(max(1, rows/columns)).

    Matrices of one shape are made orthogonal together, as one batched product: small products one by one would cost
    more in calls than in arithmetic.
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
    """(N, rows, columns) with singular values near one: an odd quintic that lifts small ones, iterated."""
    a, b, c = 3.4445, -4.7750, 2.0315  # the slope at zero as large as keeps values in about [0.7, 1.2]
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
