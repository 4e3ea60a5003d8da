"""Load a trained model with its vocabulary from the store. The corpus is not needed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import safetensors
from safetensors.torch import load
from torch import Tensor, nn

from headtohead.data.stored_json import DAMAGED, parsed
from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.pretrained.start import Start, merged
from headtohead.run import files
from headtohead.run.store import Record
from headtohead.training.arm import RunSpec, read_run


@dataclass(frozen=True)
class Trained:
    """The model of a run at a step, or of a checkpoint, with its vocabulary."""

    record: Record  # the folder of the run
    spec: RunSpec  # what was trained
    model: nn.Module  # with its weights, in evaluation mode
    vocabulary: Vocabulary  # text into ids and back
    labels: tuple[str, ...]  # what classes mean, for a classifier
    step: int | None  # updates so far; None: unknown
    checkpoint: str = ""  # its name; empty for a run

    @property
    def task(self) -> Literal["lm", "classifier", "encoder", "masked"]:
        if isinstance(self.model, LanguageModel):
            return "lm" if self.spec.arm.is_causal else "masked"
        return "classifier" if isinstance(self.model, Classifier) else "encoder"

    @property
    def instead(self) -> str:
        """The end of an error message: what kind of model this is, and which command takes it."""
        kinds = {
            "lm": "a language model: use h2h score",
            "classifier": "a classifier: use h2h classify",
            "masked": "a model of masked tokens, which predicts no next token: use h2h attend",
            "encoder": "an encoder without a head, which predicts neither tokens nor labels: use h2h attend",
        }
        return f"{self.checkpoint or f'run {self.record.id}'} is {kinds[self.task]}"

    @property
    def title(self) -> str:
        """The title of a picture of this model."""
        arm = self.spec.arm
        if self.checkpoint:
            return f"{self.checkpoint}: {self.task}, {arm.model.layers} layers of {arm.model.heads} heads"
        return f"run {self.record.id[:8]}: {arm.task} on {arm.data.corpus.name}, seed {self.spec.seed}"


def read_record(record: Record) -> RunSpec:
    """The spec of a stored run. Unknown classes are loaded from the code that is stored with the run."""
    return read_run(record.spec, record.code)


def snapshot_steps(record: Record) -> list[int]:
    """The steps whose weights are in the store."""
    snapshots = (record.folder / files.SNAPSHOTS).glob("step-*.safetensors")
    return sorted(int(path.stem[5:]) for path in snapshots if path.stem[5:].isdecimal())


def load_trained(record: Record, step: int | None = None) -> Trained:
    """Load the model of a complete run: its final weights, or those of a stored step. Step 0 is always available:
    initial weights follow from the seed or from the pretrained checkpoint."""
    return next(load_steps(record, [step]))


def load_steps(record: Record, steps: Iterable[int | None]) -> Iterator[Trained]:
    """Load the model at several steps. Every item is the same model object with other weights."""
    result = record.require_result()
    if not result.is_complete:
        raise InputError(f"run {record.id} {result.ended}: its weights are not numbers")
    spec, last, labels = read_record(record), result.weights_of, result.labels
    vocabulary = _vocabulary(record, spec)
    model: nn.Module
    if labels:
        model = Classifier(spec.arm.model, vocabulary.size, len(labels), spec.seed, vocabulary.pad)
    else:
        size = vocabulary.size + spec.arm.train.objective.extra_tokens
        model = LanguageModel(spec.arm.model, size, spec.seed)
    model.eval()
    drawn = {name: weight.clone() for name, weight in model.state_dict().items()}
    for step in steps:
        path = _weights(record, step, last)
        _load(model, _initial(model, drawn, spec.arm.start) if path is None else path, spec.arm.start)
        yield Trained(record, spec, model, vocabulary, labels, last if step is None else step)


def _vocabulary(record: Record, spec: RunSpec) -> Vocabulary:
    path = record.folder / files.TOKENIZER
    try:
        return spec.arm.tokenizer.restore(parsed(path.read_bytes()))
    except (OSError, InputError, *DAMAGED) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read ({reason}): set the run's folder aside and train again") from None


def _weights(record: Record, step: int | None, last: int) -> Path | None:
    """The file with the weights of a step; None for initial weights that are not stored."""
    if step is None or step == last:
        return record.folder / files.WEIGHTS
    path = record.folder / files.SNAPSHOTS / files.snapshot(step)
    if path.is_file():
        return path
    if step != 0:
        known = sorted({0, last, *snapshot_steps(record)})
        raise InputError(
            f"run {record.id} has no weights of step {step}: it has {known}; "
            "train with --set evaluate.snapshots=20 to keep twenty"
        )
    return None


def _initial(model: nn.Module, drawn: dict[str, Tensor], start: Start) -> dict[str, Tensor]:
    """The weights before the first update: drawn from the seed, or from a pretrained checkpoint."""
    initial = copy.deepcopy(model)
    initial.load_state_dict(drawn)
    start.fill(initial)
    return initial.state_dict()


def _load(model: nn.Module, weights: Path | dict[str, Tensor], start: Start) -> None:
    try:
        model.load_state_dict(merged(load(weights.read_bytes()) if isinstance(weights, Path) else weights, start))
    except (OSError, RuntimeError, KeyError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{weights} cannot be read ({reason}): set the run's folder aside and train again") from None
