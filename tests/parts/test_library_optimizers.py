"""Optimizers of the library pytorch_optimizer: the papers' equations, weight by weight, and what must hold of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from headtohead.errors import Unavailable
from headtohead.parts.optimizers import (
    SOAP,
    Adam,
    AdaMuon,
    AdamW,
    Groups,
    Lion,
    Muon,
    NorMuon,
    ScheduleFreeAdamW,
    ScheduleFreeSGD,
)
from headtohead.training.trainer import HasAverage, Trainer, groups_of
from helpers.training import PLAIN_LOOP, loss_of, model_of, same, trained, weights

LIBRARY = [Lion(), SOAP(), ScheduleFreeAdamW(), ScheduleFreeSGD(), AdaMuon(), NorMuon()]

SHAPES = {"matrix": (3, 4), "table": (5, 2), "vector": (4,)}


def parameters() -> dict[str, nn.Parameter]:
    draw = torch.Generator().manual_seed(0)
    return {n: nn.Parameter(torch.randn(s, generator=draw, dtype=torch.float64)) for n, s in SHAPES.items()}


def gradients(step: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(100 + step)
    return {n: torch.randn(s, generator=draw, dtype=torch.float64) for n, s in SHAPES.items()}


def stepped(spec, steps: int, rates: Callable[[int], float] = lambda _: 1.0) -> tuple[dict, list]:
    """The parameters after some steps with given gradients, and the optimizers."""
    own = parameters()
    made = spec.build(Groups((own["matrix"],), (own["table"],), (own["vector"],)))
    peaks = [[group["lr"] for group in o.param_groups] for o in made]
    for step in range(steps):
        for name, g in gradients(step).items():
            own[name].grad = g
        for optimizer, all_peaks in zip(made, peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, all_peaks, strict=True):
                group["lr"] = peak * rates(step)
            optimizer.step()
    return own, made


def decay_of(name: str, decay: float) -> float:
    return 0.0 if name == "vector" else decay


# -- the papers' equations in nested loops -----------------------------------------------------------------------------


def test_lion_is_the_papers_algorithm():
    lr, b1, b2, decay = 0.01, 0.8, 0.95, 0.3
    own, _ = stepped(Lion(lr=lr, betas=(b1, b2), weight_decay=decay), 6)
    for name, start in parameters().items():
        w, m = start.detach().flatten().tolist(), [0.0] * start.numel()
        for step in range(6):
            for n, g in enumerate(gradients(step)[name].flatten().tolist()):
                c = b1 * m[n] + (1 - b1) * g
                w[n] -= lr * (math.copysign(1, c) + decay_of(name, decay) * w[n])
                m[n] = b2 * m[n] + (1 - b2) * g
        assert own[name].detach().flatten().tolist() == pytest.approx(w, abs=1e-12), name


def rising(step: int) -> float:
    return min(1.0, (step + 1) / 3)


def averages(made: list) -> dict[int, Tensor]:
    (optimizer,) = made
    assert isinstance(optimizer, HasAverage)
    return {id(p): x for p, x in optimizer.averaged().items()}


def test_schedule_free_sgd_is_the_papers_algorithm():
    lr, beta, decay = 0.3, 0.9, 0.1
    own, made = stepped(ScheduleFreeSGD(lr=lr, momentum=beta, weight_decay=decay), 6, rising)
    average = averages(made)
    for name, start in parameters().items():
        x = start.detach().flatten().tolist()
        z, squares = list(x), 0.0
        for step in range(6):
            rate = lr * rising(step)
            squares += rate**2
            c = rate**2 / squares
            for n, g in enumerate(gradients(step)[name].flatten().tolist()):
                y = (1 - beta) * z[n] + beta * x[n]
                z[n] -= rate * (g + decay_of(name, decay) * y)
                x[n] = (1 - c) * x[n] + c * z[n]
        y = [(1 - beta) * a + beta * b for a, b in zip(z, x, strict=True)]
        assert own[name].detach().flatten().tolist() == pytest.approx(y, abs=1e-12), name
        assert average[id(own[name])].flatten().tolist() == pytest.approx(x, abs=1e-12), name


def test_schedule_free_adamw_is_the_papers_algorithm():
    lr, beta, beta2, eps, decay = 0.05, 0.8, 0.95, 1e-6, 0.1
    own, made = stepped(ScheduleFreeAdamW(lr=lr, betas=(beta, beta2), eps=eps, weight_decay=decay), 6, rising)
    average = averages(made)
    for name, start in parameters().items():
        x = start.detach().flatten().tolist()
        z, v, squares = list(x), [0.0] * len(x), 0.0
        for step in range(6):
            rate = lr * rising(step)
            squares += rate**2
            c = rate**2 / squares
            for n, g in enumerate(gradients(step)[name].flatten().tolist()):
                y = (1 - beta) * z[n] + beta * x[n]
                v[n] = beta2 * v[n] + (1 - beta2) * g**2
                scaled = g / (math.sqrt(v[n] / (1 - beta2 ** (step + 1))) + eps)
                z[n] -= rate * (scaled + decay_of(name, decay) * y)
                x[n] = (1 - c) * x[n] + c * z[n]
        y = [(1 - beta) * a + beta * b for a, b in zip(z, x, strict=True)]
        assert own[name].detach().flatten().tolist() == pytest.approx(y, abs=1e-7), name
        assert average[id(own[name])].flatten().tolist() == pytest.approx(x, abs=1e-7), name


def test_before_the_first_update_a_schedule_free_optimizer_has_no_average():
    own = parameters()
    (made,) = ScheduleFreeSGD().build(Groups((own["matrix"],), (), ()))
    assert made.averaged() == {}


def test_averages_are_those_of_the_library():
    spec = ScheduleFreeAdamW()
    model, theirs = model_of().double(), model_of().double()
    trainer = Trainer(model, PLAIN_LOOP.set("optimizer", spec), 5, 0)
    for _ in trainer.fit(loss_of(model)):
        pass
    groups = groups_of(theirs)
    wide = {"params": [*groups.matrices, *groups.tables], "weight_decay": 0.01}
    library = pytorch_optimizer.ScheduleFreeAdamW(
        [wide, {"params": list(groups.plain), "weight_decay": 0.0}], lr=spec.lr
    )
    for step in range(5):
        theirs.zero_grad()
        loss_of(theirs)(step).backward()
        library.step()
    same(weights(model), weights(theirs), 1e-12)
    library.eval()
    with trainer.averaged():
        same(weights(model), weights(theirs), 1e-12)


# -- SOAP --------------------------------------------------------------------------------------------------------------


def test_soap_without_an_eigenbasis_is_adam_one_step_later():
    soap = SOAP(lr=0.01, betas=(0.9, 0.95), eps=1e-30, weight_decay=0.0, largest=1)
    own, _ = stepped(soap, 6)
    plain = parameters()
    (adam,) = Adam(lr=0.01, betas=(0.9, 0.95), eps=1e-30).build(Groups((), tuple(plain.values()), ()))
    for step in range(1, 6):  # SOAP's first step only measures
        for name, g in gradients(step).items():
            plain[name].grad = g
        adam.step()
    same({n: p.detach() for n, p in own.items()}, {n: p.detach() for n, p in plain.items()}, 1e-9)


def test_soap_turns_with_the_gradients():
    """In another basis of rows and columns the same weights result: Adam alone does not do this."""
    draw = torch.Generator().manual_seed(3)
    left, right = (torch.linalg.qr(torch.randn(n, n, generator=draw, dtype=torch.float64))[0] for n in (3, 4))

    def run(spec, a: Tensor, b: Tensor) -> Tensor:
        w = nn.Parameter(torch.zeros(3, 4, dtype=torch.float64))
        (made,) = spec.build(Groups((w,), (), ()))
        noise = torch.Generator().manual_seed(4)
        for _ in range(7):
            w.grad = a @ torch.randn(3, 4, generator=noise, dtype=torch.float64) @ b.T
            made.step()
        return w.detach()

    eyes = torch.eye(3, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    for spec, turns in ((SOAP(lr=0.1, every=2, weight_decay=0.0), True), (Adam(lr=0.1), False)):
        error = (run(spec, left, right) - left @ run(spec, *eyes) @ right.T).abs().max()
        assert (error < 1e-4) == turns, spec


def test_a_long_side_has_no_eigenbasis():
    own, (made,) = stepped(SOAP(largest=4), 3)
    assert [len(m) for m in made.state[own["table"]]["GG"]] == [0, 2], "five rows, two columns"
    assert [len(m) for m in made.state[own["matrix"]]["GG"]] == [3, 4]


# -- Muon variants -----------------------------------------------------------------------------------------------------


def first_update(spec, shape: tuple[int, int]) -> Tensor:
    w = nn.Parameter(torch.zeros(shape))
    (made,) = spec.build(Groups((w,), (), ()))
    w.grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * torch.linspace(0.1, 5, shape[0])[:, None]
    made.step()
    return -w.detach()


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6)])
def test_adamuon_updates_have_one_size(shape):
    assert float(first_update(AdaMuon(lr=0.1), shape).square().mean().sqrt()) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6)])
def test_normuon_updates_have_rows_of_one_size_and_the_norm_of_muons(shape):
    update, muons = first_update(NorMuon(lr=0.1), shape), first_update(Muon(lr=0.1), shape)
    rows = update.norm(dim=1)
    assert rows.tolist() == pytest.approx([float(rows.mean())] * shape[0], rel=0.02)
    assert float(update.norm()) == pytest.approx(float(muons.norm()), rel=0.1)  # the library orthogonalises in bfloat16
    scaled = first_update(NorMuon(lr=0.1, scale="rms"), shape)
    assert float(scaled.square().mean().sqrt()) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("make", [AdaMuon, NorMuon])
def test_variants_of_muon_leave_everything_but_matrices_to_adamw(make):
    rest = AdamW(lr=0.05, weight_decay=0.2)
    own, (first, second) = stepped(make(rest=rest), 3)
    assert [p.shape for g in first.param_groups for p in g["params"]] == [SHAPES["matrix"]]
    plain = parameters()
    (adamw,) = rest.build(Groups((), (plain["table"],), (plain["vector"],)))
    for step in range(3):
        for name in ("table", "vector"):
            plain[name].grad = gradients(step)[name]
        adamw.step()
    for name in ("table", "vector"):
        assert torch.equal(own[name], plain[name])
    assert {id(p) for g in second.param_groups for p in g["params"]} == {id(own["table"]), id(own["vector"])}


@pytest.mark.parametrize("name", ["AdaMuon", "NorMuon"])
def test_variants_of_muon_are_those_of_the_library(name):
    spec = {"AdaMuon": AdaMuon(weight_decay=0.1), "NorMuon": NorMuon(weight_decay=0.1)}[name]
    own, _ = stepped(spec, 4)
    w = parameters()["matrix"]
    options = {"betas": spec.betas} if isinstance(spec, AdaMuon) else {"momentum": spec.momentum, "beta2": spec.beta2}
    group = {"params": [w], "use_muon": True, "lr": spec.lr, "weight_decay": 0.1, **options}
    theirs = getattr(pytorch_optimizer, name)([group], foreach=True)
    for step in range(4):
        w.grad = gradients(step)["matrix"]
        theirs.step()
    assert torch.equal(own["matrix"], w)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [Lion(weight_decay=0.1), SOAP(weight_decay=0.1)], ids=str)
def test_only_matrices_and_tables_decay(optimizer):
    groups = groups_of(model_of())
    (made,) = optimizer.build(groups)
    decays = {p: g["weight_decay"] for g in made.param_groups for p in g["params"]}
    assert {decays[p] for p in (*groups.matrices, *groups.tables)} == {0.1}
    assert {decays[p] for p in groups.plain} == {0.0}


@pytest.mark.parametrize("optimizer", LIBRARY, ids=str)
def test_training_twice_gives_the_same_bits(optimizer):
    spec = PLAIN_LOOP.set("optimizer", optimizer)
    one, two = trained(spec, 5)[0], trained(spec, 5)[0]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("optimizer", LIBRARY, ids=str)
def test_without_the_library_the_extra_is_named(optimizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    name = type(optimizer).__name__
    with pytest.raises(Unavailable) as error:
        optimizer.build(groups_of(model_of()))
    assert str(error.value) == f"the optimizer {name} needs the extra optim: pip install 'headtohead[optim]'"
