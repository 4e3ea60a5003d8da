"""Runs: train one arm with one seed to its end, whatever happens on the way, and many side by side.

`execute` is a generator of events; who drives it shows them. It goes on where an earlier call was stopped or killed,
to the same bits: batches, dropout and schedules are functions of the step, the rest is in the checkpoint.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from headtohead import store
from headtohead.arm import RunSpec, read_run
from headtohead.errors import describe
from headtohead.flops import count_flops
from headtohead.machine import environment, keep_memory, peak_mb
from headtohead.store import Record
from headtohead.tasks import Work, work_on
from headtohead.train import Trainer

# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """Before the first step of this call."""

    id: str
    steps: int
    done: int  # from an earlier call
    parameters: int
    facts: dict[str, Any]
    warnings: list[str]


@dataclass(frozen=True)
class Progress:
    """After a step; `loss` is the mean of the batches since the last one that was read."""

    id: str
    done: int
    steps: int
    loss: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Looked:
    """After an evaluation."""

    id: str
    done: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Stopped:
    """By the user, with everything saved."""

    id: str
    done: int
    steps: int


@dataclass(frozen=True)
class Finished:
    id: str
    folder: str
    already: bool = False  # it was in the store

    @property
    def record(self) -> Record:
        return Record(Path(self.folder))


@dataclass(frozen=True)
class NotBegun:
    """Runs that were still to come when the user stopped: none, if that was while the last one ended."""

    runs: int
    id: str = ""


@dataclass(frozen=True)
class Failed:
    """It could not be trained; the others go on."""

    id: str
    reason: str


@dataclass(frozen=True)
class Waiting:
    """Another process is training it."""

    id: str


Event = Started | Progress | Looked | Stopped | Finished | NotBegun | Failed | Waiting


def note_failure(where: Path, spec: RunSpec, error: BaseException) -> Failed:
    """Kept with the run until it is begun anew: a study shows it."""
    reason = describe(error)
    store.write_whole(where / "runs" / spec.id / "failed.json", store.to_text({"reason": reason}))
    return Failed(spec.id, reason)


BEST = "best.safetensors"  # while a run that keeps its best weights is under way


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What changes nothing in a run's result."""

    save_every: float = 30.0  # seconds between checkpoints
    track: Callable[[RunSpec, Path], Any] | None = None  # opens a tracker


@dataclass
class Stop:
    """Whether the user has asked to stop."""

    asked: bool = False


def execute(spec: RunSpec, where: Path, options: Options | None = None, stop: Stop | None = None) -> Iterator[Event]:
    """Train the run, or go on with it, or say that it is there. Signals are obeyed here, unless `stop` is given."""
    options = options or Options()
    spec = spec.resolved()
    folder = where / "runs" / spec.id
    if (folder / "result.json").is_file():
        yield Finished(spec.id, str(folder), already=True)
        return
    with store.lock(folder), stop_politely() if stop is None else nullcontext(stop) as stopping:
        if (folder / "result.json").is_file():  # finished while we waited to be started
            yield Finished(spec.id, str(folder), already=True)
            return
        yield from _Session(spec, folder, options).run(stopping)


@contextmanager
def stop_politely() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM are noted and obeyed after the step: a half-made update is never saved. A second Ctrl-C
    stops at once and leaves the last checkpoint."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(_number: int, _frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Ended:
    status: str  # complete or diverged
    step: int


@dataclass
class _Session:
    """One call's work on a run."""

    spec: RunSpec
    folder: Path
    options: Options
    pending: list[float] = field(default_factory=list)  # losses since the last line of metrics
    best: dict[str, Any] | None = None
    seconds: float = 0.0  # spent in steps, over all calls
    seconds_before: float = 0.0  # in earlier calls
    began: float = field(default_factory=time.monotonic)
    flops: int = 0  # of one step
    learning_bytes: int = 0  # gradients and optimizer, at the end
    torn: list[str] = field(default_factory=list)  # checkpoints that were set aside

    def run(self, stop: Stop) -> Iterator[Event]:
        keep_memory()
        torch.set_num_threads(self.spec.threads)
        work = work_on(self.spec.arm)
        plan = Plan.of(work)
        model = work.build(self.spec.seed).to(self.spec.device)
        self.flops = count_flops(partial(_one_step, work, model, self.spec))
        trainer = Trainer(model, self.spec.arm.train, work.steps, self.spec.seed)
        tracker = self.options.track(self.spec, self.folder) if self.options.track else None
        self._open()  # only now: what cannot be trained leaves no run behind
        figures: dict[str, Any] = {}
        try:
            with self._restore(model, trainer) as lines:
                parameters = sum(p.numel() for p in model.parameters())
                warnings = [*work.warnings(), *self.torn]
                yield Started(self.spec.id, work.steps, trainer.done, parameters, work.facts(), warnings)
                ended = yield from self._train(work, plan, model, trainer, lines, tracker, stop)
                if ended is None:
                    yield Stopped(self.spec.id, trainer.done, work.steps)
                    return
                self.learning_bytes = trainer.learning_bytes
                figures = self._conclude(work, model, ended, lines)["values"]
        finally:
            if tracker:
                tracker.finish({k: v for k, v in figures.items() if isinstance(v, int | float)})
        yield Finished(self.spec.id, str(self.folder))

    def _train(
        self, work: Work, plan: Plan, model: nn.Module, trainer: Trainer, lines: _Lines, tracker: Any, stop: Stop
    ) -> Generator[Event, None, Ended | None]:
        """Until the end, or until asked to stop (None)."""
        device, seed = self.spec.device, self.spec.seed
        tokens = 0
        losses: list[Tensor] = []

        def loss_of(step: int) -> Tensor:
            nonlocal tokens
            batch = work.batch(seed, step)
            tokens += batch.tokens
            return work.loss(model, batch, device)

        if trainer.done == 0 and not lines.written:
            yield from self._look(0, work, model, lines, tracker, {})
            self._snapshot(0, plan, model)
        saved = said = clock = time.monotonic()
        done_before, seconds_before = trainer.done, self.seconds
        for step in trainer.fit(loss_of):
            losses.append(step.loss)
            # asked once a step: a signal that comes between two looks must not find a step half taken down
            now, asked, last = time.monotonic(), stop.asked, step.done == work.steps
            saving = (asked or now - saved > self.options.save_every) and not last
            if plan.reads(step.done) or saving or now - said > 1:
                self.pending += [float(x) for x in losses]  # waits for the device, so not at every step
                losses.clear()
                now = time.monotonic()
                self.seconds, clock = self.seconds + now - clock, now
                wrong = next((n for n, x in enumerate(self.pending) if not math.isfinite(x)), None)
                if wrong is not None:
                    return self._diverged(step.done - len(self.pending) + wrong + 1, lines)
                if now - said > 0.1 or last:
                    spent = max(1e-9, self.seconds - seconds_before)
                    left = spent / (step.done - done_before) * (work.steps - step.done)
                    mean = float(np.mean(self.pending))
                    yield Progress(self.spec.id, step.done, work.steps, mean, tokens / spent, left)
                    said = now
            if plan.reads(step.done):
                line = {"train/batch_loss": float(np.mean(self.pending)), "lr": step.lr}
                self.pending.clear()
                if plan.looks(step.done):
                    yield from self._look(step.done, work, model, lines, tracker, line)
                else:
                    self._write(step.done, line, lines, tracker)
                self._snapshot(step.done, plan, model)
                clock = time.monotonic()  # looking is not training
            if saving:
                self._save(model, trainer, lines)
                saved = clock = time.monotonic()
                if asked:
                    return None
        if not all(bool(p.isfinite().all()) for p in model.parameters()):
            return self._diverged(work.steps, lines)
        return Ended("complete", work.steps)

    def _diverged(self, step: int, lines: _Lines) -> Ended:
        lines.write({"step": step, "status": "diverged"})
        return Ended("diverged", step)

    def _look(
        self, done: int, work: Work, model: nn.Module, lines: _Lines, tracker: Any, line: dict[str, Any]
    ) -> Iterator[Event]:
        model.eval()
        values = dict(line)
        for name in work.sets(tests=self.spec.arm.evaluate.watch_test):
            measured = work.look(model, name, self.spec.device, last=False).values
            values |= {f"{name}/{k}": v for k, v in measured.items() if isinstance(v, float)}
        figure, way = work.goal
        chooser = "test" if "test" in work.data.tests and self.spec.arm.evaluate.watch_test else "validation"
        for name in ("validation", chooser):
            value = values.get(f"{name}/{figure}")
            if value is not None and math.isfinite(value) and done > 0:
                best = self.best and self.best["value"]
                if best is None or (value < best if way == "min" else value > best):
                    self.best = {"figure": f"{name}/{figure}", "value": value, "step": done}
                    if self.spec.arm.evaluate.keep == "best":
                        store.write_whole(self.folder / BEST, _weights(model))
                break
        self._write(done, values, lines, tracker)
        yield Looked(self.spec.id, done, values)

    def _write(self, done: int, values: dict[str, Any], lines: _Lines, tracker: Any) -> None:
        lines.write({"step": done, **values})
        if tracker:
            tracker.log(done, {k: v for k, v in values.items() if isinstance(v, int | float)})

    # -- files ---------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        with store.room_for(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        store.clear_unfinished(self.folder, self.folder / "snapshots")
        path = self.folder / "run.json"
        said = store.to_text(self.spec.to_json())
        if path.is_file() and path.read_bytes() != said.encode():
            try:
                ours = read_run(json.loads(path.read_bytes())).id == self.spec.id  # of data that lay elsewhere
            except ValueError:
                ours = False
            if not ours:
                store.set_aside(path)
        store.write_whole(path, said)
        store.write_whole(self.folder / "env.json", store.to_text(environment(self.spec)))
        (self.folder / "failed.json").unlink(missing_ok=True)

    def _save(self, model: nn.Module, trainer: Trainer, lines: _Lines) -> None:
        """Everything needed to go on. The one before is kept until this one is whole."""
        lines.sync()
        tensors = {f"model/{k}": v for k, v in model.state_dict().items()}
        tensors |= {f"optimizer/{k}": v for k, v in trainer.state().items()}
        tensors = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
        facts = {
            "run": self.spec.id,
            "sum": _sum(tensors),
            "done": trainer.done,
            "lines": lines.written,
            "pending": self.pending,
            "best": self.best,
            "seconds": self.seconds,
        }
        path, old = self.folder / "checkpoint.safetensors", self.folder / "checkpoint.old.safetensors"
        data = save(tensors, {"facts": json.dumps(facts)})
        with store.room_for(path):
            if path.is_file():
                os.replace(path, old)
        store.write_whole(path, data)

    def _restore(self, model: nn.Module, trainer: Trainer) -> _Lines:
        """Take up the newest checkpoint that can be read; one that cannot is set aside. Without any, start anew."""
        metrics = self.folder / "metrics.jsonl"
        for name in ("checkpoint.safetensors", "checkpoint.old.safetensors"):
            path = self.folder / name
            if not path.is_file():
                continue
            try:
                tensors, facts = _read_checkpoint(path)
                sound = facts["run"] == self.spec.id and facts["sum"] == _sum(tensors)
                if not sound or metrics.stat().st_size < facts["lines"]:
                    raise ValueError("not as it was written")
            except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
                self.torn.append(f"{name} was damaged: it is set aside as {store.set_aside(path)}")
                continue
            model.load_state_dict(_below("model/", tensors))
            trainer.restore(_below("optimizer/", tensors), facts["done"])
            self.pending, self.best, self.seconds = facts["pending"], facts["best"], facts["seconds"]
            self.seconds_before = self.seconds
            return _Lines(metrics, facts["lines"])
        return _Lines(metrics, 0)

    def _snapshot(self, done: int, plan: Plan, model: nn.Module) -> None:
        if done in plan.snapshots:
            path = self.folder / "snapshots" / f"step-{done:08d}.safetensors"
            store.write_whole(path, _weights(model))

    def _conclude(self, work: Work, model: nn.Module, ended: Ended, lines: _Lines) -> dict[str, Any]:
        """The test sets are read here, once. Weights before result: what is listed as complete is whole."""
        model.eval()
        values: dict[str, Any] = {}
        items: dict[str, np.ndarray] = {}
        kept = ended.step
        if ended.status == "complete" and self.spec.arm.evaluate.keep == "best" and self.best is not None:
            model.load_state_dict(load((self.folder / BEST).read_bytes()))
            kept = self.best["step"]
        if ended.status == "complete":
            for name in work.sets(tests=self.spec.arm.evaluate.tests):
                measured = work.look(model, name, self.spec.device)
                values |= {f"{name}/{k}": v for k, v in measured.values.items()}
                items |= {f"{name}/{k}": v for k, v in measured.items.items()}
            if not all(math.isfinite(v) for k, v in values.items() if k.endswith("/loss")):
                ended, values, items = self._diverged(ended.step, lines), {}, {}  # the last update was the one too many
        if ended.status == "complete":
            store.write_whole(self.folder / "model.safetensors", _weights(model))
        store.write_whole(self.folder / "tokenizer.json", store.to_text(work.vocabulary.state()))
        store.write_whole(self.folder / "items.npz", _npz(items))
        store.write_whole(self.folder / "times.json", store.to_text(self._times(ended.step)))
        result = {
            "status": ended.status,
            "ended": ended.status if ended.status == "complete" else f"{ended.status} at step {ended.step}",
            "steps": ended.step,
            "weights_of": kept,  # the step whose weights and figures these are
            "parameters": sum(p.numel() for p in model.parameters()),
            "learning": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "flops_per_step": self.flops,
            "tokens_per_step": work.batch(self.spec.seed, 0).tokens,
            "values": values,
            "best": self.best,
            "data": work.facts(),
            "warnings": work.warnings(),
        }
        store.write_whole(self.folder / "result.json", store.to_text(result))
        for name in ("checkpoint.safetensors", "checkpoint.old.safetensors", BEST):
            (self.folder / name).unlink(missing_ok=True)
        return result

    def _times(self, steps: int) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "other_seconds": time.monotonic() - self.began - (self.seconds - self.seconds_before),  # of this call
            "step_ms": 1000 * self.seconds / max(1, steps),
            "peak_mb": peak_mb(),  # of this process so far
            "learning_mb": self.learning_bytes / 1e6,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def _one_step(work: Work, model: nn.Module, spec: RunSpec) -> None:
    """Of a copy, without an update: to be counted, not to be learned from."""
    work.loss(copy.deepcopy(model).train(), work.batch(spec.seed, 0), spec.device).backward()


@dataclass(frozen=True)
class Plan:
    """At which steps something is read: a function of the spec alone, lest results depend on the machine's speed."""

    steps: int
    read_every: int
    look_every: int
    snapshots: frozenset[int]

    @classmethod
    def of(cls, work: Work) -> Plan:
        arm, steps = work.arm, work.steps
        look = arm.evaluate.every or (work.steps_per_epoch if arm.train.epochs else math.ceil(steps / 10))
        return cls(steps, max(1, min(look, steps // 100)), look, arm.evaluate.snapshot_steps(steps))

    def reads(self, done: int) -> bool:
        return done % self.read_every == 0 or self.looks(done) or done in self.snapshots

    def looks(self, done: int) -> bool:
        return done % self.look_every == 0 or done == self.steps


class _Lines:
    """metrics.jsonl: lines are added, and those after the checkpoint that a killed run wrote are taken back first."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path, self.written = path, keep
        with store.room_for(path):
            self.file = open(path, "ab", buffering=0)  # noqa: SIM115  (unbuffered: closing has nothing left to write)
            self.file.truncate(keep)

    def write(self, values: dict[str, Any]) -> None:
        line = (json.dumps(store.plain(values), ensure_ascii=False, allow_nan=False) + "\n").encode()
        with store.room_for(self.path):
            left = memoryview(line)
            while left:
                left = left[self.file.write(left) :]
        self.written += len(line)

    def sync(self) -> None:
        with store.room_for(self.path):
            os.fsync(self.file.fileno())

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    data = path.read_bytes()
    tensors = load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return tensors, json.loads(header["__metadata__"]["facts"])


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _sum(tensors: dict[str, Tensor]) -> str:
    """A checksum of names and bits."""
    whole = hashlib.sha256()
    for name in sorted(tensors):
        whole.update(name.encode())
        whole.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def _weights(model: nn.Module) -> bytes:
    """One note only: safetensors writes several in an order drawn anew every time."""
    return save({k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}, {"format": "pt"})


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
