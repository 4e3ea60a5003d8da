"""A trained model with its vocabulary: a run's, back from the store, or a checkpoint's. It needs no corpus."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import safetensors
from safetensors.torch import load
from torch import Tensor, nn

from headtohead.arm import RunSpec, read_run
from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.model import Classifier, LanguageModel
from headtohead.pretrained.start import Start, merged
from headtohead.store import Record


@dataclass(frozen=True)
class Trained:
    """A run's model as it was at a step, or a checkpoint's, with its vocabulary; needs no corpus."""

    record: Record
    spec: RunSpec
    model: nn.Module
    vocabulary: Vocabulary
    labels: tuple[str, ...]  # what classes mean, for a classifier
    step: int | None  # after so many updates; none: not known
    checkpoint: str = ""  # its name, where it is no run

    @property
    def task(self) -> Literal["lm", "classifier", "encoder"]:
        if isinstance(self.model, LanguageModel):
            return "lm"
        return "classifier" if isinstance(self.model, Classifier) else "encoder"

    @property
    def instead(self) -> str:
        """What it is, for those who wanted something else of it."""
        says = {
            "lm": "a language model: use h2h score",
            "classifier": "a classifier: use h2h classify",
            "encoder": "an encoder without a head, it predicts neither tokens nor labels: use h2h attend",
        }
        return f"{self.checkpoint or f'run {self.record.id}'} is {says[self.task]}"

    @property
    def title(self) -> str:
        """What a reader of a picture wants to know of it."""
        arm = self.spec.arm
        if self.checkpoint:
            return f"{self.checkpoint}: {self.task}, {arm.model.layers} layers of {arm.model.heads} heads"
        return f"run {self.record.id[:8]}: {arm.task} on {arm.data.corpus.name}, seed {self.spec.seed}"


def snapshot_steps(record: Record) -> list[int]:
    """The steps whose weights were kept."""
    kept = (record.folder / "snapshots").glob("step-*.safetensors")
    return sorted(int(path.stem[5:]) for path in kept if path.stem[5:].isdecimal())


def load_trained(record: Record, step: int | None = None) -> Trained:
    """The model of a complete run, as it ended or as it was at a step whose weights were kept. Those of step 0, before
    training, are always to be had: they follow from the seed, or from the checkpoint it began with."""
    return next(load_steps(record, [step]))


def load_steps(record: Record, steps: Iterable[int | None]) -> Iterator[Trained]:
    """The model at one step after the other. It is one model, with other weights each time: look, then go on."""
    if record.result is None:
        raise InputError(f"run {record.id} is not complete: go on with it first: h2h train --resume {record.id}")
    if record.result["status"] != "complete":
        raise InputError(f"run {record.id} {record.result['ended']}: its weights are not numbers")
    spec, last = read_run(record.spec), int(record.result.get("weights_of", record.result["steps"]))
    labels = tuple(record.result["data"].get("says", ()))
    vocabulary = _vocabulary(record, spec)
    model: nn.Module
    if labels:
        model = Classifier(spec.arm.model, vocabulary.size, len(labels), spec.seed, vocabulary.pad)
    else:
        model = LanguageModel(spec.arm.model, vocabulary.size, spec.seed)
    model.eval()
    drawn = {name: weight.clone() for name, weight in model.state_dict().items()}
    for step in steps:
        path = _weights(record, step, last)
        _load(model, _begun(model, drawn, spec.arm.start) if path is None else path, spec.arm.start)
        yield Trained(record, spec, model, vocabulary, labels, last if step is None else step)


def _vocabulary(record: Record, spec: RunSpec) -> Vocabulary:
    path = record.folder / "tokenizer.json"
    try:
        return spec.arm.tokenizer.restore(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read ({reason}): set the run's folder aside and train again") from None


def _weights(record: Record, step: int | None, last: int) -> Path | None:
    """The file with the weights of a step; none for those that a model starts with."""
    if step is None or step == last:
        return record.folder / "model.safetensors"
    path = record.folder / "snapshots" / f"step-{step:08d}.safetensors"
    if path.is_file():
        return path
    if step != 0:
        kept = sorted({0, last, *snapshot_steps(record)})
        raise InputError(
            f"run {record.id} kept no weights of step {step}: it has {kept}; "
            "train with --set evaluate.snapshots=20 to keep twenty"
        )
    return None


def _begun(model: nn.Module, drawn: dict[str, Tensor], start: Start) -> dict[str, Tensor]:
    """The weights before the first update: as drawn from the seed, or filled in from a checkpoint."""
    begun = copy.deepcopy(model)
    begun.load_state_dict(drawn)
    start.fill(begun)
    return begun.state_dict()


def _load(model: nn.Module, weights: Path | dict[str, Tensor], start: Start) -> None:
    try:
        model.load_state_dict(merged(load(weights.read_bytes()) if isinstance(weights, Path) else weights, start))
    except (OSError, RuntimeError, KeyError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{weights} cannot be read ({reason}): set the run's folder aside and train again") from None
