"""What the arms of a study cost, measured while the user still chooses: data, parameters, FLOPs, audit, time.

One of these takes between milliseconds and a minute. So one thread measures one thing after another and remembers what
it found; every question is answered at once with what is known, and asked again while something is missing.
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.errors import InputError, failure

if TYPE_CHECKING:
    from headtohead.study.study import Study
    from headtohead.training.arm import Arm
    from headtohead.training.tasks import Task

KEPT = 400  # results
KEPT_TASKS = 6  # tokenized corpora
WAITING = 64  # things to measure; older ones that nobody asks for any more are forgotten

PATIENCE = 10.0  # seconds that the end of the server waits for the thread

# A larger model is neither audited nor timed in the page: the machine may be training something else
MOST_PARAMETERS = 20_000_000
MOST_LAYERS = 128
MOST_STEP_FLOPS = 3e11
MOST_STEP_BYTES = 1e9


@dataclass(frozen=True)
class Wish:
    """Something to measure."""

    key: str
    says: str  # shown while it is measured
    measure: Callable[[], Any]


@dataclass(frozen=True)
class Answer:
    """What is known: values by key; a key that is not known yet is missing. `errors` are lines by key."""

    values: dict[str, Any]
    errors: dict[str, str]
    done: int
    of: int
    now: str  # what is measured now


class Recent:
    """The results of the last calls, by key. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: str, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return made


class Measurer:
    """Measures in a thread of its own, which starts with the first question."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._known: OrderedDict[str, tuple[Any, str]] = OrderedDict()  # value and error, by key
        self._waiting: list[Wish] = []
        self._now: Wish | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._tasks = Recent(KEPT_TASKS)
        self._ended = False

    def ask(self, wishes: Sequence[Wish]) -> Answer:
        """What is known of these; the rest is measured next, in this order."""
        with self._changed:
            known = {wish.key: self._known[wish.key] for wish in wishes if wish.key in self._known}
            for key in known:
                self._known.move_to_end(key)
            missing = [w for w in wishes if w.key not in known and (self._now is None or w.key != self._now.key)]
            asked = {wish.key for wish in wishes}
            self._waiting = [*missing, *(w for w in self._waiting if w.key not in asked)][:WAITING]
            self._start()
            self._changed.notify_all()
            now = self._now.says if self._now is not None and self._now.key in asked else ""
        values = {key: value for key, (value, error) in known.items() if not error}
        errors = {key: error for key, (_, error) in known.items() if error}
        return Answer(values, errors, len(known), len(wishes), now or (missing[0].says if missing else ""))

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="measurer", daemon=True)
            self._thread.start()
            atexit.register(self.stop)  # torch must not be inside a step when Python ends

    def stop(self) -> None:
        """End the thread after what it measures now."""
        with self._changed:
            self._ended, self._waiting = True, []
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _work(self) -> None:
        import torch

        torch.set_num_threads(1)  # of this thread
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                self._now = wish = self._waiting.pop(0)
            found: tuple[Any, str]
            try:
                found = wish.measure(), ""
            except Exception as error:  # the page shows it; the study's own run will report it too
                found = None, failure(error, ours=True).splitlines()[0]
            with self._changed:
                self._known[wish.key] = found
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
                self._now = None

    # -- what can be measured ------------------------------------------------------------------------------------------

    def data(self, arm: Arm) -> Wish:
        key = json.dumps(["data", arm.task, arm.data.to_json(), arm.tokenizer.to_json(), arm.model.block])
        return Wish(key, "reading the corpus", partial(self._data, arm))

    def size(self, arm: Arm, name: str) -> Wish:
        return Wish(_key("size", arm), f"counting the parameters and FLOPs of {name}", partial(self._size, arm))

    def audit(self, arm: Arm, name: str) -> Wish:
        key = json.dumps(["audit", arm.task, arm.model.to_json()])
        return Wish(key, f"auditing {name}", partial(self._audit, arm, name))

    def timing(self, arm: Arm, name: str) -> Wish:
        return Wish(_key("time", arm), f"timing a few steps of {name}", partial(self._time, arm))

    def runs(self, study: Study) -> Wish:
        """The runs until each planned analysis: id and arm."""
        return Wish(json.dumps(["runs", study.command]), "listing the runs", partial(_runs, study))

    def plan(self, study: Study, effect: str, seconds: float) -> Wish:
        """What the noise of earlier studies says; asked again after a minute, because studies are added."""
        key = json.dumps(["plan", study.command, effect, time.time() // 60])
        return Wish(key, "reading earlier studies", partial(_plan, study, effect, seconds, self.home))

    def _task(self, arm: Arm) -> Task:
        from headtohead.training.tasks import task_of

        lacks = arm.data.corpus.lacks()
        if lacks:
            raise InputError(f"{arm.data.corpus.name} is not here yet: {lacks}")
        task: Task = self._tasks(_key("task", arm), lambda: task_of(arm))
        return task

    def _data(self, arm: Arm) -> dict[str, Any]:
        task = self._task(arm)
        return {**task.facts(), "warnings": task.data_warnings()}

    def _size(self, arm: Arm) -> dict[str, Any]:
        from headtohead.training.first_batch import FirstStep

        task, parameters = self._task(arm), self._parameters(arm)
        found = {"parameters": parameters, "steps": task.steps, "warnings": task.model_warnings(), "flops": None}
        if not is_large(arm, parameters):
            found["flops"] = FirstStep.of(task, task.build(0), 0, "cpu").flops
        return found

    def _parameters(self, arm: Arm) -> int:
        from headtohead.model.count import breakdown

        if arm.model.layers > MOST_LAYERS:
            raise InputError(f"a model of more than {MOST_LAYERS} layers is not counted in the page")
        task = self._task(arm)
        return breakdown(arm.model, task.vocabulary.size, task.outcomes if arm.task == "classifier" else None).total

    def _audit(self, arm: Arm, name: str) -> dict[str, Any]:
        from headtohead.auditor.stored import audit_once
        from headtohead.model.count import breakdown

        if arm.model.layers > MOST_LAYERS or breakdown(arm.model, 256).total > MOST_PARAMETERS:
            raise InputError("a model of this size is not audited in the page: h2h run does it before training")
        report = audit_once(arm.model, name, causal=arm.task == "lm", home=self.home)
        broken = [{"check": f.check, "evidence": f.evidence, "meaning": f.meaning} for f in report.broken]
        return {"proved": report.count("proved"), "broken": broken, "other": report.count("does not apply")}

    def _time(self, arm: Arm) -> float:
        from headtohead.run.forecast import OTHER_SECONDS, time_run

        if is_large(arm, self._parameters(arm)):
            raise InputError("a model of this size is not timed in the page: h2h plan forecasts its time")
        return time_run(arm).seconds + OTHER_SECONDS


def _key(kind: str, arm: Arm) -> str:
    return json.dumps([kind, arm.to_json()])


def _runs(study: Study) -> list[tuple[int, list[tuple[str, str]]]]:
    from headtohead.run.executors.execution import Execution
    from headtohead.study.layout import layout_of

    how = Execution().checked()
    layout = layout_of(study, {}, how.device, how.threads)
    arms = [variant.name for variant in study.variants[1:]]
    parts = {pairs: layout.part(dict.fromkeys(arms, pairs)) for pairs in study.design.analyses}
    return [
        (pairs, list({cell.id: (cell.id, cell.variant) for cell in part.cells()}.values()))
        for pairs, part in parts.items()
    ]


def _plan(study: Study, effect: str, seconds: float, home: Path) -> list[str]:
    from headtohead.run.executors.execution import Execution
    from headtohead.study.expectation import expected_plan

    plan = expected_plan(study, effect, seconds, Execution().checked().jobs or 1, home)
    return [] if plan is None else plan.lines()


def is_large(arm: Arm, parameters: int) -> bool:
    """Whether a step of this arm would take seconds, or a gigabyte."""
    model, tokens = arm.model, arm.train.batch * arm.model.block
    held = 4 * tokens * model.layers * (20 * model.width + 2 * model.heads * model.block)
    return parameters > MOST_PARAMETERS or 6 * parameters * tokens > MOST_STEP_FLOPS or held > MOST_STEP_BYTES
