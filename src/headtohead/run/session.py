"""Train one run: an arm with one seed.

`execute` is a generator of events. It continues a run that an earlier call was training when it was stopped or killed,
and reaches the same bits: batches, dropout and schedules are functions of the step, the rest is in the checkpoint.
"""

from __future__ import annotations

import io
import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from headtohead.data.stored_json import DAMAGED, parsed
from headtohead.disk import checksums
from headtohead.disk.writing import remove, sync_folder
from headtohead.errors import InputError, PartFailed, failure, is_out_of_memory, is_users
from headtohead.model.ahead import detach, kept_weights
from headtohead.run import files, seal, store
from headtohead.run.checkpoint import MetricsFile, load_checkpoint, save_checkpoint
from headtohead.run.events import Evaluated, Event, Failed, Finished, Progress, Started, Stopped
from headtohead.run.machine import environment, keep_memory, peak_mb
from headtohead.run.results import Best, Result, Times
from headtohead.run.store import Record
from headtohead.run.teachers import ready_task
from headtohead.spec import code_of, has_user_part
from headtohead.training import first_batch
from headtohead.training.arm import RunSpec, read_run
from headtohead.training.first_batch import FirstStep
from headtohead.training.tasks import Task
from headtohead.training.trainer import Trainer


def note_failure(where: Path, spec: RunSpec, error: BaseException) -> Failed:
    """Write the error into the run's folder, for tables and reports, until the run is started again."""
    reason = failure(error)
    store.write_whole(Record.at(where, spec.id).folder / files.FAILURE, store.to_text({"reason": reason}))
    return Failed(spec.id, reason)


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """Settings that do not change a run's result."""

    save_every: float = 30.0  # seconds between checkpoints
    track: Callable[[RunSpec, Path], Any] | None = None  # opens a tracker


@dataclass
class Stop:
    """Whether the user has asked to stop."""

    asked: bool = False
    preparing: bool = False  # there is nothing to save yet

    def request(self) -> None:
        """Stop after the current step. A run that is still being prepared stops at once."""
        self.asked = True
        if self.preparing:
            raise KeyboardInterrupt


def execute(spec: RunSpec, where: Path, options: Options | None = None, stop: Stop | None = None) -> Iterator[Event]:
    """Train a run, continue it, or report that the store has it. Without `stop`, Ctrl-C and SIGTERM stop the run."""
    options = options or Options()
    spec = spec.resolved()
    code_of(spec)  # refuses a class that could not be loaded again
    record = Record.at(where, spec.id)
    finished = Finished(spec.id, str(record.folder), already=True)
    if record.has_ended:
        store.clear_ended(record.folder)
        yield finished
        return
    with store.lock(record.folder), stop_on_signals() if stop is None else nullcontext(stop) as stopping:
        if record.has_ended:  # another process finished it while this one waited for the lock
            yield finished
            return
        store.make_room(record.folder)
        with _two_line_errors(spec):
            yield from _Session(spec, record.folder, options).run(stopping)


@contextmanager
def _two_line_errors(spec: RunSpec) -> Iterator[None]:
    """Turn an exception of the user's code into a message with its file and line. An exception in this package counts
    too where the model has a part of the user: the part may have returned a wrong shape."""
    try:
        yield
    except Exception as error:
        own = has_user_part(spec)
        if isinstance(error, InputError) or is_out_of_memory(error) or not (own or is_users(error)):
            raise
        raise PartFailed(failure(error, ours=own)) from error


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the current step, so that no half-made update is saved. A
    second Ctrl-C stops at once and leaves the last checkpoint."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(_number: int, _frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.request()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Ended:
    status: Literal["complete", "diverged"]
    step: int


@dataclass
class _Session:
    """One call's work on a run."""

    spec: RunSpec
    folder: Path
    options: Options
    pending: list[float] = field(default_factory=list)  # losses since the last line of metrics
    best: Best | None = None
    seconds: float = 0.0  # spent in steps, over all calls
    seconds_before: float = 0.0  # in earlier calls
    seconds_at: dict[str, float] = field(default_factory=dict)  # spent in steps up to each evaluation, by step
    began: float = field(default_factory=time.monotonic)
    flops: int = 0  # of one step
    learning_bytes: int = 0  # gradients and optimizer, at the end
    written: dict[str, list[Any]] = field(default_factory=dict)  # checksums of snapshots, by name
    best_written: dict[str, list[Any]] = field(default_factory=dict)  # checksum of the best weights so far
    damaged: list[str] = field(default_factory=list)  # messages about damaged checkpoints
    warnings: list[str] = field(default_factory=list)  # about the arm

    def run(self, stop: Stop) -> Iterator[Event]:
        keep_memory()
        torch.set_num_threads(self.spec.threads)
        stop.preparing = True  # tokenizing a large corpus takes minutes
        try:
            task = ready_task(self.spec.arm, self.folder.parent.parent, self.spec.device)
        finally:
            stop.preparing = False
        plan = Plan.of(task)
        model = task.build(self.spec.seed).to(self.spec.device)
        first = FirstStep.of(task, model, self.spec.seed, self.spec.device)
        self.flops = first.flops
        self.warnings = [*task.warnings(), *first_batch.warnings(first)]  # of the initial weights, resumed or not
        del first  # a copy of the model with its gradients
        trainer = Trainer(model, self.spec.arm.train, task.steps, self.spec.seed)
        tracker = self.options.track(self.spec, self.folder) if self.options.track else None
        self._open()  # only now: an arm that cannot be trained leaves no folder
        values: dict[str, Any] = {}
        try:
            with self._restore(model, trainer) as lines:
                parameters = sum(p.numel() for p in kept_weights(model).values())
                warnings = [*self.warnings, *self.damaged]
                facts = task.facts()
                yield Started(self.spec.id, task.steps, trainer.done, parameters, facts, warnings, self.damaged)
                ended = yield from self._train(task, plan, model, trainer, lines, tracker, stop)
                if ended is None:
                    yield Stopped(self.spec.id, trainer.done, task.steps)
                    return
                self.learning_bytes = trainer.learning_bytes
                with trainer.averaged():
                    values = self._conclude(task, model, ended, lines).values
        finally:
            if tracker:
                tracker.finish({k: v for k, v in values.items() if isinstance(v, int | float)})
        yield Finished(self.spec.id, str(self.folder))

    def _train(
        self, task: Task, plan: Plan, model: nn.Module, trainer: Trainer, lines: MetricsFile, tracker: Any, stop: Stop
    ) -> Generator[Event, None, Ended | None]:
        """Train until the end, or until asked to stop, which returns None."""
        device, seed = self.spec.device, self.spec.seed
        tokens = 0
        losses: list[Tensor] = []

        def loss_of(step: int) -> Iterable[Tensor]:
            nonlocal tokens
            batch = task.batch(seed, step)
            tokens += batch.tokens
            return task.losses(model, batch, device)

        if trainer.done == 0 and not lines.written:
            yield from self._evaluate(0, task, model, lines, tracker, {})
            self._snapshot(0, plan, trainer)
        saved = reported = clock = time.monotonic()
        done_before, seconds_before = trainer.done, self.seconds
        for step in trainer.fit(loss_of):
            losses.append(step.loss)
            # read once per step: a signal that arrives later must find the step completely recorded
            now, asked, last = time.monotonic(), stop.asked, step.done == task.steps
            saving = (asked or now - saved > self.options.save_every) and not last
            if plan.records(step.done) or saving or now - reported > 1:
                self.pending += [float(x) for x in losses]  # waits for the device, so not at every step
                losses.clear()
                now = time.monotonic()
                self.seconds, clock = self.seconds + now - clock, now
                diverged = next((n for n, x in enumerate(self.pending) if not math.isfinite(x)), None)
                if diverged is not None:
                    return self._diverged(step.done - len(self.pending) + diverged + 1, lines)
                if now - reported > 0.1 or last:
                    spent = max(1e-9, self.seconds - seconds_before)
                    left = spent / (step.done - done_before) * (task.steps - step.done)
                    mean = float(np.mean(self.pending))
                    yield Progress(self.spec.id, step.done, task.steps, mean, tokens / spent, left)
                    reported = now
            if plan.records(step.done):
                line = {"train/batch_loss": float(np.mean(self.pending)), "lr": step.lr}
                self.pending.clear()
                if plan.evaluates(step.done):
                    with trainer.averaged():
                        yield from self._evaluate(step.done, task, model, lines, tracker, line)
                else:
                    self._write(step.done, line, lines, tracker)
                self._snapshot(step.done, plan, trainer)
                clock = time.monotonic()  # evaluation time is not training time
            if saving:
                self._save(model, trainer, lines)
                saved = clock = time.monotonic()
                if asked:
                    return None
        if not all(bool(p.isfinite().all()) for p in model.parameters()):
            return self._diverged(task.steps, lines)
        return Ended("complete", task.steps)

    def _diverged(self, step: int, lines: MetricsFile) -> Ended:
        lines.write({"step": step, "status": "diverged"})
        return Ended("diverged", step)

    def _evaluate(
        self, done: int, task: Task, model: nn.Module, lines: MetricsFile, tracker: Any, line: dict[str, Any]
    ) -> Iterator[Event]:
        model.eval()
        values = dict(line)
        for name in task.sets(tests=self.spec.arm.evaluate.watch_test):
            measured = task.evaluate(model, name, self.spec.device, last=False).values
            values |= {f"{name}/{k}": v for k, v in measured.items() if isinstance(v, float)}
        figure, direction = task.goal
        chooser = "test" if "test" in task.data.tests and self.spec.arm.evaluate.watch_test else "validation"
        for name in ("validation", chooser):
            value = values.get(f"{name}/{figure}")
            if value is not None and math.isfinite(value) and done > 0:
                best = self.best and self.best.value
                if best is None or (value < best if direction == "min" else value > best):
                    self.best = Best(f"{name}/{figure}", value, done)
                    if self.spec.arm.evaluate.keep == "best":
                        store.write_whole(self.folder / files.BEST_WEIGHTS, _weights(model))
                        self.best_written = checksums.sums_of(self.folder, [files.BEST_WEIGHTS])
                break
        self.seconds_at[str(done)] = self.seconds
        self._write(done, values, lines, tracker)
        yield Evaluated(self.spec.id, done, values)

    def _write(self, done: int, values: dict[str, Any], lines: MetricsFile, tracker: Any) -> None:
        lines.write({"step": done, **values})
        if tracker:
            tracker.log(done, {k: v for k, v in values.items() if isinstance(v, int | float)})

    # -- files ---------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        with store.one_line_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        store.clear_unfinished(self.folder, self.folder / files.SNAPSHOTS, self.folder / files.CODE)
        for name, text in code_of(self.spec).items():
            store.write_whole(self.folder / files.CODE / name, text)
        path = self.folder / files.RUN
        content = store.to_text(self.spec.to_json())
        if path.is_file() and path.read_bytes() != content.encode():
            try:
                stored = read_run(parsed(path.read_bytes()), self.folder / files.CODE)
                same = stored.id == self.spec.id  # with another path to the same data
            except DAMAGED:
                same = False
            if not same:
                store.set_aside(path)
        store.write_whole(path, content)
        store.write_whole(self.folder / files.ENVIRONMENT, store.to_text(environment(self.spec).to_json()))
        remove(self.folder / files.FAILURE)

    def _save(self, model: nn.Module, trainer: Trainer, lines: MetricsFile) -> None:
        """Write a checkpoint."""
        lines.sync()
        facts = {
            "lines": lines.written,
            "metrics": lines.digest.hexdigest(),
            "files": self.written,
            "best_file": self.best_written,
            "pending": self.pending,
            "best": self.best and self.best.to_json(),
            "seconds": self.seconds,
            "seconds_at": self.seconds_at,
        }
        save_checkpoint(self.folder, self.spec.id, model, trainer, facts)

    def _restore(self, model: nn.Module, trainer: Trainer) -> MetricsFile:
        """Load the newest sound checkpoint, if there is one, and open the metrics where it ended."""
        facts, self.damaged = load_checkpoint(self.folder, self.spec.id, model, trainer)
        if facts is None:
            return MetricsFile(self.folder / files.METRICS, 0)
        self.pending, self.seconds = facts["pending"], facts["seconds"]
        self.best = facts["best"] and Best.from_json(facts["best"])
        self.seconds_before, self.seconds_at = self.seconds, facts["seconds_at"]
        self.written, self.best_written = facts["files"], facts["best_file"]
        return MetricsFile(self.folder / files.METRICS, facts["lines"])

    def _snapshot(self, done: int, plan: Plan, trainer: Trainer) -> None:
        if done in plan.snapshots:
            name = f"{files.SNAPSHOTS}/{files.snapshot(done)}"
            with trainer.averaged():
                store.write_whole(self.folder / name, _weights(trainer.model))
            self.written |= checksums.sums_of(self.folder, [name])

    def _conclude(self, task: Task, model: nn.Module, ended: Ended, lines: MetricsFile) -> Result:
        """Evaluate the final weights, the test sets included, and write the result after all other files."""
        model.eval()
        training_only = detach(model)
        values: dict[str, Any] = {}
        items: dict[str, np.ndarray] = {}
        kept = ended.step
        if ended.status == "complete" and self.spec.arm.evaluate.keep == "best" and self.best is not None:
            model.load_state_dict(self._best_weights())
            kept = self.best.step
        if ended.status == "complete":
            for name in task.sets(tests=self.spec.arm.evaluate.tests):
                measured = task.evaluate(model, name, self.spec.device)
                values |= {f"{name}/{k}": v for k, v in measured.values.items()}
                items |= {f"{name}/{k}": v for k, v in measured.items.items()}
            if not all(math.isfinite(v) for k, v in values.items() if k.endswith("/loss")):
                ended, values, items = self._diverged(ended.step, lines), {}, {}  # the last update did it
        if ended.status == "complete":
            store.write_whole(self.folder / files.WEIGHTS, _weights(model))
        store.write_whole(self.folder / files.TOKENIZER, store.to_text(task.vocabulary.state()))
        store.write_whole(self.folder / files.ITEMS, _npz(items))
        times = seal.times_of(self.folder, self.spec.id, store.plain(self._times(ended.step).to_json()))
        store.write_whole(self.folder / files.TIMES, store.to_text(times))
        result = Result(
            status=ended.status,
            ended=ended.status if ended.status == "complete" else f"{ended.status} at step {ended.step}",
            steps=ended.step,
            weights_of=kept,
            parameters=sum(p.numel() for p in model.parameters()),
            learning=sum(p.numel() for p in model.parameters() if p.requires_grad),
            training_only=training_only,
            flops_per_step=self.flops,
            tokens_per_step=task.batch(self.spec.seed, 0).tokens,
            values=values,
            best=self.best,
            data=task.facts(),
            warnings=self.warnings,
        )
        lines.sync()
        sealed = seal.result_of(self.folder, self.spec.id, store.plain(result.to_json()), self.written)
        for folder in (self.folder / files.SNAPSHOTS, self.folder):
            sync_folder(folder) if folder.is_dir() else None
        store.write_whole(self.folder / files.RESULT, store.to_text(sealed))
        store.clear_ended(self.folder)
        return result

    def _best_weights(self) -> dict[str, Tensor]:
        """The best weights so far. If their file is damaged, the run has to start again."""
        problem = checksums.damage(self.folder, self.best_written) if self.best_written else "it is missing"
        if problem:
            for name in (files.BEST_WEIGHTS, files.CHECKPOINT, files.OLD_CHECKPOINT):
                if (self.folder / name).exists():
                    store.set_aside(self.folder / name)
            raise store.Damaged(
                f"the best weights of run {self.spec.id} are damaged ({problem}): they and the checkpoints are set "
                "aside; give the same command again to train the run from the start"
            )
        return load((self.folder / files.BEST_WEIGHTS).read_bytes())

    def _times(self, steps: int) -> Times:
        return Times(
            seconds=self.seconds,
            other_seconds=time.monotonic() - self.began - (self.seconds - self.seconds_before),
            step_ms=1000 * self.seconds / max(1, steps),
            seconds_at=self.seconds_at,
            peak_mb=peak_mb(),
            learning_mb=self.learning_bytes / 1e6,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True)
class Plan:
    """The steps at which losses are recorded and the model is evaluated. They depend on the spec alone, so that results
    do not depend on the speed of the machine."""

    steps: int
    record_every: int
    evaluate_every: int
    snapshots: frozenset[int]

    @classmethod
    def of(cls, task: Task) -> Plan:
        arm, steps = task.arm, task.steps
        every = arm.evaluate.every or (task.steps_per_epoch if arm.train.epochs else math.ceil(steps / 10))
        return cls(steps, max(1, min(every, steps // 100)), every, arm.evaluate.snapshot_steps(steps))

    def records(self, done: int) -> bool:
        return done % self.record_every == 0 or self.evaluates(done) or done in self.snapshots

    def evaluates(self, done: int) -> bool:
        return done % self.evaluate_every == 0 or done == self.steps


def _weights(model: nn.Module) -> bytes:
    """The weights as a safetensors file, with one metadata entry: the order of several would vary, and so the bytes."""
    return save({k: v.detach().cpu().contiguous() for k, v in kept_weights(model).items()}, {"format": "pt"})


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
