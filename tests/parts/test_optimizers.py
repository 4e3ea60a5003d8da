"""Optimizers: the updates that plain torch makes, every parameter once, and what each optimizer does to which."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headtohead.parts.optimizers import SGD, Adagrad, Adam, AdamW, Groups, Muon, Optimizer, orthogonalised
from headtohead.parts.schedules import OneCycle
from headtohead.training.trainer import TrainSpec, groups_of
from helpers.training import MODELS, OPTIMIZERS, PLAIN_LOOP, loss_of, model_of, same, trained, weights

# -- against plain torch -----------------------------------------------------------------------------------------------


def wide_and_plain(model: nn.Module, decay: float) -> list[dict]:
    wide = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]
    return [{"params": wide, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


PLAIN: dict[Optimizer, Callable[[nn.Module], torch.optim.Optimizer]] = {
    AdamW(lr=3e-3, weight_decay=0.3): lambda m: torch.optim.AdamW(wide_and_plain(m, 0.3), lr=3e-3, foreach=False),
    AdamW(lr=1e-3, betas=(0.8, 0.9), eps=1e-3, decay_all=True): lambda m: torch.optim.AdamW(
        m.parameters(), lr=1e-3, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.01, foreach=False
    ),
    Adam(lr=3e-3): lambda m: torch.optim.Adam(m.parameters(), lr=3e-3, foreach=False),
    Adam(betas=(0.5, 0.7), eps=1e-4): lambda m: torch.optim.Adam(
        m.parameters(), lr=1e-3, betas=(0.5, 0.7), eps=1e-4, foreach=False
    ),
    SGD(): lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, foreach=False),
    SGD(momentum=0.0): lambda m: torch.optim.SGD(m.parameters(), lr=0.1, foreach=False),
    SGD(lr=0.05, nesterov=True, weight_decay=0.2): lambda m: torch.optim.SGD(
        wide_and_plain(m, 0.2), lr=0.05, momentum=0.9, nesterov=True, foreach=False
    ),
    Adagrad(): lambda m: torch.optim.Adagrad(m.parameters(), lr=0.01, foreach=False),
    Adagrad(lr=0.1, eps=1e-3, initial=0.5, weight_decay=0.2): lambda m: torch.optim.Adagrad(
        wide_and_plain(m, 0.2), lr=0.1, eps=1e-3, initial_accumulator_value=0.5, foreach=False
    ),
}


@pytest.mark.parametrize("optimizer", PLAIN, ids=str)
def test_ten_steps_match_plain_torch(optimizer):
    model, plain = model_of().double(), model_of().double()
    trained(PLAIN_LOOP.set("optimizer", optimizer), 10, model)
    theirs = PLAIN[optimizer](plain)
    loss = loss_of(plain)
    for step in range(10):
        theirs.zero_grad()
        loss(step).backward()
        theirs.step()
    same(weights(model), weights(plain), 1e-9)
    assert any((weights(model)[n] - w).abs().max() > 1e-3 for n, w in weights(model_of().double()).items())


def test_the_schedule_scales_every_group():
    model, plain = model_of().double(), model_of().double()
    schedule = OneCycle()
    trained(TrainSpec(optimizer=AdamW(lr=3e-3), schedule=schedule, clip=None), 10, model)
    theirs = torch.optim.AdamW(wide_and_plain(plain, 0.01), lr=3e-3, foreach=False)
    for step in range(10):
        for group in theirs.param_groups:
            group["lr"] = 3e-3 * schedule.share(step, 10)
        theirs.zero_grad()
        loss_of(plain)(step).backward()
        theirs.step()
    same(weights(model), weights(plain), 1e-9)


# -- Muon --------------------------------------------------------------------------------------------------------------


def newton_schulz(g: Tensor, steps: int, eps: float = 0.0) -> Tensor:
    """One matrix by the definition: p(X) = aX + b(XXᵀ)X + c(XXᵀ)²X."""
    x = g / (g.pow(2).sum().sqrt() + eps)
    for _ in range(steps):
        x = 3.4445 * x - 4.7750 * (x @ x.T) @ x + 2.0315 * (x @ x.T) @ (x @ x.T) @ x
    return x


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (1, 5), (5, 1)])
@pytest.mark.parametrize("steps", [1, 5])
def test_orthogonalised_matches_newton_schulz(shape, steps):
    x = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = orthogonalised(x, steps)
    for one, matrix in zip(ours, x, strict=True):
        assert (one - newton_schulz(matrix, steps)).abs().max() < 1e-5


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8)])
def test_orthogonalised_keeps_directions(shape):
    draw = torch.Generator().manual_seed(1)
    u, _ = torch.linalg.qr(torch.randn(shape[0], min(shape), generator=draw, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(shape[1], min(shape), generator=draw, dtype=torch.float64))
    x = u @ torch.diag(torch.linspace(0.05, 1, min(shape), dtype=torch.float64)) @ v.T
    made = orthogonalised(1e-3 * x[None], 5)[0]
    values = torch.linalg.svdvals(made)
    assert 0.6 < values.min() <= values.max() < 1.3
    diagonal = u.T @ made @ v
    assert (diagonal - torch.diag(diagonal.diagonal())).abs().max() < 1e-8, "the singular vectors are the same"


def test_a_gradient_of_zero_moves_nothing():
    assert orthogonalised(torch.zeros(2, 3, 4), 5).abs().max() == 0


def test_muon_updates_matrices_and_adamw_the_rest():
    spec = Muon(lr=0.05, momentum=0.9, weight_decay=0.2, rest=AdamW(lr=2e-3, weight_decay=0.1))
    model, plain = model_of().double(), model_of().double()
    trained(PLAIN_LOOP.set("optimizer", spec), 5, model)
    linear = {id(m.weight) for n, m in plain.trunk.named_modules() if isinstance(m, nn.Linear)}
    matrices = [p for p in plain.parameters() if id(p) in linear]
    tables = [p for p in plain.parameters() if id(p) not in linear and p.ndim > 1]
    vectors = [p for p in plain.parameters() if p.ndim == 1]
    rest = torch.optim.AdamW(
        [{"params": tables, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=2e-3, foreach=False
    )
    momentum = {p: torch.zeros_like(p) for p in matrices}
    for step in range(5):
        plain.zero_grad()
        loss_of(plain)(step).backward()
        rest.step()
        with torch.no_grad():
            for w in matrices:
                momentum[w] = 0.9 * momentum[w] + w.grad
                direction = newton_schulz(w.grad + 0.9 * momentum[w], 5, eps=1e-7)
                w *= 1 - 0.05 * 0.2
                w -= 0.05 * max(1.0, w.shape[0] / w.shape[1]) ** 0.5 * direction
    same(weights(model), weights(plain), 1e-9)
    assert len(matrices) == 2 * 6


# -- who owns what -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_every_parameter_is_in_one_group(make, optimizer):
    model = make()
    owned = [id(p) for o in optimizer.build(groups_of(model)) for g in o.param_groups for p in g["params"]]
    assert len(owned) == len(set(owned))
    assert set(owned) == {id(p) for p in model.parameters()}


def test_only_matrices_and_tables_decay():
    groups = groups_of(model_of())
    for optimizer in (AdamW(weight_decay=0.1), SGD(weight_decay=0.1), Adagrad(weight_decay=0.1)):
        (made,) = optimizer.build(groups)
        decays = {p: g["weight_decay"] for g in made.param_groups for p in g["params"]}
        assert {decays[p] for p in (*groups.matrices, *groups.tables)} == {0.1}
        assert {decays[p] for p in groups.plain} == {0.0}
    (made,) = AdamW(weight_decay=0.1, decay_all=True).build(groups)
    assert {g["weight_decay"] for g in made.param_groups} == {0.1}


def test_a_model_may_lack_a_kind_of_parameter():
    table, vector = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3))
    for optimizer in OPTIMIZERS:
        for groups in (Groups((table,), (), ()), Groups((), (table,), ()), Groups((), (), (vector,))):
            made = optimizer.build(groups)
            assert sum(len(g["params"]) for o in made for g in o.param_groups) == 1


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_every_optimizer_learns(optimizer):
    _, losses = trained(TrainSpec(optimizer=optimizer), 30)
    assert sum(losses[-4:]) < sum(losses[:4]) - 0.05


# -- what a TrainSpec takes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoupled", [True, False])
def test_the_fused_kernel_gives_the_bits_of_torch(decoupled):
    ours, theirs = model_of(), model_of()
    trained(PLAIN_LOOP.set("optimizer", AdamW(lr=1e-3, weight_decay=0.1) if decoupled else Adam()), 5, ours)
    groups = wide_and_plain(theirs, 0.1 if decoupled else 0.0)
    optimizer = (torch.optim.AdamW if decoupled else torch.optim.Adam)(groups, lr=1e-3, fused=True)
    loss = loss_of(theirs)
    for step in range(5):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
