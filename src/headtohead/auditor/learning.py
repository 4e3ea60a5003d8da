"""Checks of learning: every weight is registered, has a correct gradient, and changes in training."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.report import Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject
from headtohead.auditor.trace import hidden_weights
from headtohead.model.operations import Watching
from headtohead.parts.optimizers import Adam, Groups

SEEDS, STEPS = 8, 4


def objective(s: Subject, model: nn.Module, seed: int = 0) -> Tensor:
    """Return a number that depends on every output, to take gradients of."""
    out = s.call(model, s.text(4, seed=10 + seed))
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(11 + seed))
    return (out * direction.to(out.dtype)).sum()


def _named(names: list[str], problem: str) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {problem}"


@dataclass
class Training:
    """What the first steps of training do to the weights, over several seeds: in one seed, an expert may be chosen by
    no token, and weights behind a gate that starts at zero have no gradient in the first step."""

    names: list[str] = field(default_factory=list)  # all trainable tensors
    frozen: int = 0
    with_gradient: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    alike: list[str] = field(default_factory=list)  # matrices whose rows are equal and stay equal
    idle: dict[str, Tensor] = field(default_factory=dict)  # of each linear layer, the rows that had no gradient yet

    @property
    def complete(self) -> bool:
        return len(self.with_gradient) == len(self.moved) == len(self.names) and not self.idle_rows

    @property
    def idle_rows(self) -> dict[str, list[int]]:
        return {name: rows.nonzero().flatten().tolist() for name, rows in self.idle.items() if rows.any()}

    def see_rows(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and module.weight.grad is not None and module.weight.requires_grad:
                without = ~module.weight.grad.any(dim=1)
                self.idle[name] = self.idle.get(name, without) & without


def train_briefly(s: Subject) -> Training:
    """Train a few steps from each of several seeds, until every weight has had a gradient and has moved."""
    seen = Training()
    for seed in range(SEEDS):
        model = s.cast(s.fresh(seed=seed)).train()
        # The optimizer is made before the first forward pass, as in training. Adam moves a weight by lr even if its
        # gradient is tiny: that of a key bias is rounding only, because softmax cancels it.
        (optimizer,) = Adam(lr=0.01, eps=1e-30).build(Groups((), (), tuple(model.parameters())))
        before: dict[str, Tensor] = {}
        for step in range(STEPS):
            with s.dropout_off(model):
                loss = objective(s, model, seed * STEPS + step)
            weights = {n: p for n, p in model.named_parameters() if p.requires_grad} | hidden_weights(model, loss)
            before = before or {n: p.detach().clone() for n, p in weights.items()}
            for p in weights.values():
                p.grad = None  # also of weights that are not in the optimizer
            loss.backward()
            seen.with_gradient |= _with_gradient(weights, s.precision)
            seen.see_rows(model)
            optimizer.step()
            if step == 0 and seen.with_gradient == weights.keys() and not seen.idle_rows:
                break
        seen.names = list(weights)
        seen.frozen = sum(1 for p in model.parameters() if not p.requires_grad)
        seen.moved |= {n for n, p in weights.items() if n not in before or not torch.equal(p, before[n])}
        seen.alike = [n for n, p in weights.items() if p.ndim == 2 and min(p.shape) > 1 and (p == p[:1]).all()]
        if seen.complete:
            break
    return seen


def _with_gradient(weights: dict[str, Tensor], precision: torch.dtype) -> set[str]:
    """Return the names of weights with a gradient. For a matrix it must exceed rounding; a bias may be cancelled."""
    sizes = {n: float(p.grad.abs().max()) for n, p in weights.items() if p.grad is not None}
    rounding = 1e-13 * max(sizes.values(), default=0.0) if precision == torch.float64 else 0.0
    return {n for n, size in sizes.items() if size > (rounding if weights[n].ndim > 1 else 0.0)}


@check(
    "gradients",
    "every parameter receives a gradient",
    "part of the model never learns, though its parameters are counted",
)
def gradients(s: Subject) -> str:
    seen = s.cached(train_briefly)
    if not seen.names:
        raise DoesNotApply("it has no trainable parameter")
    idle = [n for n in seen.names if n not in seen.with_gradient]
    if idle:
        raise Broken(_named(idle, "never received a gradient"))
    if seen.idle_rows and len(seen.with_gradient) == len(seen.names):
        name, rows = next(iter(seen.idle_rows.items()))
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        raise Broken(f"{name}.weight: row {rows[0]}{more} never received a gradient")
    if seen.alike:
        raise Broken(_named(seen.alike, "all rows start equal, receive equal gradients and stay equal"))
    return f"{len(seen.names)} tensors" + (f", {seen.frozen} more are frozen" if seen.frozen else "")


@check(
    "derivative",
    "the gradient is the derivative of the output",
    "a branch is detached or a backward pass is wrong: training does not follow the function that is evaluated",
)
def derivative(s: Subject) -> str:
    if s.precision != torch.float64 or s.tolerance > 1e-6:
        raise DoesNotApply("finite differences need double precision, which this module does not support")
    with s.mode("training", fresh=True) as model:
        jumps = _Jumps()
        with jumps:
            loss = objective(s, model)
        if jumps.seen:
            raise DoesNotApply(f"it has an operation without a derivative ({jumps.seen})")
        loss.backward()
        if any(p._backward_hooks for p in model.parameters()):
            raise DoesNotApply("hooks change its gradients")
        draw = torch.Generator().manual_seed(40)
        # All weights of a small module. Of a large one, and of headtohead's many models, ten weights drawn at random.
        small = s.spec is None and sum(p.numel() for p in model.parameters()) < 1e6
        weights = [(n, p, p.grad) for n, p in model.named_parameters() if p.grad is not None]
        chosen = weights if small else random.Random(str(s.spec)).sample(weights, min(len(weights), 10))
        largest = max((float(gradient.abs().max()) for _name, _p, gradient in weights), default=0.0)
        wrong: list[tuple[str, float, float]] = []
        for name, p, gradient in chosen:
            direction = torch.randn(p.shape, generator=draw, dtype=torch.float64) * _trained(model, p)
            direction /= direction.norm()
            slope, measured = float((gradient * direction).sum()), _difference(s, model, p, direction, 1e-6)
            gap = abs(slope - measured)
            if gap > 1e-3 * (abs(slope) + abs(measured)) + 1e-6 * largest:
                # Near a kink, as of ReLU, the difference depends on the step size; with a wrong gradient it does not.
                closer = _difference(s, model, p, direction, 1e-7)
                if abs(closer - measured) < 0.1 * gap and abs(slope - closer) > 0.9 * gap:
                    wrong.append((name, slope, closer))
    if wrong:
        name, slope, measured = wrong[0]
        more = f" ({len(wrong) - 1} more such weights)" if len(wrong) > 1 else ""
        raise Broken(f"in a direction of {name} the gradient is {slope:.4g} and the derivative {measured:.4g}{more}")
    return f"{len(chosen)} tensors against central differences"


def _trained(model: nn.Module, p: Tensor) -> Tensor:
    """Return ones, with zeros at the padding row of an embedding, which is not trained."""
    mask = torch.ones_like(p)
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.weight is p and module.padding_idx is not None:
            mask[module.padding_idx] = 0
    return mask


def _difference(s: Subject, model: nn.Module, p: nn.Parameter, direction: Tensor, size: float) -> float:
    """Return the derivative of the objective along a direction of one weight, by central differences."""
    start, values = p.detach().clone(), []
    with torch.no_grad():
        for sign in (1, -1):
            p.copy_(start + sign * size * direction)
            values.append(float(objective(s, model)))
        p.copy_(start)
    return (values[0] - values[1]) / (2 * size)


class _Jumps(Watching):
    """Records an operation that is not continuous and so has no derivative."""

    NAMES = (
        *("round", "floor", "ceil", "sign", "argmax", "argmin", "topk", "sort"),
        *("bernoulli", "multinomial", "heaviside"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in self.NAMES and isinstance(args[0], Tensor) and args[0].is_floating_point():
            self.seen = self.seen or name
        return func(*args, **(kwargs or {}))


@check(
    "registered",
    "every weight is registered",
    "weights outside parameters() are neither trained, nor saved, nor moved, nor counted",
)
def registered(s: Subject) -> str:
    with s.mode("training", fresh=True) as model:
        hidden = hidden_weights(model, objective(s, model))
    if hidden:
        raise Broken(
            _named(list(hidden), "not among the model's parameters; use nn.ModuleList, nn.ModuleDict or nn.Parameter")
        )
    return "searched attributes, lists, dicts and the graph of the loss"


@check("optimizer", "an optimizer over parameters() changes every weight", "some weights keep their initial values")
def optimizer(s: Subject) -> str:
    seen = s.cached(train_briefly)
    if not seen.names:
        raise DoesNotApply("it has no trainable parameter")
    stuck = [n for n in seen.names if n not in seen.moved]
    if stuck:
        raise Broken(_named(stuck, "did not change in the first steps"))
    return f"{len(seen.names)} tensors"
