"""Schedules: the rates that others' schedules give, as functions of the step alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import InputError, families
from headtohead.parts.schedules import Constant, OneCycle, WarmupCosine, WarmupStableDecay
from headtohead.spec import is_builtin

SCHEDULES = [cls() for cls in families("train")["schedule"].values() if is_builtin(cls)]


def torch_one_cycle(steps: int, warmup: float, start: float, end: float) -> list[float]:
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=1.0,
        total_steps=steps,
        pct_start=warmup,
        div_factor=1 / start,
        final_div_factor=start / end,
        cycle_momentum=False,
    )
    found = []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step < steps - 1:
            schedule.step()
    return found


@pytest.mark.parametrize("steps", [2, 3, 4, 7, 10, 100, 333])
@pytest.mark.parametrize(("warmup", "start", "end"), [(0.3, 0.04, 4e-6), (0.21, 0.5, 0.1), (0.9, 0.04, 1e-3)])
def test_one_cycle_matches_torch(steps, warmup, start, end):
    ours = [OneCycle(warmup=warmup, start=start, end=end).share(step, steps) for step in range(steps)]
    assert ours == pytest.approx(torch_one_cycle(steps, warmup, start, end), rel=1e-9, abs=1e-12)


def test_defaults_of_one_cycle_match_torch():
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=50, cycle_momentum=False)
    for step in range(49):
        assert OneCycle().share(step, 50) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()
    assert OneCycle().share(49, 50) == pytest.approx(4e-6)


def test_one_cycle_is_defined_where_torch_divides_by_zero():
    rates = [OneCycle(warmup=0.1).share(step, 10) for step in range(10)]
    assert rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(4e-6)


def test_warmup_is_linear_and_decay_a_half_cosine():
    schedule = WarmupCosine(warmup=0.2, end=0.1)
    rates = [schedule.share(step, 100) for step in range(100)]
    assert rates[:20] == pytest.approx([(n + 1) / 20 for n in range(20)])
    assert rates[20] == 1.0
    assert rates[60] == pytest.approx((1 + 0.1) / 2)
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[20:] == pytest.approx([0.1 + 0.45 * (1 + math.cos(math.pi * n / 80)) for n in range(80)])
    assert 0.1 < rates[-1] < 0.101, "the next update would be made with the end rate itself"


def test_without_warmup_the_rate_starts_at_the_peak():
    assert WarmupCosine(warmup=0).share(0, 10) == 1.0
    assert WarmupCosine(warmup=1).share(9, 10) == 1.0
    assert WarmupCosine(warmup=1).share(0, 10) == 0.1
    assert WarmupCosine(end=1, warmup=0).share(7, 10) == 1.0


@pytest.mark.parametrize("steps", [1, 7, 20, 333])
@pytest.mark.parametrize(
    ("warmup", "decay", "end"), [(0.1, 0.2, 0.0), (0.0, 1.0, 0.1), (0.25, 0.0, 0.0), (0.5, 0.5, 0.3)]
)
def test_warmup_stable_decay_is_its_equation(steps, warmup, decay, end):
    shapes = {
        "1-sqrt": lambda p: 1 - p**0.5,
        "linear": lambda p: 1 - p,
        "cosine": lambda p: (1 + math.cos(math.pi * p)) / 2,
    }
    w, d = round(warmup * steps), round(decay * steps)
    for shape, falls in shapes.items():
        for step in range(steps):
            if step < w:
                wanted = (step + 1) / w
            elif step < steps - d:
                wanted = 1.0
            else:
                wanted = end + (1 - end) * falls((step - (steps - d)) / d)
            found = WarmupStableDecay(warmup=warmup, decay=decay, shape=shape, end=end).share(step, steps)
            assert found == pytest.approx(wanted, abs=1e-12), (shape, step)


@pytest.mark.parametrize("shape", ["1-sqrt", "linear", "cosine"])
def test_warmup_stable_decay_falls_as_in_the_library(shape):
    pytorch_optimizer = pytest.importorskip("pytorch_optimizer")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = pytorch_optimizer.get_wsd_schedule(optimizer, 0, 60, 40, cooldown_type=shape)
    for step in range(100):
        ours = WarmupStableDecay(warmup=0, decay=0.4, shape=shape).share(step, 100)
        assert ours == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_warmup_and_decay_are_shares_of_the_steps():
    with pytest.raises(InputError, match="their sum must be at most 1"):
        WarmupStableDecay(warmup=0.6, decay=0.5)


def test_constant_is_constant():
    assert {Constant().share(step, 7) for step in range(7)} == {1.0}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@settings(max_examples=200, deadline=None)
@given(st.integers(1, 400), st.data())
def test_every_rate_is_a_share_of_the_peak(schedule, steps, data):
    step = data.draw(st.integers(0, steps - 1))
    assert 0 < schedule.share(step, steps) <= 1
    assert max(schedule.share(s, steps) for s in range(steps)) > 0.5 or steps < 4
