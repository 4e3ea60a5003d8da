"""Fine-tuning: a pretrained encoder as an arm like any other, so that runs, studies, searches and reports take it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import Arm
from headtohead.data.corpora import Corpus
from headtohead.data.tokenizers import Pieces
from headtohead.evaluate import EvalSpec
from headtohead.forecast import Company, RunForecast, forecast
from headtohead.parts.optimizers import AdamW
from headtohead.parts.poolings import Mean
from headtohead.parts.schedules import OneCycle
from headtohead.pretrained.architectures import classifier_spec
from headtohead.pretrained.start import Pretrained
from headtohead.report import curves
from headtohead.runs import Event, Finished
from headtohead.screen import duration
from headtohead.study import Study
from headtohead.train import TrainSpec

LR = 1e-4  # of a small encoder; large ones want 2e-5
LONGEST = 128  # tokens of a text


def arm_for(checkpoint: str = "minilm", corpus: Corpus | None = None, *, longest: int = LONGEST) -> Arm:
    """The arm that fine-tunes this checkpoint: everything learns, the weights of the best epoch are kept, the test sets
    are read once."""
    arm = Arm.of("classifier", corpus)
    spec = classifier_spec(checkpoint, dropout=True)
    return dataclasses.replace(
        arm,
        tokenizer=Pieces(checkpoint=checkpoint, longest=min(longest, spec.block)),
        model=dataclasses.replace(spec, pooling=Mean()),  # 0.5 points above the first token's vector, with MiniLM
        start=Pretrained(checkpoint=checkpoint),
        train=TrainSpec(steps=None, epochs=3, batch=32, optimizer=AdamW(lr=LR), schedule=OneCycle(), clip=1.0),
        evaluate=EvalSpec(keep="best", along=None),
    )


@dataclass(frozen=True)
class Foretold:
    """What it will take, measured on a few steps of one run beside as many others as there will be."""

    runs: int
    jobs: int
    each: RunForecast

    @property
    def seconds(self) -> float:
        return -(-self.runs // self.jobs) * self.each.seconds

    def line(self) -> str:
        one = self.each
        each = f"{one.steps:,} steps of {1000 * one.step_seconds:.0f} ms, looks {duration(one.look_seconds)}"
        whole = f"; {self.runs} runs, {self.jobs} at a time: {duration(self.seconds)}" if self.runs > 1 else ""
        return f"forecast: {duration(one.seconds)} a run ({each}){whole}"

    def to_json(self) -> dict[str, Any]:
        return {"runs": self.runs, "jobs": self.jobs, "minutes": self.seconds / 60}


def foretell(arm: Arm, runs: int, jobs: int, threads: int) -> Foretold:
    together = max(1, min(runs, jobs))
    with Company(together - 1) as company:
        return Foretold(runs, together, forecast(arm, threads, company))


def named(study: Study, seeds: int | Sequence[int], checkpoint: str) -> Study:
    """A study of this checkpoint, by a name of its own."""
    own = re.sub(r"[^a-z0-9]+", "-", Path(checkpoint).name.lower()).strip("-")
    return dataclasses.replace(study, seeds=seeds, name=f"{own}-{study.name}", metric="test/accuracy")


def afterwards(ended: list[Event]) -> Iterator[str]:
    """Each run's curves as a picture beside it, what learned and in how much memory, and whether it overfitted."""
    for event in ended:
        result = event.record.result if isinstance(event, Finished) else None
        if not isinstance(event, Finished) or not result or result["status"] != "complete":
            continue
        path = event.record.folder / "curves.png"
        if not path.is_file():
            store.write_whole(path, curves.picture(event.record))
        learning, whole = result["learning"], result["parameters"]
        times = event.record.times
        peak, beside = times.get("peak_mb"), times.get("learning_mb")
        yield (
            f"run {event.id[:8]}: weights of step {result['weights_of']}; {learning:,} of {whole:,} parameters learned"
            + (f", with {beside:,.0f} MB of gradients and optimizer" if beside else "")
            + (f", {peak:,.0f} MB in all at most" if peak else "")
            + f"; curves: {path}"
        )
        if said := curves.overfits(event.record):
            yield said
