"""The check of derivatives: the gradient of a weight equals the difference of outputs when the weight moves."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.learning import largest, objective
from headtohead.auditor.report import Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject
from headtohead.auditor.trace import without_gradients
from headtohead.model.operations import Watching

NEEDS_DOUBLE = "finite differences need double precision, which this module does not support"


@check(
    "derivative",
    "the gradient is the derivative of the output",
    "a branch is detached or a backward pass is wrong: training does not follow the function that is evaluated",
)
def derivative(s: Subject) -> str:
    if s.large:
        return _derivative_of_large(s)
    if s.precision != torch.float64 or s.tolerance > 1e-6:
        raise DoesNotApply(NEEDS_DOUBLE)
    with s.mode("training", fresh=True) as model:
        _differentiate(s, model)
        draw = torch.Generator().manual_seed(40)
        # All weights of a small module. Of a large one, and of headtohead's many models, ten weights drawn at random.
        small = s.spec is None and sum(p.numel() for p in model.parameters()) < 1e6
        weights = [(n, p, p.grad) for n, p in model.named_parameters() if p.grad is not None]
        chosen = weights if small else random.Random(str(s.spec)).sample(weights, min(len(weights), 10))
        most = max((largest(gradient) for _name, _p, gradient in weights), default=0.0)
        wrong: list[tuple[str, float, float]] = []
        for name, p, gradient in chosen:
            direction = torch.randn(p.shape, generator=draw, dtype=torch.float64)
            if (row := _padding_row(model, p)) is not None:
                direction[row] = 0
            direction /= direction.norm()
            slope, measured = float((gradient * direction).sum()), _difference(s, model, p, direction, 1e-6)
            gap = abs(slope - measured)
            if _apart(slope, measured, most):
                # Near a kink, as of ReLU, the difference depends on the step size; with a wrong gradient it does not.
                closer = _difference(s, model, p, direction, 1e-7)
                if abs(closer - measured) < 0.1 * gap and abs(slope - closer) > 0.9 * gap:
                    wrong.append((name, slope, closer))
    if wrong:
        name, slope, measured = wrong[0]
        more = f" ({len(wrong) - 1} more such weights)" if len(wrong) > 1 else ""
        raise Broken(f"in a direction of {name} the gradient is {slope:.4g} and the derivative {measured:.4g}{more}")
    return f"{len(chosen)} tensors against central differences"


def _differentiate(s: Subject, model: nn.Module) -> float:
    """Compute the gradients of the objective, and return its value."""
    jumps = _Jumps()
    with jumps:
        loss = objective(s, model)
    if jumps.seen:
        raise DoesNotApply(f"it has an operation without a derivative ({jumps.seen})")
    loss.backward()
    if any(p._backward_hooks for p in model.parameters()):
        raise DoesNotApply("hooks change its gradients")
    return float(loss.detach())


ROWS, EACH = 64, 3  # of a large module: rows of a weight that move, and matrices of each shape


def _derivative_of_large(s: Subject) -> str:
    """Compare gradients with differences of the objective, for many weights at once."""
    model = s.in_double
    if model is None or s.casts:
        raise DoesNotApply(NEEDS_DOUBLE)
    draw = torch.Generator().manual_seed(40)
    groups = _groups(model)
    but = {id(p) for weights in groups.values() for p in weights}
    tried = 0
    try:
        with s.dropout_off(model.train()), without_gradients(model, but):
            start = _differentiate(s, model)
            for what, weights in groups.items():
                move = _Move(s, model, [p for p in weights if p.grad is not None], draw)
                tried += len(move.parts)
                slope, measured = move.slope, (move.value(1e-6) - start) / 1e-6
                if _apart(slope, measured, move.most) and _apart(slope, measured := move.difference(1e-6), move.most):
                    closer, gap = move.difference(1e-7), abs(slope - measured)
                    if abs(closer - measured) < 0.1 * gap and abs(slope - closer) > 0.9 * gap:
                        says = f"the gradient is {slope:.4g} and the derivative {closer:.4g}"
                        raise Broken(f"in a direction of {len(move.parts)} {what} together, {says}")
    finally:
        model.zero_grad()
    few = f"{EACH} matrices of a shape, {ROWS} rows of a weight, texts of {s.length} tokens"
    return f"{tried} tensors against differences (large module: {few})"


def _groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return trainable weights in groups: all vectors, and at most EACH matrices of one shape."""
    shapes: dict[torch.Size, list[nn.Parameter]] = {}
    for p in model.parameters():
        if p.requires_grad:
            shapes.setdefault(p.shape, []).append(p)
    groups: dict[str, list[nn.Parameter]] = {"vectors": [], "matrices": []}
    for shape, weights in shapes.items():
        if len(shape) < 2:
            groups["vectors"] += weights
        else:
            some = sorted({round(n * (len(weights) - 1) / (EACH - 1)) for n in range(EACH)})
            groups["matrices"] += [weights[n] for n in some]
    return groups


def _apart(slope: float, measured: float, most: float) -> bool:
    """Whether a gradient and a difference differ by more than rounding and curvature explain. `most` is the largest
    gradient of any weight."""
    return abs(slope - measured) > 1e-3 * (abs(slope) + abs(measured)) + 1e-6 * most


class _Move:
    """A move of several weights at once: each in a random direction, in some of its rows.

    Weights with a large gradient move less, so that a wrong gradient of another one is seen.
    """

    def __init__(self, s: Subject, model: nn.Module, weights: list[nn.Parameter], draw: torch.Generator) -> None:
        self.s, self.model = s, model
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []  # the weight, its rows, the direction
        self.most = max((largest(p.grad) for p in weights if p.grad is not None), default=0.0)
        used = s.text(s.effort.rows, seed=10).unique()  # rows of a table that the objective reads
        known = torch.cat([used, torch.arange(s.length)])
        gradients = []
        for p in weights:
            gradient = torch.zeros_like(p) if p.grad is None else p.grad.to_dense()
            value, gradient = (x.detach()[None] if x.ndim == 0 else x.detach() for x in (p, gradient))
            rows = torch.cat([torch.randperm(len(value), generator=draw)[:ROWS], known[known < len(value)]]).unique()
            direction = torch.randn(rows.shape + value.shape[1:], generator=draw, dtype=torch.float64)
            if (row := _padding_row(model, p)) is not None:
                direction[rows == row] = 0
            self.parts.append((value, rows, direction / direction.norm()))
            gradients.append(gradient[rows])
        sizes = [float(g.pow(2).mean().sqrt()) for g in gradients]
        least = max(min(sizes, default=0.0), 0.01 * max(sizes, default=0.0))
        for (_value, _rows, direction), size in zip(self.parts, sizes, strict=True):
            direction *= least / max(size, least) if least else 1.0
        self.slope = sum(float((g * part[2]).sum()) for g, part in zip(gradients, self.parts, strict=True))

    def value(self, size: float) -> float:
        """Return the objective after a step of this size."""
        before = [value[rows].clone() for value, rows, _direction in self.parts]
        for value, rows, direction in self.parts:
            value.index_add_(0, rows, direction, alpha=size)
        with torch.no_grad():
            found = float(objective(self.s, self.model))
        for (value, rows, _direction), start in zip(self.parts, before, strict=True):
            value[rows] = start
        return found

    def difference(self, size: float) -> float:
        return (self.value(size) - self.value(-size)) / (2 * size)


def _padding_row(model: nn.Module, p: Tensor) -> int | None:
    """Return the padding row of an embedding, which is not trained; None for other weights."""
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.weight is p]
    return next((table.padding_idx for table in tables if table.padding_idx is not None), None)


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
