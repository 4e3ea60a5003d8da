"""What becomes of the weights: gradients, registration, updates, ties, seeds, saving."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtohead.audit.check import check
from headtohead.audit.report import Outcome, broken, does_not_apply, proved
from headtohead.audit.subject import Subject
from headtohead.audit.watch import hidden_weights


def _objective(s: Subject, model: nn.Module, seed: int = 0) -> Tensor:
    """A number that depends on every output, for gradients."""
    out = s.call(model, s.text(4, seed=10 + seed))
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(11 + seed))
    return (out * direction.to(out.dtype)).sum()


def _named(names: list[str], what: str) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {what}"


@dataclass
class Training:
    """What one step of training did, over several differently stirred modules: a part that one of them does not use,
    such as an expert that no token chose, is not dead for that."""

    names: list[str]
    frozen: int
    with_gradient: set[str]
    moved: set[str]


def train_once(s: Subject, tries: int = 8) -> Training:
    seen = Training([], 0, set(), set())
    for seed in range(tries):
        model = s.stirred(seed=seed).train()
        # Made before the first forward pass, as training does. Adam moves a weight by lr however small its gradient; a
        # key bias has one of rounding only, because softmax cancels it.
        steps = torch.optim.Adam([{"params": list(model.parameters())}], lr=0.01, eps=1e-30)
        with s.dropout_off(model):
            loss = _objective(s, model, seed)
        weights = {n: p for n, p in model.named_parameters() if p.requires_grad} | hidden_weights(model, loss)
        before = {n: p.detach().clone() for n, p in weights.items()}
        loss.backward()
        steps.step()
        seen.names = list(weights)
        seen.frozen = sum(1 for p in model.parameters() if not p.requires_grad)
        seen.with_gradient |= {n for n, p in weights.items() if p.grad is not None and bool(p.grad.any())}
        seen.moved |= {n for n, p in weights.items() if not torch.equal(p, before[n])}
        if len(seen.moved) == len(seen.with_gradient) == len(weights):
            break
    return seen


@check(
    "gradients",
    "every parameter receives a gradient",
    "part of the model never learns; its parameters are counted for nothing",
)
def gradients(s: Subject) -> Outcome:
    seen = s.once(train_once)
    if not seen.names:
        return does_not_apply("it has no trainable parameter")
    idle = [n for n in seen.names if n not in seen.with_gradient]
    if idle:
        return broken(_named(idle, "never received a gradient"))
    return proved(f"{len(seen.names)} tensors" + (f", {seen.frozen} more frozen on purpose" if seen.frozen else ""))


@check(
    "registered",
    "every weight is registered",
    "weights outside parameters() are neither trained, nor saved, nor moved, nor counted",
)
def registered(s: Subject) -> Outcome:
    with s.mode("training", fresh=True) as model:
        hidden = hidden_weights(model, _objective(s, model))
    if hidden:
        return broken(
            _named(list(hidden), "not among the model's parameters; use nn.ModuleList, nn.ModuleDict or nn.Parameter")
        )
    return proved("attributes, lists and dicts searched, and the graph of the loss walked")


@check(
    "optimizer", "an optimizer over parameters() moves every weight", "the weights left behind stay as they were drawn"
)
def optimizer(s: Subject) -> Outcome:
    seen = s.once(train_once)
    if not seen.names:
        return does_not_apply("it has no trainable parameter")
    stuck = [n for n in seen.names if n not in seen.moved]
    return broken(_named(stuck, "stayed as it was after a step")) if stuck else proved(f"{len(seen.names)} tensors")


@check(
    "tied",
    "weights that look tied are one tensor",
    "the tie is gone after one step: the model has more parameters than it says",
)
def tied(s: Subject) -> Outcome:
    model = s.fresh()
    tokens = [e.weight for e in s.embeddings_of(model)]
    if not tokens:
        return does_not_apply("no nn.Embedding reads the ids")
    for name, p in model.named_parameters():
        for weight in tokens:
            if p is weight or p.shape != weight.shape:
                continue
            if p.data_ptr() == weight.data_ptr():
                return broken(f"{name} shares memory with the token embedding but is a parameter of its own")
            if torch.equal(p, weight) and p.std() > 0:
                return broken(f"{name} starts as a copy of the token embedding and is not tied to it")
    return proved()


@check(
    "seed",
    "the same seed gives the same bits",
    "no run can be repeated, and no two variants start from the same weights",
)
def seed(s: Subject) -> Outcome:
    a, b = s.fresh(seed=3), s.fresh(seed=3)
    weights = b.state_dict()
    for name, value in a.state_dict().items():
        if not torch.equal(value, weights[name]):
            return broken(f"{name} differs between two modules built with one seed")
    results = []
    for model in (a, b):
        model.train()
        loss = _objective(s, model)
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    if not all(torch.equal(x, y) for x, y in zip(*results, strict=True)):
        return broken("loss or gradients differ between two modules built and run with one seed")
    return proved("weights, a loss and its gradients")


@check("state-dict", "a state dict restores the model", "a saved model is not the model that was measured")
def state_dict(s: Subject) -> Outcome:
    a, b = s.stirred().eval(), s.fresh(seed=4).to(s.precision).eval()
    with s.mode("training") as trained:  # running statistics are part of the state
        s.outputs(trained, s.text(4))
        buffers = dict(trained.named_buffers())
    for name, buffer in a.named_buffers():
        if name in buffers and buffer.shape == buffers[name].shape:
            buffer.copy_(buffers[name])
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    ids = s.text(3)
    if (s.apart(s.outputs(a, ids), s.outputs(b, ids)) > 1).any():
        return broken(
            "a new module with the state dict of another gives other outputs: some of it is not in the state dict"
        )
    return proved()


@check("dropout", "evaluation draws nothing at random", "the same text gets another answer each time")
def dropout(s: Subject) -> Outcome:
    model, ids = s.still, s.text(3)
    with torch.no_grad():
        first, second = s.call(model, ids, seed=1), s.call(model, ids, seed=2)
    if not torch.equal(first, second):
        return broken("two evaluations of one text differ")
    return proved("bit for bit under two seeds")


@check(
    "initial-loss",
    "the loss starts near that of guessing",
    "training starts by unlearning; something is scaled wrong, or labels leak",
)
def initial_loss(s: Subject) -> Outcome:
    model = s.fresh().eval()
    losses = []
    for seed in range(4):
        out = s.outputs(model, s.text(8, seed=20 + seed)).float()
        if out.shape[-1] < 2:
            return does_not_apply("it gives one number, not logits of classes")
        labels = torch.randint(0, out.shape[-1], out.shape[:-1], generator=torch.Generator().manual_seed(30 + seed))
        losses.append(nn.functional.cross_entropy(out.flatten(0, -2), labels.flatten()))
    loss, guess = float(torch.stack(losses).mean()), math.log(out.shape[-1])
    evidence = f"{loss:.2f}, and ln {out.shape[-1]} = {guess:.2f}"
    return proved(evidence) if abs(loss - guess) <= 0.5 else broken(evidence)
