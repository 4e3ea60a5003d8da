"""Forecast how long runs take: time a few steps and evaluations while as many other processes train."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from headtohead.data.encoded import SentenceSet
from headtohead.run import store
from headtohead.run.machine import keep_memory
from headtohead.run.session import Plan
from headtohead.run.teachers import ready_task
from headtohead.spec import Spec, code_of, trust
from headtohead.training.arm import Arm
from headtohead.training.tasks import Task
from headtohead.training.trainer import Trainer, TrainSpec

STEPS = 6
TIMED_TEXTS = 64  # or windows


@dataclass(frozen=True)
class RunTime:
    """How long one run takes on this machine, as busy as it is now."""

    steps: int
    step_seconds: float
    evaluation_seconds: float  # all evaluations together

    @property
    def seconds(self) -> float:
        return self.steps * self.step_seconds + self.evaluation_seconds


@dataclass(frozen=True)
class Forecast:
    """How long many runs take."""

    runs: int  # still to be trained
    jobs: int  # side by side
    seconds: float | None  # None: no run could be timed
    each: RunTime | None = None  # if all runs take the same time
    id: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"runs": self.runs, "jobs": self.jobs, "minutes": self.seconds and self.seconds / 60}


@dataclass
class BackgroundLoad:
    """Other processes that train the same arm, so that a step takes as long as it will in the real runs."""

    others: int
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> BackgroundLoad:
        return self

    def train(self, arm: Arm, threads: int) -> None:
        """Let the others train this arm. Returns when all have started."""
        command = [sys.executable, "-P", "-m", "headtohead.run.forecast"]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL  # the process that times the arm reports its errors
        while len(self.processes) < self.others:
            self.processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True))
        code = {name: text.decode() for name, text in code_of(arm).items()}
        request = json.dumps({"arm": arm.to_json(), "code": code, "threads": threads})
        for process in self.processes:
            assert process.stdin
            with contextlib.suppress(OSError):  # it failed to train an earlier arm: the load is smaller now
                print(request, file=process.stdin, flush=True)
        for process in self.processes:
            assert process.stdout
            process.stdout.readline()

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()


def _train_on_request() -> None:
    """Train the arm of each line of standard input until the next line comes; end when the input ends."""
    keep_memory()
    while line := sys.stdin.readline():
        request: dict[str, Any] = json.loads(line)
        code = {name: text.encode() for name, text in request["code"].items()}
        trust.allow(code)  # the process that asks runs it already
        arm = Spec.from_json(request["arm"], code)
        assert isinstance(arm, Arm)
        torch.set_num_threads(request["threads"])
        task = ready_task(arm, store.home())
        model = task.build(0)
        steps = Trainer(model, arm.train, task.steps, 0).fit(_loss_of(task, model))
        for n, _ in enumerate(steps):
            if n == 0:
                print("training", flush=True)
            if select.select([sys.stdin], [], [], 0)[0]:
                break


def _loss_of(task: Task, model: nn.Module) -> Callable[[int], Iterable[torch.Tensor]]:
    return lambda step: task.losses(model, task.batch(0, step), "cpu")


def time_run(arm: Arm, threads: int = 1, load: BackgroundLoad | None = None) -> RunTime:
    """Time a few steps. Their batches are spread over the first epoch, because texts differ in length."""
    keep_memory()
    torch.set_num_threads(threads)
    task = ready_task(arm, store.home())  # first, so that downloads and the vocabulary are in the cache for the others
    if load is not None:
        load.train(arm, threads)
    plan, model = Plan.of(task), task.build(0)
    trainer = Trainer(model, arm.train, task.steps, 0)
    spread = [round(n * (task.steps_per_epoch - 1) / STEPS) for n in range(STEPS + 1)]
    times: list[float] = []
    start = time.perf_counter()
    loss_of = _loss_of(task, model)
    for step in trainer.fit(lambda n: loss_of(spread[n])):
        now = time.perf_counter()
        times, start = [*times, now - start], now
        if step.done == min(STEPS + 1, task.steps):
            break
    taken = times[1:] or times  # the first allocates the optimizer's state
    return RunTime(task.steps, sum(taken) / len(taken), _evaluation_seconds(task, model, plan))


@torch.inference_mode()
def _evaluation_seconds(task: Task, model: nn.Module, plan: Plan) -> float:
    """Seconds of all evaluations: the time of one text or window, times how many will be read."""
    spec = task.arm.evaluate
    sets = [name for name in task.sets(tests=spec.tests) if name != "train"]
    if not sets:
        return 0.0
    few = task.sample(sets[0], TIMED_TEXTS)
    model.eval()
    task.evaluate_batch(model, few, "cpu")  # the first allocates memory
    start = time.perf_counter()
    task.evaluate_batch(model, few, "cpu")
    each = (time.perf_counter() - start) / len(few.ids)
    evaluations = 1 + sum(plan.evaluates(n) for n in range(1, task.steps + 1))
    read = spec.train * (evaluations + 1)
    for name in sets:
        count = _count(task, name)
        along = 0 if name in task.data.tests and not spec.watch_test else min(count, spec.along or count)
        read += count + along * evaluations
    return each * read


def _count(task: Task, name: str) -> int:
    """The number of texts or windows of a set."""
    held = task.data.held[name]
    if isinstance(held, SentenceSet):
        return len(held.items)
    spec = task.arm.evaluate
    windows = -(-len(held.tokens) // (spec.stride or task.arm.model.block))
    return min(windows, spec.windows or windows)


# -- many runs ---------------------------------------------------------------------------------------------------------

SORTS = 6  # kinds of runs that are timed; the others are assumed to be like them
OTHER_SECONDS = 0.5  # of a run outside its steps and evaluations


def forecast_runs(arms: Sequence[Arm], jobs: int, threads: int = 1) -> Forecast:
    """How long these runs take, `jobs` at a time. One of each kind is timed beside as many others as there will be."""
    together = max(1, min(len(arms), jobs))
    with BackgroundLoad(together - 1) as load:
        if len({_sort(arm) for arm in arms}) == 1:
            each = time_run(arms[0], threads, load)
            return Forecast(len(arms), together, -(-len(arms) // together) * each.seconds, each)
        mean = mean_seconds(arms, threads, load)
    return Forecast(len(arms), together, mean and len(arms) / together * mean)


def mean_seconds(arms: Sequence[Arm], threads: int = 1, load: BackgroundLoad | None = None) -> float | None:
    """The mean time of these runs; None where none of them could be timed."""
    paces: dict[str, float | None] = {}  # seconds per step or epoch
    found = []
    for arm in arms:
        sort = _sort(arm)
        if sort not in paces and len(paces) < SORTS:
            try:
                paces[sort] = time_run(arm, threads, load).seconds / _length(arm)
            except Exception:  # it cannot be trained: its run will report why
                paces[sort] = None
        pace = paces.get(sort)
        found += [OTHER_SECONDS + pace * _length(arm)] if pace is not None else []
    return sum(found) / len(found) if found else None


def _length(arm: Arm) -> int:
    return arm.train.steps or arm.train.epochs or 1


def _sort(arm: Arm) -> str:
    """The same for arms whose steps cost the same: neither the number of steps nor the learning rate matters."""
    unit = {"steps": 1} if arm.train.steps else {"steps": None, "epochs": 1}
    same = TrainSpec(batch=arm.train.batch, optimizer=type(arm.train.optimizer)(), **unit)
    return dataclasses.replace(arm, train=same).id


if __name__ == "__main__":
    _train_on_request()
