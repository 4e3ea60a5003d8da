"""What every contender shares: its arguments, its batches, and the talk with run.py, one JSON object per line.

A contender is a file here that calls `serve` with a function per task. Run by hand it waits for a line such as
{"steps": 5} or {"quit": true}:

    python benchmarks/per_head.py decoder 1
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from steps import TASKS, Task

SEED = 20250101


class Batch(NamedTuple):
    """Arrays as they are drawn, tensors when a contender gets them."""

    ids: Any  # (B, T), 0 is padding
    targets: Any  # (B, T) the next tokens, or (B,) the classes
    keep: Any  # (B, T), true at real tokens


def batches(task: Task) -> Iterator[Batch]:
    """The same for every contender: words by Zipf's law, and for a classifier sentences of true lengths whose words
    tell a little about their class, so that there is something to learn."""
    draw = np.random.default_rng(SEED)
    ranks = np.arange(1, task.vocab)
    cumulative = np.cumsum(1 / ranks) / np.sum(1 / ranks)

    def words(*shape: int) -> np.ndarray:
        return 1 + np.searchsorted(cumulative, draw.random(shape))  # 1 … vocab − 1

    B, T = task.batch, task.block
    if task.classes is None:
        while True:
            text = words(B, T + 1)
            yield Batch(text[:, :-1].copy(), text[:, 1:].copy(), np.ones((B, T), dtype=bool))
    known = speech_lengths(T)
    while True:
        lengths = np.clip(draw.gamma(3, 19 / 3, B).astype(int) + 1, 1, T) if known is None else draw.choice(known, B)
        keep = np.arange(T) < lengths[:, None]
        classes = draw.integers(task.classes, size=B)
        ids = words(B, T)
        telling = np.minimum(ids - ids % task.classes + classes[:, None] + 1, task.vocab - 1)
        ids = np.where(draw.random((B, T)) < 0.3, telling, ids)
        yield Batch(np.where(keep, ids, 0), classes, keep)


def speech_lengths(block: int) -> np.ndarray | None:
    """Lengths of the speeches' training sentences in words and punctuation marks, where that corpus is at hand."""
    file = Path(os.environ.get("HEADTOHEAD_DATA", "")) / "speeches" / "train_CLS.tsv"
    if not os.environ.get("HEADTOHEAD_DATA") or not file.is_file():
        return None
    sentences = [line.partition("\t")[2] for line in file.read_text(encoding="utf-8").splitlines()]
    lengths = [len(re.findall(r"[\w']+|[^\w\s]", sentence)) for sentence in sentences]
    return np.array([min(n, block) for n in lengths if n])


class Session:
    """One contender's side of the talk. What libraries print goes to stderr: stdout belongs to the protocol."""

    def __init__(self) -> None:
        if len(sys.argv) != 3 or sys.argv[1] not in TASKS or not sys.argv[2].isdigit():
            sys.exit(f"usage: {sys.argv[0]} {'|'.join(TASKS)} THREADS")
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.task = TASKS[sys.argv[1]]
        import torch

        torch.set_num_threads(int(sys.argv[2]))
        torch.manual_seed(SEED)
        self._tensor = torch.from_numpy
        self._batches = batches(self.task)
        known = self.task.classes is not None and speech_lengths(self.task.block) is not None
        self._lengths = "the block" if self.task.classes is None else "the speeches" if known else "drawn like speeches"
        self._ahead: deque[Batch] = deque()
        self._digest = hashlib.sha256()
        self._steps = self._tokens = self._pairs = 0

    def ready(self, parameters: int, library: str) -> None:
        self._say(ready=True, parameters=parameters, library=f"{library} {importlib.metadata.version(library)}")

    def asked(self) -> int:
        """Wait for a request: how many steps, 0 to end. Their batches are drawn now, before any clock runs."""
        line = sys.stdin.readline()
        steps = int(json.loads(line).get("steps", 0)) if line.strip() else 0  # no line: the harness is gone
        while len(self._ahead) < steps + 1:  # one more: accelerate's loader reads one ahead
            self._ahead.append(self._draw())
        self._cpu = time.process_time()
        return steps

    def batch(self) -> Batch:
        return self._ahead.popleft() if self._ahead else self._draw()

    def answer(self, seconds: list[float], loss: Any, used: list[Batch]) -> None:
        """After the clock: read the loss, and note which batches the model was really given."""
        cpu = time.process_time() - self._cpu
        for batch in used:
            lengths = batch.keep.sum(1)
            self._digest.update(batch.ids.numpy().tobytes() + batch.targets.numpy().tobytes())
            self._tokens += int(lengths.sum())
            self._pairs += int((lengths**2).sum())
        self._steps += len(used)
        self._say(seconds=seconds, loss=float(loss), cpu=cpu)

    def end(self) -> None:
        steps = max(self._steps, 1)
        self._say(
            peak_mb=round(peak_mb(), 1),
            batches=self._digest.hexdigest(),
            tokens=self._tokens / steps,
            pairs=self._pairs / steps,
            lengths=self._lengths,
        )

    def _draw(self) -> Batch:
        return Batch(*(self._tensor(array) for array in next(self._batches)))

    def _say(self, **what: Any) -> None:
        print(json.dumps(what), file=self._out, flush=True)


def peak_mb() -> float:
    """Largest resident memory of this process in MiB. Linux hands ru_maxrss on from the process that started this
    one, so VmHWM is better where there is one."""
    status = Path("/proc/self/status")
    if status.is_file() and (high := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(high[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


class Built(NamedTuple):
    step: Callable[[Batch], Any]  # one training step; returns the loss, detached and not yet read
    parameters: int


def training(model: Any, optimizer: Any, loss_of: Callable[[Batch], Any]) -> Built:
    """The plain loop: forward, backward, step."""

    def step(batch: Batch) -> Any:
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Built(step, count(model))


def count(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())


def serve(library: str, **build: Callable[[Task], Built]) -> None:
    """Build the model of the task asked for, then train as many steps at a time as the harness says."""
    session = Session()
    step, parameters = build[session.task.name](session.task)
    session.ready(parameters, library)
    while asked := session.asked():
        used = [session.batch() for _ in range(asked)]
        seconds = []
        for batch in used:
            start = time.perf_counter()
            loss = step(batch)
            seconds.append(time.perf_counter() - start)
        session.answer(seconds, loss, used)
    session.end()
