"""How long will a run take? Measured on a few of its own steps and looks before it begins, beside as many others as
there will be."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from headtohead.arm import Arm
from headtohead.data.encoded import SentenceSet
from headtohead.machine import keep_memory
from headtohead.runs import Plan
from headtohead.spec import Spec
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


@dataclass
class Company:
    """Processes that train what is being timed: beside others a step takes longer than alone, by how much depends on
    what cores share."""

    others: int
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Company:
        return self

    def train(self, arm: Arm, threads: int) -> None:
        """Returns when all are at it."""
        command = [sys.executable, "-m", "headtohead.forecast"]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL  # what is wrong with an arm, the one who times it says
        while len(self.processes) < self.others:
            self.processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True))
        said = json.dumps({"arm": arm.to_json(), "threads": threads})
        for process in self.processes:
            assert process.stdin
            with contextlib.suppress(OSError):  # one that could not train the arm before: there is less company now
                print(said, file=process.stdin, flush=True)
        for process in self.processes:
            assert process.stdout
            process.stdout.readline()

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()


def _keep_company() -> None:
    """Train what the last line says until there is another; where there is nobody left to write one, end."""
    keep_memory()
    while line := sys.stdin.readline():
        said: dict[str, Any] = json.loads(line)
        arm = Spec.from_json(said["arm"])
        assert isinstance(arm, Arm)
        torch.set_num_threads(said["threads"])
        work = work_on(arm)
        model = work.build(0)
        steps = Trainer(model, arm.train, work.steps, 0).fit(_loss_of(work, model))
        for n, _ in enumerate(steps):
            if n == 0:
                print("training", flush=True)
            if select.select([sys.stdin], [], [], 0)[0]:
                break


def _loss_of(work: Work, model: nn.Module) -> Callable[[int], torch.Tensor]:
    return lambda step: work.loss(model, work.batch(0, step), "cpu")


def forecast(arm: Arm, threads: int = 1, company: Company | None = None) -> RunForecast:
    """Steps are taken and thrown away: batches are spread over the first epoch, for texts differ in length."""
    keep_memory()
    torch.set_num_threads(threads)
    work = work_on(arm)  # first: whatever it downloads and learns of the text is then there for the others
    if company is not None:
        company.train(arm, threads)
    plan, model = Plan.of(work), work.build(0)
    trainer = Trainer(model, arm.train, work.steps, 0)
    spread = [round(n * (work.steps_per_epoch - 1) / STEPS) for n in range(STEPS + 1)]
    times: list[float] = []
    start = time.perf_counter()
    loss_of = _loss_of(work, model)
    for step in trainer.fit(lambda n: loss_of(spread[n])):
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
    work.glance(model, few, "cpu")  # the first makes room
    start = time.perf_counter()
    work.glance(model, few, "cpu")
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


if __name__ == "__main__":
    _keep_company()
