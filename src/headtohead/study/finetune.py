"""Fine-tuning: a pretrained encoder as an arm, so that runs, studies, searches and reports can use it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headtohead.data.corpora import Corpus
from headtohead.data.tokenizers import Pieces
from headtohead.parts.optimizers import AdamW
from headtohead.parts.poolings import Mean
from headtohead.parts.schedules import OneCycle
from headtohead.pretrained.architectures import classifier_spec
from headtohead.pretrained.start import Pretrained
from headtohead.report import curves
from headtohead.run import files, store
from headtohead.run.events import Event, Finished
from headtohead.study.study import Study
from headtohead.training.arm import Arm
from headtohead.training.evaluate import EvalSpec
from headtohead.training.trainer import TrainSpec

LR = 1e-4  # for a small encoder; large ones need about 2e-5
LONGEST = 128  # tokens of a text


def arm_for(checkpoint: str = "minilm", corpus: Corpus | None = None, *, longest: int = LONGEST) -> Arm:
    """The arm that fine-tunes this checkpoint: all weights learn, those of the best epoch are kept, and the test sets
    are evaluated once."""
    arm = Arm.of("classifier", corpus)
    spec = classifier_spec(checkpoint, dropout=True)
    return dataclasses.replace(
        arm,
        tokenizer=Pieces(checkpoint=checkpoint, longest=min(longest, spec.block)),
        model=dataclasses.replace(spec, pooling=Mean()),  # with MiniLM 0.5 points better than the first token's vector
        start=Pretrained(checkpoint=checkpoint),
        train=TrainSpec(steps=None, epochs=3, batch=32, optimizer=AdamW(lr=LR), schedule=OneCycle(), clip=1.0),
        evaluate=EvalSpec(keep="best", along=None),
    )


def named(study: Study, seeds: int | Sequence[int], checkpoint: str) -> Study:
    """The study with these seeds, named after the checkpoint."""
    prefix = re.sub(r"[^a-z0-9]+", "-", Path(checkpoint).name.lower()).strip("-")
    return dataclasses.replace(study, seeds=seeds, name=f"{prefix}-{study.name}", metric="test/accuracy")


def afterwards(ended: list[Event]) -> Iterator[str]:
    """Draw each run's curves into its folder, and yield lines on parameters, memory and overfitting."""
    for event in ended:
        result = event.record.result if isinstance(event, Finished) else None
        if not isinstance(event, Finished) or result is None or not result.is_complete:
            continue
        path = event.record.folder / files.CURVES
        if not path.is_file():
            store.write_whole(path, curves.picture(event.record))
        times = event.record.times
        yield (
            f"run {event.id[:8]}: weights of step {result.weights_of}; {result.learning:,} of {result.parameters:,} "
            "parameters learned"
            + (f", with {times.learning_mb:,.0f} MB of gradients and optimizer" if times.learning_mb else "")
            + (f", at most {times.peak_mb:,.0f} MB in all" if times.peak_mb else "")
            + f"; curves: {path}"
        )
        if warning := curves.overfits(event.record):
            yield warning
