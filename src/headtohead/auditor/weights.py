"""Checks of weights and randomness: ties, seeds, dropout, the initial loss, saving."""

from __future__ import annotations

import copy
import math
from functools import partial

import torch
from torch import nn

from headtohead.auditor.learning import objective, train_briefly
from headtohead.auditor.report import Advice, Broken, DoesNotApply, check
from headtohead.auditor.subject import INCOMPLETE, Subject


@check(
    "tied",
    "weights that look tied are one tensor",
    "the weights differ after one step, so the model has more parameters than it claims",
)
def tied(s: Subject) -> str:
    model = s.initial()
    tokens = [e.weight for e in s.embeddings_of(model)]
    if not tokens:
        raise DoesNotApply("no nn.Embedding reads the ids")
    for name, p in model.named_parameters():
        for weight in tokens:
            if p is weight or p.shape != weight.shape:
                continue
            if p.data_ptr() == weight.data_ptr():
                raise Broken(f"{name} shares memory with the token embedding but is a separate parameter")
            if torch.equal(p, weight) and p.std() > 0:
                raise Broken(f"{name} starts as a copy of the token embedding but is not tied to it")
    return ""


@check(
    "seed",
    "the same seed gives the same bits",
    "no run can be repeated, and no two variants start from the same weights",
)
def seed(s: Subject) -> str:
    if s.large and _same_seed_of_large(s):
        return (
            f"weights, a loss and its gradients{s.reduced('large tensors filled from a table, gradients of vectors')}"
        )
    a, b = s.fresh(seed=3), s.fresh(seed=3)
    weights = b.state_dict()
    for name, value in a.state_dict().items():
        if not torch.equal(value, weights[name]):
            raise Broken(f"{name} differs between two modules built with the same seed")
    other = s.fresh(seed=4).state_dict()
    drawn = [n for n, p in a.named_parameters() if p.requires_grad and p.numel() > 1 and p.float().std() > 0]
    if drawn and all(torch.equal(a.state_dict()[n], other[n]) for n in drawn):
        raise Broken("two seeds give the same weights: the module sets its own seed, so all runs are the same run")
    if _reseeds(s, a):
        raise Broken("the forward pass seeds torch's generator: dropout and batch order repeat at every step")
    results = []
    for model in (a, b):
        model.train()
        loss = objective(s, model)
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
        model.zero_grad()
    if not all(torch.equal(x, y) for x, y in zip(*results, strict=True)):
        raise Broken("loss or gradients differ between two modules built and run with the same seed")
    return "weights, a loss and its gradients"


def _same_seed_of_large(s: Subject) -> bool:
    """Compare the modules that were built for other checks. If they differ, the whole check decides."""
    s.cached(train_briefly)
    same = s.restored.same_training
    first, *others = [sums for seed, sums in s.sums if seed == 0]
    again = [sums for seed, sums in s.sums if seed != 0]
    if not same or not others or any(sums != first for sums in others) or first in again:
        return False
    with s.mode("training") as model:
        return not _reseeds(s, model)


def _reseeds(s: Subject, model: nn.Module) -> bool:
    """Whether random numbers after a forward pass are the same for two different seeds before it."""
    drawn = []
    for seed in (1, 2):
        with torch.no_grad():
            s.call(model.train(), s.text(2), seed=seed)
        drawn.append(torch.rand(4))
    return torch.equal(*drawn)


@check("state-dict", "a state dict restores the model", "a saved model differs from the model that was evaluated")
def state_dict(s: Subject) -> str:
    if s.large:
        return _state_of_large(s)
    a, b = s.perturbed().eval(), s.cast(s.fresh(seed=4)).eval()
    with s.mode("training") as trained:  # running statistics are part of the state
        s.outputs(trained, s.text(4))
        buffers = dict(trained.named_buffers())
    for name, buffer in a.named_buffers():
        if name in buffers and buffer.shape == buffers[name].shape:
            buffer.copy_(buffers[name])
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    ids = s.text(3)
    if s.differs(s.outputs(a, ids), s.outputs(b, ids)).any():
        raise Broken(INCOMPLETE)
    _require_own_values(s.fresh(seed=3), s.fresh(seed=3))
    return ""


def _state_of_large(s: Subject) -> str:
    if s.restored.problem:
        raise Broken(s.restored.problem)
    _require_own_values(s.initial(), s.initial())
    return s.reduced().strip()


def _require_own_values(model: nn.Module, twin: nn.Module) -> None:
    """Raise Broken if the state dict of one module holds other values than the parameters of its twin."""
    saved = model.state_dict()
    for name, p in twin.named_parameters():
        if name in saved and not torch.equal(p, saved[name]):
            raise Broken(f"the state dict holds another value of {name} than the module")


@check("dropout", "evaluation uses no random numbers", "the same text gets another result each time")
def dropout(s: Subject) -> str:
    model, ids = s.eval_model, s.text(min(3, s.effort.rows))
    seeds = range(1, 1 + s.effort.seeds)
    with torch.no_grad():
        first, *others = (s.call(model, ids, seed=seed) for seed in seeds)
    if not all(torch.equal(first, other) for other in others):
        raise Broken("two evaluations of one text differ")
    rates = {name: 0.0 for name, value in s.options.items() if "drop" in name and isinstance(value, float)}
    if rates and s.rebuild is not None:
        model = s.fresh(build=partial(s.rebuild, **rates)).train()
        with torch.no_grad():
            first, *others = (s.call(model, ids, seed=seed) for seed in seeds)
        if not all(torch.equal(first, other) for other in others):
            raise Broken(f"with {' and '.join(rates)} at zero, training is still random")
    return f"bit for bit with {len(seeds)} seeds{s.reduced()}"


@check(
    "precision",
    "it works in single and in double precision",
    "a mixed-precision run can fail, and the audit compares its outputs less sharply",
)
def precision(s: Subject) -> str:
    if s.large and s.in_double is not None:
        return "outputs in both (large module: future-gradient and derivative use double precision, the others single)"
    if s.precision == torch.float64:
        return "outputs in both"
    raise Advice(f"in double precision: {s.refused}" if s.refused else "in double precision its outputs are not double")


@check(
    "repeat",
    "a text gives the same output whatever was computed before",
    "an evaluation depends on the texts before it, or on whether gradients are computed",
)
def repeat(s: Subject) -> str:
    model, first, second = s.eval_model, s.text(2), s.text(2, seed=13)
    second[:, 0] = first[:, 0]
    given = first.clone()
    before = s.outputs(model, first)
    if not torch.equal(first, given):
        raise Broken("it changes the ids that it is given")
    with_gradient = s.call(model, second).detach()
    after = s.outputs(model, second)
    if s.differs(with_gradient.flatten(1), after.flatten(1)).any():
        raise Broken("the output differs with and without gradients")
    with s.mode("training") as trained:
        s.outputs(trained, second)
    if s.differs(s.outputs(model, first).flatten(1), before.flatten(1)).any():
        raise Broken("the same text gives another output after another text")
    return f"two texts, with and without gradients{s.reduced()}"


@check(
    "initial-loss",
    "the initial loss is near that of guessing",
    "training first has to undo its initial weights; a scale may be wrong",
)
def initial_loss(s: Subject) -> str:
    model = s.initial().eval()
    losses = []
    for seed in range(s.effort.guesses):
        out = s.outputs(model, s.text(8, seed=20 + seed)).float()
        if out.shape[-1] < 2:
            raise DoesNotApply("it gives one number, not logits of classes")
        if not torch.isfinite(out).all():
            raise DoesNotApply("its outputs are not finite; see finite")
        if (out >= 0).all() and torch.allclose(out.sum(dim=-1), torch.ones(()), atol=1e-4):
            raise Broken("it gives probabilities, not logits: cross-entropy would apply a second softmax")
        draw = torch.Generator().manual_seed(30 + seed)
        labels = torch.randint(0, out.shape[-1], out.shape[:-1], generator=draw)
        if s.gives == "tokens" and out.shape[-1] == s.vocab:
            labels = s.text(8, seed=30 + seed)  # padding is never a label
        losses.append(nn.functional.cross_entropy(out.flatten(0, -2), labels.flatten()))
    loss, guess = float(torch.stack(losses).mean()), math.log(out.shape[-1])
    evidence = f"loss {loss:.2f}, guessing ln {out.shape[-1]} = {guess:.2f}{s.reduced('one batch')}"
    if not abs(loss - guess) <= 0.5:
        raise Advice(evidence)
    return evidence
