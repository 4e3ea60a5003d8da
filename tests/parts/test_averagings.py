"""Averaged weights: the definitions, and that training does not notice them."""

from __future__ import annotations

import copy

import pytest
import torch

from headtohead import InputError
from headtohead.parts.averagings import Ema, MeanOfLast, NoAverage
from headtohead.parts.optimizers import ScheduleFreeAdamW
from headtohead.parts.schedules import Constant
from headtohead.training.trainer import Trainer, TrainSpec
from helpers.training import TINY, loss_of, model_of, same, trained, weights

AVERAGES = [Ema(decay=0.7), Ema(decay=0.0), MeanOfLast(count=3, every=2), MeanOfLast(count=1, every=1)]
AVERAGED = [*(TrainSpec(average=a) for a in AVERAGES), TrainSpec(optimizer=ScheduleFreeAdamW(), schedule=Constant())]


def followed(spec: TrainSpec, steps: int) -> tuple[list[dict], list[dict]]:
    """The model's own weights after each step, and those that are evaluated."""
    model = model_of(TINY.set("dropout", 0.2))
    trainer = Trainer(model, spec, steps, 0)
    own, evaluated = [], []
    for _ in trainer.fit(loss_of(model)):
        own.append(weights(model))
        with trainer.averaged():
            evaluated.append(weights(model))
    return own, evaluated


def test_ema_is_the_sum_over_all_steps():
    own, evaluated = followed(TrainSpec(average=Ema(decay=0.7)), 6)
    for t in range(6):
        shares = [0.7 ** (t - s) for s in range(t + 1)]
        wanted = {n: sum(a * own[s][n] for s, a in enumerate(shares)) / sum(shares) for n in own[0]}
        same(evaluated[t], wanted, 1e-6)


def test_without_memory_ema_is_the_last_weight():
    own, evaluated = followed(TrainSpec(average=Ema(decay=0.0)), 3)
    for a, b in zip(own, evaluated, strict=True):
        same(a, b, 0.0)


def test_mean_of_last_is_that_of_steps_on_the_grid():
    own, evaluated = followed(TrainSpec(average=MeanOfLast(count=3, every=2)), 9)
    same(evaluated[0], own[0], 0.0)  # no step of the grid yet
    for t in range(1, 9):
        steps = [s for s in range(t + 1) if (s + 1) % 2 == 0][-3:]
        wanted = {n: sum(own[s][n] for s in steps) / len(steps) for n in own[0]}
        same(evaluated[t], wanted, 1e-6)


@pytest.mark.parametrize("spec", AVERAGED, ids=lambda s: str(s.average if s.average.averages else s.optimizer))
def test_training_does_not_notice_an_evaluation(spec):
    own, evaluated = followed(spec, 6)
    plain, _ = trained(spec, 6, model_of(TINY.set("dropout", 0.2)))
    same(own[-1], weights(plain), 0.0)
    usual, _ = trained(
        TrainSpec(optimizer=spec.optimizer, schedule=spec.schedule), 6, model_of(TINY.set("dropout", 0.2))
    )
    same(own[-1], weights(usual), 0.0)
    last_alone = spec.average in (Ema(decay=0.0), MeanOfLast(count=1, every=1))
    assert any(not torch.equal(evaluated[3][n], own[3][n]) for n in own[3]) != last_alone


@pytest.mark.parametrize("spec", AVERAGED, ids=lambda s: str(s.average if s.average.averages else s.optimizer))
def test_a_restored_average_continues_to_the_same_bits(spec):
    own, evaluated = followed(spec, 8)
    model = model_of(TINY.set("dropout", 0.2))
    trainer = Trainer(model, spec, 8, 0)
    for step in trainer.fit(loss_of(model)):
        if step.done == 5:
            break
    kept = copy.deepcopy((model.state_dict(), trainer.state(), trainer.done))
    again = model_of(TINY.set("dropout", 0.2), seed=9)
    again.load_state_dict(kept[0])
    resumed = Trainer(again, spec, 8, 0)
    resumed.restore(kept[1], kept[2])
    with resumed.averaged():
        same(weights(again), evaluated[4], 0.0)
    for _ in resumed.fit(loss_of(again)):
        pass
    same(weights(again), own[-1], 0.0)
    with resumed.averaged():
        same(weights(again), evaluated[-1], 0.0)


def test_an_error_inside_gives_the_weights_back():
    model = model_of()
    trainer = Trainer(model, TrainSpec(average=Ema()), 3, 0)
    for _ in trainer.fit(loss_of(model)):
        pass
    before = weights(model)
    with pytest.raises(ZeroDivisionError), trainer.averaged():
        _ = 1 / 0
    same(weights(model), before, 0.0)


def test_frozen_parameters_have_no_average():
    model = model_of()
    frozen = model.trunk.blocks[0].attention.q.weight.requires_grad_(False)
    trainer = Trainer(model, TrainSpec(average=Ema()), 3, 0)
    for _ in trainer.fit(loss_of(model)):
        pass
    assert all(p is not frozen for p in trainer.average.averaged())


def test_averages_count_as_memory_of_training():
    def needed(average) -> int:
        model = model_of()
        trainer = Trainer(model, TrainSpec(average=average), 4, 0)
        for _ in trainer.fit(loss_of(model)):
            pass
        return trainer.learning_bytes

    size = sum(p.numel() * p.element_size() for p in model_of().parameters())
    assert needed(NoAverage()) == 3 * size, "gradients and two means of AdamW"
    assert needed(Ema()) == 4 * size
    assert needed(MeanOfLast(count=2, every=1)) == 5 * size


def test_two_averages_are_refused():
    with pytest.raises(InputError, match=r"averages the weights itself; set train\.average=NoAverage"):
        TrainSpec(optimizer=ScheduleFreeAdamW(), average=Ema())


def test_the_state_needs_nothing_but_plain_values():
    model = model_of()
    trainer = Trainer(model, TrainSpec(average=MeanOfLast(count=2, every=1)), 4, 0)
    for _ in trainer.fit(loss_of(model)):
        pass
    assert all(isinstance(t, torch.Tensor) for t in trainer.state().tensors.values())
    assert sum("average " in name for name in trainer.state().tensors) == 2 * len(list(model.parameters()))
