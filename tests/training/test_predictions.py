"""Objectives on real models: values and gradients are those of the losses of stored logits."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import Classifier, Full, LanguageModel, Mlp, ModelSpec, add_term
from headtohead.model import losses
from headtohead.model.ahead import attach, heads_of
from headtohead.parts.objectives import Distillation, MaskedTokens, MultiToken, NextToken, Objective
from headtohead.training.predictions import LabelPredictions, TokenPredictions

V, T, B, C = 11, 6, 3, 4
SPEC = ModelSpec(width=8, heads=2, layers=1, block=T)
IDS = torch.randint(0, V, (B, T + 1), generator=torch.Generator().manual_seed(0))
X, Y = IDS[:, :-1], IDS[:, 1:]
COUNTED = torch.rand(B, T, generator=torch.Generator().manual_seed(1)) < 0.6


def language_model(seed: int = 0, heads: int = 0, **settings: object) -> LanguageModel:
    model = LanguageModel(dataclasses.replace(SPEC, **settings), V, seed)
    if heads:
        attach(model, SPEC, heads, seed)
    return stirred(model)


def stirred(model: nn.Module) -> nn.Module:
    model.double()
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.add_(0.5 * torch.randn(p.shape, generator=torch.Generator().manual_seed(n), dtype=p.dtype))
    return model


def measured(model: nn.Module, loss: Tensor) -> list[Tensor]:
    model.zero_grad()
    loss.backward()
    return [loss.detach(), *(torch.zeros(()) if p.grad is None else p.grad.clone() for p in model.parameters())]


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() < 1e-10


def stored(objective: Objective, model: LanguageModel, teacher: LanguageModel | None, counted: Tensor) -> Tensor:
    """The objective's equation on logits that are all in memory."""

    def smooth(z: Tensor, y: Tensor) -> Tensor:
        z_loss = objective.z_loss * z.logsumexp(-1).square().mean()
        return F.cross_entropy(z, y, label_smoothing=objective.smoothing) + z_loss

    x = model.trunk(X)
    weight, bias = model._head_weight(), model.head.bias
    z = F.linear(x, weight, bias)
    total = smooth(z[counted], Y[counted])
    if isinstance(objective, MultiToken):
        heads = heads_of(model)
        assert heads is not None
        farther = [F.linear(h, weight, bias) for h in heads(model.trunk, x)]
        of_heads = []
        for k, zk in enumerate(farther, start=1):
            rows = [(b, t) for b in range(B) for t in range(T - k) if counted[b, t + k]]
            of_heads.append(smooth(torch.stack([zk[r] for r in rows]), torch.stack([Y[b, t + k] for b, t in rows])))
        total = total + objective.weight * sum(of_heads) / len(of_heads)
    if isinstance(objective, Distillation):
        assert teacher is not None
        tau = objective.temperature
        q = (teacher(X).detach()[counted] / tau).softmax(-1)
        kl = F.kl_div((z[counted] / tau).log_softmax(-1), q, reduction="batchmean")
        total = (1 - objective.weight) * total + objective.weight * tau**2 * kl
    return total


TERMS = {"smoothing": 0.2, "z_loss": 0.03}
OBJECTIVES = [
    NextToken(),
    NextToken(smoothing=0.2),
    NextToken(z_loss=0.03),
    NextToken(**TERMS),
    MaskedTokens(**TERMS),
    MultiToken(tokens=2),
    MultiToken(tokens=4, weight=0.7, **TERMS),
    Distillation(temperature=3.0, weight=0.4),
    Distillation(weight=1.0, **TERMS),
]


@pytest.mark.parametrize("chunk", [1, 3 * V, 1 << 19])
@pytest.mark.parametrize("settings", [{}, {"tied": True, "head_bias": True}], ids=["plain", "tied"])
@pytest.mark.parametrize("counted", [None, COUNTED], ids=["all", "some"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_losses_of_tokens_are_those_of_stored_logits(objective, counted, settings, chunk, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", chunk)
    model = language_model(heads=objective.extra_heads, **settings)
    teacher = language_model(5, width=16) if objective.taught else None
    ours = objective.loss(TokenPredictions.of(model, X, Y, counted, teacher))
    found = measured(model, ours)
    everything = torch.ones(B, T, dtype=torch.bool)
    same(found, measured(model, stored(objective, model, teacher, everything if counted is None else counted)))
    assert teacher is None or all(p.grad is None for p in teacher.parameters())


def test_the_default_has_the_bits_of_the_models_own_loss():
    model = LanguageModel(SPEC, V, 0)
    same_bits = [
        measured(model, loss) for loss in (NextToken().loss(TokenPredictions.of(model, X, Y)), model.mean_loss(X, Y))
    ]
    assert all(torch.equal(a, b) for a, b in zip(*same_bits, strict=True))


LABELS = torch.randint(0, C, (B,), generator=torch.Generator().manual_seed(2))
KEEP = torch.arange(T) < torch.tensor([[6], [2], [4]])


def classifier(seed: int = 0) -> Classifier:
    model = stirred(Classifier(SPEC.set("pattern", Full()), V, C, seed))
    assert isinstance(model, Classifier)
    return model


@pytest.mark.parametrize("objective", [NextToken(), NextToken(**TERMS), Distillation(weight=0.4, **TERMS)], ids=str)
def test_losses_of_labels_are_those_of_the_logits(objective):
    model, teacher = classifier(), classifier(3)
    found = measured(model, objective.loss(LabelPredictions(model, X, KEEP, LABELS, teacher)))
    z = model(X, KEEP)
    wanted = F.cross_entropy(z, LABELS, label_smoothing=objective.smoothing)
    wanted = wanted + objective.z_loss * z.logsumexp(-1).square().mean()
    if isinstance(objective, Distillation):
        tau = objective.temperature
        q = (teacher(X, KEEP).detach() / tau).softmax(-1)
        kl = F.kl_div((z / tau).log_softmax(-1), q, reduction="batchmean")
        wanted = 0.6 * wanted + 0.4 * tau**2 * kl
    same(found, measured(model, wanted))
    assert all(p.grad is None for p in teacher.parameters())


class Balanced(nn.Module):
    """A feed-forward layer that adds a term to the loss, as experts do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        add_term("balance", x.square().mean())
        return self.inner(x)


@pytest.mark.parametrize("objective", [NextToken(auxiliary=0.5), MultiToken(auxiliary=0.5), NextToken(auxiliary=0.0)])
def test_terms_of_the_model_are_added_with_their_weight(objective):
    model = language_model(heads=objective.extra_heads)
    plain = float(objective.loss(TokenPredictions.of(model, X, Y)).detach())
    seen: list[Tensor] = []
    block = model.trunk.blocks[0]
    block.feedforward = Balanced(block.feedforward)
    block.feedforward.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    loss = objective.loss(TokenPredictions.of(model, X, Y))
    assert float(loss.detach()) == pytest.approx(
        plain + objective.auxiliary * float(seen[0].square().mean()), abs=1e-12
    )
    assert model(X).isfinite().all(), "outside of training the terms have no effect"


def test_terms_have_gradients():
    model = language_model(feedforward=Mlp())
    block = model.trunk.blocks[0]
    block.feedforward = Balanced(block.feedforward)
    by_weight = []
    for weight in (0.0, 1.0):
        by_weight.append(measured(model, NextToken(auxiliary=weight).loss(TokenPredictions.of(model, X, Y))))
    assert any((a - b).abs().max() > 1e-6 for a, b in zip(*by_weight, strict=True))
