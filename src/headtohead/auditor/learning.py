"""Checks of learning: every weight is registered, has a gradient, and changes in training."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from headtohead.auditor.report import Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject, first_bad
from headtohead.auditor.trace import hidden_weights, without_gradients
from headtohead.parts.optimizers import Adam, Groups

STEPS = 4  # of training that are watched
MORE = 12  # starts of a large module, at most


def objective(s: Subject, model: nn.Module, seed: int = 0, rows: int = 0) -> Tensor:
    """Return a number that depends on every output, to take gradients of."""
    out = s.call(model, s.text(rows or s.effort.rows, seed=10 + seed))
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
    hidden: list[str] = field(default_factory=list)  # those that are not registered
    not_finite: str = ""  # the first gradient that is NaN or infinite
    rounding: set[str] = field(default_factory=set)  # of a large module, matrices whose gradient is rounding alone
    judged: set[str] = field(default_factory=set)  # those that were tried in double precision
    frozen: int = 0
    with_gradient: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    alike: list[str] = field(default_factory=list)  # matrices whose rows are equal and stay equal
    idle: dict[str, Tensor] = field(default_factory=dict)  # of each linear layer, the rows that had no gradient yet

    @property
    def missing(self) -> int:
        """How many tensors and rows had no gradient yet."""
        return len(self.names) - len(self.with_gradient) + sum(map(len, self.idle_rows.values()))

    @property
    def complete(self) -> bool:
        return len(self.with_gradient) == len(self.moved) == len(self.names) and not self.idle_rows

    @property
    def idle_rows(self) -> dict[str, list[int]]:
        return {name: rows.nonzero().flatten().tolist() for name, rows in self.idle.items() if rows.any()}

    def backward(self, s: Subject, model: nn.Module, seed: int, rows: int = 0) -> dict[str, Tensor]:
        """Compute the gradients of one step, and return all trainable tensors."""
        with s.dropout_off(model):
            loss = objective(s, model, seed, rows)
        hidden = hidden_weights(model, loss)
        weights = {n: p for n, p in model.named_parameters() if p.requires_grad} | hidden
        for p in weights.values():
            p.grad = None  # also of weights that are not in the optimizer
        loss.backward()
        self.names, self.hidden = list(weights), list(hidden)
        self.with_gradient |= _with_gradient(weights, s.precision)
        self.frozen = sum(1 for p in model.parameters() if not p.requires_grad)
        return weights

    def leave_out_rounding(self, s: Subject, weights: dict[str, Tensor]) -> None:
        """Of a large module, leave out matrices whose gradient is rounding alone: those with a small gradient are tried
        in double precision."""
        sizes = {n: largest(p.grad) for n, p in weights.items() if p.grad is not None and n not in self.judged}
        most = max(sizes.values(), default=0.0)
        faint = [n for n, size in sizes.items() if 0 < size < 1e-5 * most and weights[n].ndim > 1]
        if faint and s.in_double is not None:
            named = {n: p for n, p in s.in_double.named_parameters() if n in faint}
            with s.dropout_off(s.in_double.train()), without_gradients(s.in_double, {id(p) for p in named.values()}):
                objective(s, s.in_double).backward()
            self.rounding |= {n for n, p in named.items() if p.grad is None or largest(p.grad) <= 1e-13 * most}
            self.judged |= set(faint)
            s.in_double.zero_grad()
        self.with_gradient -= self.rounding

    def see_rows(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and module.weight.grad is not None and module.weight.requires_grad:
                without = ~module.weight.grad.any(dim=1)
                self.idle[name] = self.idle.get(name, without) & without


def train_briefly(s: Subject) -> Training:
    """Train a few steps from each of several seeds, until every weight has had a gradient and has moved."""
    if s.large:
        return _train_large(s)
    seen = Training()
    for seed in range(s.effort.starts):
        model = s.cast(s.fresh(seed=seed)).train()
        # The optimizer is made before the first forward pass, as in training. Adam moves a weight by lr even if its
        # gradient is tiny: that of a key bias is rounding only, because softmax cancels it.
        (optimizer,) = Adam(lr=0.01, eps=1e-30).build(Groups((), (), tuple(model.parameters())))
        before: dict[str, Tensor] = {}
        for step in range(STEPS):
            weights = seen.backward(s, model, seed * STEPS + step)
            before = before or {n: p.detach().clone() for n, p in weights.items()}
            seen.see_rows(model)
            optimizer.step()
            if step == 0 and seen.with_gradient == weights.keys() and not seen.idle_rows:
                break
        seen.moved |= {n for n, p in weights.items() if n not in before or not torch.equal(p, before[n])}
        seen.alike = [n for n, p in weights.items() if _rows_equal(p)]
        if seen.complete:
            break
    return seen


def _train_large(s: Subject) -> Training:
    """Do the same without the state of Adam and without copies of the weights, which take seconds to write.

    A step moves each weight by the sign of its gradient, so a weight moves if it is registered before the first forward
    pass and has a gradient. Further starts have the same weights in other places. It ends when nothing new is found.
    """
    seen = Training()
    model = s.cast(s.fresh()).train()
    registered = list(model.parameters())
    missing: list[int] = []
    for step in range(STEPS + MORE):
        if step >= STEPS or _unchanged(missing, 3):
            _roll(registered, step)
        weights = seen.backward(s, model, step, rows=4 if step else 0)
        seen.leave_out_rounding(s, weights)
        seen.see_rows(model)
        if step == 0:
            seen.not_finite = _not_finite(weights)
        seen.alike = [n for n, p in weights.items() if _rows_equal(p) and _rows_equal(_signs(p))]
        moving = {id(p) for p in registered if p.grad is not None and largest(p.grad) > 0}
        seen.moved |= {n for n, p in weights.items() if id(p) in moving}
        missing.append(seen.missing)
        if seen.complete or _unchanged(missing, 5):
            break
        with torch.no_grad():
            for p in registered:
                p.sub_(_signs(p), alpha=0.001)
    return seen


def _signs(p: Tensor) -> Tensor:
    return torch.zeros_like(p) if p.grad is None else p.grad.to_dense().sign()


def _unchanged(numbers: list[int], times: int) -> bool:
    return len(numbers) >= times and len(set(numbers[-times:])) == 1


def _roll(parameters: list[nn.Parameter], seed: int) -> None:
    """Move the elements of each weight to other places: another start, without drawing numbers."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in parameters:
            by = int(torch.randint(p.numel(), (), generator=draw)) if p.numel() else 0
            p.copy_(p.roll(by))


def _not_finite(weights: dict[str, Tensor]) -> str:
    bad = ((name, first_bad(p.grad.to_dense())) for name, p in weights.items() if p.grad is not None)
    return next((f"the gradient of {name} is {value}" for name, value in bad if value), "")


def _rows_equal(p: Tensor) -> bool:
    """Whether a matrix has rows that are all equal."""
    return p.ndim == 2 and min(p.shape) > 1 and torch.equal(p[0], p[-1]) and bool((p == p[:1]).all())


def _with_gradient(weights: dict[str, Tensor], precision: torch.dtype) -> set[str]:
    """Return the names of weights with a gradient. For a matrix it must exceed rounding; a bias may be cancelled."""
    sizes = {n: largest(p.grad) for n, p in weights.items() if p.grad is not None}
    rounding = 1e-13 * max(sizes.values(), default=0.0) if precision == torch.float64 else 0.0
    return {n for n, size in sizes.items() if size > (rounding if weights[n].ndim > 1 else 0.0)}


def largest(gradient: Tensor) -> float:
    """Return the largest size of an element."""
    if gradient.is_complex() or gradient.is_sparse:
        return float(gradient.abs().to_dense().max())
    low, high = gradient.aminmax()  # without a copy of a large tensor
    return float(torch.maximum(-low, high))


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
    return f"{len(seen.names)} tensors" + (f", {seen.frozen} more are frozen" if seen.frozen else "") + s.reduced()


@check(
    "registered",
    "every weight is registered",
    "weights outside parameters() are neither trained, nor saved, nor moved, nor counted",
)
def registered(s: Subject) -> str:
    if s.large:
        hidden = s.cached(train_briefly).hidden
    else:
        with s.mode("training", fresh=True) as model:
            hidden = list(hidden_weights(model, objective(s, model)))
    if hidden:
        raise Broken(
            _named(hidden, "not among the model's parameters; use nn.ModuleList, nn.ModuleDict or nn.Parameter")
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
    return f"{len(seen.names)} tensors{s.reduced('registered weights with a gradient')}"
