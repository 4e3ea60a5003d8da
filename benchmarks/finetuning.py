"""Fine-tuning against Hugging Face's Trainer: the same checkpoint, texts, batch and optimizer, in turns on one machine.
The Trainer pads to the longest text allowed, as its tutorials do; and, for comparison, to the longest of the batch."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headtohead.data.pretrained_checkpoints import find
from headtohead.errors import Unavailable
from headtohead.study.finetune import LONGEST, LR, arm_for
from headtohead.training.tasks import Classification
from headtohead.training.trainer import Trainer

if TYPE_CHECKING:
    from rich.console import Console

    from headtohead.data.corpora import Corpus

STEPS = 6  # a turn
TARGET = 1.5  # times the texts a second of the Trainer that pads to the longest allowed
OURS, PADDED, LEAN = "headtohead", f"Trainer, padded to {LONGEST}", "Trainer, padded to the batch's longest"


@dataclass(frozen=True)
class Result:
    """Texts a second of each way, turn by turn."""

    texts_a_second: dict[str, list[float]]
    threads: int

    def ratio(self, other: str) -> float:
        return statistics.median(self.texts_a_second[OURS]) / statistics.median(self.texts_a_second[other])

    def to_json(self) -> dict[str, Any]:
        ratios = {way: self.ratio(way) for way in self.texts_a_second if way != OURS}
        return {"task": "finetune", "threads": self.threads, "texts_a_second": self.texts_a_second, "ratios": ratios}

    def show(self, console: Console) -> None:
        from rich.table import Table

        title = f"Fine-tuning MiniLM on SST-2, batch 32, {self.threads} threads"
        table = Table("way", "texts a second, median", "best", title=title)
        for way, found in self.texts_a_second.items():
            table.add_row(way, f"{statistics.median(found):.1f}", f"{max(found):.1f}")
        console.print(table)
        for way in (PADDED, LEAN):
            ratio = self.ratio(way)
            met = f", wanted {TARGET:g}: {'met' if ratio >= TARGET else 'missed'}" if way == PADDED else ""
            console.print(f"{ratio:.2f} × {way}{met}", markup=False, soft_wrap=True)


def measure(corpus: Corpus, rounds: int, threads: int) -> Result:
    torch.set_num_threads(threads)
    task = Classification(arm_for("minilm", corpus))
    ways = {OURS: _ours(task), PADDED: _trainer(task, LONGEST), LEAN: _trainer(task, None)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    size = task.arm.train.batch
    for n in range(rounds + 1):
        for way, turns in ways.items():
            seconds = next(turns)
            if n:  # the first warms up
                times[way].append(STEPS * size / seconds)
    return Result(times, threads)


def _ours(task: Classification) -> Iterator[float]:
    """Seconds of one turn after the other."""
    model = task.build(0)
    trainer = Trainer(model, task.arm.train, task.steps, 0)
    steps = trainer.fit(lambda n: task.loss(model, task.batch(0, n), "cpu"))
    while True:
        start = time.perf_counter()
        for step in itertools.islice(steps, STEPS):
            float(step.loss)
        yield time.perf_counter() - start


def _trainer(task: Classification, length: int | None) -> Iterator[float]:
    """The same batches, padded to a length or to their own longest, through transformers' Trainer."""
    try:
        import transformers
    except ImportError:
        raise Unavailable("the peer is Hugging Face's: pip install 'headtohead[bench]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(find("minilm").folder, num_labels=2)
    for start in itertools.count(0, STEPS):
        rows = [row for n in range(start, start + STEPS) for row in _rows(task, n, length)]
        with tempfile.TemporaryDirectory() as folder:
            options = transformers.TrainingArguments(
                folder,
                per_device_train_batch_size=task.arm.train.batch,
                max_steps=STEPS,
                learning_rate=LR,
                report_to=[],
                logging_strategy="no",
                save_strategy="no",
                use_cpu=True,
                disable_tqdm=True,
                train_sampling_strategy="sequential",
            )
            trainer = transformers.Trainer(model, options, train_dataset=rows, data_collator=_together)
            clock = time.perf_counter()
            with contextlib.redirect_stdout(sys.stderr):  # it prints what it measured
                trainer.train()
            yield time.perf_counter() - clock


def _rows(task: Classification, step: int, length: int | None) -> list[dict[str, Any]]:
    batch = task.batch(0, step)
    assert batch.keep is not None
    room = (length or batch.ids.shape[1]) - batch.ids.shape[1]
    ids, keep = (np.pad(a[:, :length], ((0, 0), (0, max(0, room)))) for a in (batch.ids, batch.keep))
    return [
        {"input_ids": i, "attention_mask": k.astype(np.int64), "labels": int(y)}
        for i, k, y in zip(ids, keep, batch.targets, strict=True)
    ]


def _together(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}
