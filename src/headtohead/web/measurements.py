"""Measure what the page Compose asks for: one line of JSON in, one line out. It runs in a separate process, so that
pages stay quick, a large model cannot take the server with it, and the server can end at any time.

Arms come from the page: they name built-in parts only (choice.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from headtohead.auditor.stored import audit_once
from headtohead.errors import InputError, failure
from headtohead.model.count import breakdown
from headtohead.model.spec import ModelSpec
from headtohead.run import store
from headtohead.run.executors.execution import Execution
from headtohead.run.forecast import OTHER_SECONDS, time_run
from headtohead.run.teachers import ready_task
from headtohead.spec import Spec
from headtohead.study.expectation import expected_plan
from headtohead.study.layout import layout_of
from headtohead.study.recipes import study_for
from headtohead.training.arm import Arm
from headtohead.training.first_batch import FirstStep
from headtohead.training.tasks import Task

# A larger model is neither audited nor timed in the page: the machine may be training something else
MOST_PARAMETERS = 20_000_000
MOST_LAYERS = 128
MOST_STEP_FLOPS = 3e11
MOST_STEP_BYTES = 1e9


def measure(asked: dict[str, Any], home: Path) -> Any:
    """The answer to a question of measuring.py."""
    kind = asked["kind"]
    if kind in ("runs", "plan"):
        study = study_for(**asked["study"])
        if kind == "plan":
            plan = expected_plan(study, asked["effect"], asked["seconds"], Execution().checked().jobs or 1, home)
            return [] if plan is None else plan.lines()
        how = Execution().checked()
        layout = layout_of(study, {}, how.device, how.threads)
        arms = [variant.name for variant in study.variants[1:]]
        parts = {pairs: layout.part(dict.fromkeys(arms, pairs)) for pairs in study.design.analyses}
        return [
            [pairs, list({c.id: (c.id, c.variant) for c in part.cells()}.values())] for pairs, part in parts.items()
        ]
    if kind == "audit":
        return audit(Spec.from_json(asked["model"]), asked["causal"], home)
    return {"data": data, "size": size, "time": seconds}[kind](Spec.from_json(asked["arm"]))


def data(arm: Arm) -> dict[str, Any]:
    """What was read: sets, tokens, classes."""
    task = _task(json.dumps(arm.to_json()))
    return {**task.facts(), "warnings": task.data_warnings()}


def size(arm: Arm) -> dict[str, Any]:
    """Parameters, and the FLOPs of a step as a run counts them."""
    task, count = _task(json.dumps(arm.to_json())), parameters(arm)
    found = {"parameters": count, "steps": task.steps, "warnings": task.model_warnings(), "flops": None}
    if not is_large(arm, count):
        found["flops"] = FirstStep.of(task, task.build(0), 0, "cpu").flops
    return found


def parameters(arm: Arm) -> int:
    if arm.model.layers > MOST_LAYERS:
        raise InputError(f"a model of more than {MOST_LAYERS} layers is not counted in the page")
    task = _task(json.dumps(arm.to_json()))
    return breakdown(arm.model, task.vocabulary.size, task.outcomes if arm.task == "classifier" else None).total


def audit(model: ModelSpec, causal: bool, home: Path) -> dict[str, Any]:
    if model.layers > MOST_LAYERS or breakdown(model, 256).total > MOST_PARAMETERS:
        raise InputError("a model of this size is not audited in the page: h2h run does it before training")
    report = audit_once(model, "model", causal=causal, home=home)
    broken = [{"check": f.check, "evidence": f.evidence, "meaning": f.meaning} for f in report.broken]
    return {"proved": report.count("proved"), "broken": broken, "other": report.count("does not apply")}


def seconds(arm: Arm) -> float:
    """How long a run takes, by timing a few steps."""
    if is_large(arm, parameters(arm)):
        raise InputError("a model of this size is not timed in the page: h2h plan forecasts its time")
    return time_run(arm).seconds + OTHER_SECONDS


def is_large(arm: Arm, parameters: int) -> bool:
    """Whether a step of this arm would take seconds, or a gigabyte."""
    model, tokens = arm.model, arm.train.batch * arm.model.block
    held = 4 * tokens * model.layers * (20 * model.width + 2 * model.heads * model.block)
    return parameters > MOST_PARAMETERS or 6 * parameters * tokens > MOST_STEP_FLOPS or held > MOST_STEP_BYTES


@lru_cache(maxsize=6)
def _task(arm: str) -> Task:
    """The task of an arm. Nothing is downloaded for it."""
    read: Arm = Spec.from_json(json.loads(arm))
    lacks = read.data.corpus.lacks()
    if lacks:
        raise InputError(f"{read.data.corpus.name} is not here yet: {lacks}")
    return ready_task(read, store.home())


def main(home: Path) -> None:
    """Answer questions until the input ends, which it does when the server has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    torch.set_num_threads(1)
    killed = contextlib.suppress(BrokenPipeError)  # the server was killed, and reads no answers
    with killed, os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        sys.stdout = sys.stderr  # what a library prints is no answer
        while line := sys.stdin.readline():
            try:
                found = [measure(json.loads(line), home), ""]
            except Exception as error:  # the page shows it; the study's own run will report it too
                found = [None, failure(error, ours=True).splitlines()[0]]
            print(json.dumps(store.plain(found)), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
