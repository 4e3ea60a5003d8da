"""The trainer: parameter groups, updates, and runs that resume to the same bits."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import InputError, RelativeBias
from headtohead.parts.optimizers import SGD, AdamW, Muon
from headtohead.parts.schedules import Constant, OneCycle, WarmupCosine
from headtohead.training.trainer import Trainer, TrainSpec, groups_of, reseed
from helpers.training import MODELS, OPTIMIZERS, TINY, T, V, loss_of, model_of, same, trained, weights


def names_in(model: nn.Module, parameters: tuple[nn.Parameter, ...]) -> set[str]:
    return {name for name, p in model.named_parameters() if any(p is q for q in parameters)}


def test_gradients_are_clipped_to_the_norm():
    model, plain = model_of().double(), model_of().double()
    trained(TrainSpec(optimizer=SGD(momentum=0.0), schedule=Constant(), clip=0.01), 3, model)
    for step in range(3):
        plain.zero_grad()
        loss_of(plain)(step).backward()
        norm = torch.cat([p.grad.flatten() for p in plain.parameters()]).norm()
        assert norm > 0.01
        with torch.no_grad():
            for p in plain.parameters():
                p -= 0.1 * p.grad * 0.01 / norm
    same(weights(model), weights(plain), 1e-7)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_parameters_are_grouped_by_kind(make):
    model = make()
    groups = groups_of(model)
    inside = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, nn.Linear) and not n.startswith("head")}
    assert names_in(model, groups.matrices) == inside
    assert names_in(model, groups.plain) == {n for n, p in model.named_parameters() if p.ndim == 1}
    tables = names_in(model, groups.tables)
    assert "trunk.tokens.weight" in tables
    assert all("head" in n or isinstance(model.get_submodule(n.rpartition(".")[0]), nn.Embedding) for n in tables)


def test_a_table_of_relative_biases_is_not_a_matrix():
    model = model_of(TINY.set("position", RelativeBias()))
    assert names_in(model, groups_of(model).matrices) == {
        f"{n}.weight" for n, m in model.trunk.named_modules(prefix="trunk") if isinstance(m, nn.Linear)
    }


def test_a_step_reports_number_rate_and_loss():
    model = model_of()
    trainer = Trainer(model, TrainSpec(optimizer=AdamW(lr=0.5), schedule=WarmupCosine(warmup=0.5)), 4, 0)
    before = float(loss_of(model)(0).detach())
    steps = list(trainer.fit(loss_of(model)))
    assert [s.done for s in steps] == [1, 2, 3, 4]
    assert [s.lr for s in steps] == pytest.approx([0.25, 0.5, 0.5, 0.5 * 0.55])
    assert float(steps[0].loss) == before
    assert not steps[0].loss.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_the_reported_rate_is_that_of_the_optimizer():
    model = model_of()
    (step,) = Trainer(model, TrainSpec(optimizer=Muon(lr=0.05)), 1, 0).fit(loss_of(model))
    assert step.lr == 0.05


def test_evaluation_between_steps_changes_nothing():
    spec = TrainSpec(optimizer=AdamW())
    quiet, _ = trained(spec, 6, model_of(TINY.set("dropout", 0.3)))
    model = model_of(TINY.set("dropout", 0.3))
    for _step in Trainer(model, spec, 6, 0).fit(loss_of(model)):
        model.eval()
        torch.rand(7)
        loss_of(model)(0)
    same(weights(model), weights(quiet), 0.0)


def test_dropout_is_a_function_of_seed_and_step():
    spec, dropping = TrainSpec(), TINY.set("dropout", 0.5)
    runs = [trained(spec, 4, model_of(dropping), seed=seed)[1] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    reseed(3, "dropout", 5)
    first = torch.rand(3)
    reseed(3, "dropout", 6)
    assert not torch.equal(torch.rand(3), first)
    reseed(3, "dropout", 5)
    assert torch.equal(torch.rand(3), first)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_a_restored_trainer_continues_to_the_same_bits(optimizer, tied):
    spec = TrainSpec(optimizer=optimizer, schedule=OneCycle(), clip=1.0)
    shape = TINY.set("dropout", 0.2).set("tied", tied)
    whole, losses = trained(spec, 8, model_of(shape), seed=3)
    model = model_of(shape)
    trainer = Trainer(model, spec, 8, 3)
    for step in trainer.fit(loss_of(model)):
        if step.done == 3:
            break
    kept = copy.deepcopy((model.state_dict(), trainer.state(), trainer.done))
    again = model_of(shape, seed=9)
    again.load_state_dict(kept[0])
    resumed = Trainer(again, spec, 8, 3)
    resumed.restore(kept[1], kept[2])
    torch.rand(11)
    assert [float(s.loss) for s in resumed.fit(loss_of(again))] == losses[3:]
    same(weights(again), weights(whole), 0.0)
    assert all(isinstance(t, Tensor) for t in kept[1].tensors.values())
    assert json.loads(json.dumps(kept[1].values)) == kept[1].values


def test_restored_state_is_a_copy():
    model = model_of()
    trainer = Trainer(model, TrainSpec(), 8, 0)
    next(trainer.fit(loss_of(model)))
    kept = copy.deepcopy(trainer.state())
    other = Trainer(model_of(), TrainSpec(), 8, 0)
    other.restore(kept, 1)
    before = {n: t.clone() for n, t in kept.tensors.items()}
    for _step in other.fit(loss_of(other.model)):
        pass
    assert all(torch.equal(kept.tensors[n], before[n]) for n in before)
    assert len(kept.tensors) == 2 * len(list(model.parameters()))


def test_frozen_parameters_do_not_change():
    for optimizer in OPTIMIZERS:
        model = model_of()
        frozen = model.trunk.blocks[0].attention.q.weight.requires_grad_(False)
        before = frozen.clone()
        table = weights(model)["trunk.tokens.weight"]
        trained(TrainSpec(optimizer=optimizer, clip=1.0), 2, model)
        assert torch.equal(frozen, before), optimizer
        assert not torch.equal(model.trunk.tokens.weight, table), optimizer


def test_steps_or_epochs_but_not_both():
    assert TrainSpec().set("epochs", "3") == TrainSpec(steps=None, epochs=3)
    assert TrainSpec(steps=None, epochs=3).set("steps", 7) == TrainSpec(steps=7)
    for settings in ({"steps": None}, {"steps": 3, "epochs": 3}):
        with pytest.raises(InputError, match="set one of them"):
            TrainSpec(**settings)
    with pytest.raises(InputError, match=r"TrainSpec\.steps"):
        TrainSpec().set("steps", "many")


def test_the_batch_loss_is_that_of_the_logits():
    model = model_of()
    ids = torch.randint(0, V, (4, T + 1), generator=torch.Generator().manual_seed(0))
    plain = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss_of(model)(0).detach()) == pytest.approx(float(plain.detach()), abs=1e-6)
