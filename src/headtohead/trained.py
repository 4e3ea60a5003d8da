"""A trained model, back from the store; it needs no corpus."""

from __future__ import annotations

import json
from dataclasses import dataclass

import safetensors
from safetensors.torch import load
from torch import nn

from headtohead.arm import RunSpec, read_run
from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.model import Classifier, LanguageModel
from headtohead.store import Record


@dataclass(frozen=True)
class Trained:
    """A run's model as it was at a step, with its vocabulary; needs no corpus."""

    record: Record
    spec: RunSpec
    model: nn.Module
    vocabulary: Vocabulary
    labels: tuple[str, ...]  # what classes mean, for a classifier


def load_trained(record: Record, step: int | None = None) -> Trained:
    """The model of a complete run, as it ended or as it was at a step whose weights were kept."""
    if record.result is None:
        raise InputError(f"run {record.id} is not complete: go on with it first: h2h train --resume {record.id}")
    if record.result["status"] != "complete":
        raise InputError(f"run {record.id} {record.result['ended']}: its weights are not numbers")
    spec = read_run(record.spec)
    path = record.folder / "model.safetensors"
    if step is not None:
        path = record.folder / "snapshots" / f"step-{step:08d}.safetensors"
        if not path.is_file():
            kept = sorted(int(p.stem.removeprefix("step-")) for p in path.parent.glob("step-*.safetensors"))
            raise InputError(f"run {record.id} kept no weights of step {step}: it has {kept or 'none'}")
    data = record.result["data"]
    labels = tuple(data.get("says", ()))
    vocabulary = spec.arm.tokenizer.restore(json.loads((record.folder / "tokenizer.json").read_text(encoding="utf-8")))
    model: nn.Module
    if labels:
        model = Classifier(spec.arm.model, vocabulary.size, len(labels))
    else:
        model = LanguageModel(spec.arm.model, vocabulary.size)
    try:
        model.load_state_dict(load(path.read_bytes()))
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read ({reason}): set the run's folder aside and train again") from None
    model.eval()
    return Trained(record, spec, model, vocabulary, labels)
