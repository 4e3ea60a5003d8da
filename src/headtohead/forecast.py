"""How long will a run take? Measured on a few of its own steps and looks, before it begins."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn

from headtohead.arm import Arm
from headtohead.data.encoded import SentenceSet
from headtohead.machine import keep_memory
from headtohead.runs import Plan
from headtohead.tasks import Work, work_on
from headtohead.train import Trainer

STEPS = 6
LOOKED_AT = 64  # texts or windows


@dataclass(frozen=True)
class RunForecast:
    """Of one run, on a machine as busy as now."""

    steps: int
    step_seconds: float
    look_seconds: float  # all looks together

    @property
    def seconds(self) -> float:
        return self.steps * self.step_seconds + self.look_seconds


def forecast(arm: Arm, threads: int = 1) -> RunForecast:
    """Steps are taken and thrown away: batches are spread over the first epoch, for texts differ in length."""
    keep_memory()
    torch.set_num_threads(threads)
    work = work_on(arm)
    plan, model = Plan.of(work), work.build(0)
    trainer = Trainer(model, arm.train, work.steps, 0)
    spread = [round(n * (work.steps_per_epoch - 1) / STEPS) for n in range(STEPS + 1)]
    times: list[float] = []
    start = time.perf_counter()
    for step in trainer.fit(lambda n: work.loss(model, work.batch(0, spread[n]), "cpu")):
        now = time.perf_counter()
        times, start = [*times, now - start], now
        if step.done == min(STEPS + 1, work.steps):
            break
    taken = times[1:] or times  # the first makes room for the optimizer
    return RunForecast(work.steps, sum(taken) / len(taken), _looks(work, model, plan))


@torch.inference_mode()
def _looks(work: Work, model: nn.Module, plan: Plan) -> float:
    """Seconds of all looks: what one text or window takes, times how many will be read."""
    spec = work.arm.evaluate
    sets = [name for name in work.sets(tests=spec.tests) if name != "train"]
    if not sets:
        return 0.0
    few = work.some(sets[0], LOOKED_AT)
    model.eval()
    start = time.perf_counter()
    work.loss(model, few, "cpu")
    each = (time.perf_counter() - start) / len(few.ids)
    looks = 1 + sum(plan.looks(n) for n in range(1, work.steps + 1))
    read = spec.train * (looks + 1)
    for name in sets:
        count = _count(work, name)
        along = 0 if name in work.data.tests and not spec.watch_test else min(count, spec.along or count)
        read += count + along * looks
    return each * read


def _count(work: Work, name: str) -> int:
    """Texts of a set, or windows."""
    held = work.data.held[name]
    if isinstance(held, SentenceSet):
        return len(held.items)
    spec = work.arm.evaluate
    windows = -(-len(held.tokens) // (spec.stride or work.arm.model.block))
    return min(windows, spec.windows or windows)
