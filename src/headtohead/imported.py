"""Checkpoints as models of ours, so that whatever takes a run takes them too: maps, surgery, scores, text, labels."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from headtohead import store
from headtohead.arm import Arm, RunSpec
from headtohead.data.checkpoints import find, is_checkpoint
from headtohead.data.tokenizers import Pieces, Vocabulary
from headtohead.errors import InputError
from headtohead.model import Classifier, LanguageModel, ModelSpec, Seeded, Trunk
from headtohead.outcome import find_runs
from headtohead.pretrained.architectures import Read, read
from headtohead.store import Record
from headtohead.trained import Trained, load_trained

ENDLESS = 1 << 30  # tokens: a language model reads a long text window by window, so nothing is cut off


class Encoder(nn.Module):
    """Token ids → one vector a token (B, T, D): a trunk without a head."""

    def __init__(self, spec: ModelSpec, vocab: int, seed: int = 0) -> None:
        super().__init__()
        self.spec, self.vocab = spec, vocab
        self.trunk = Trunk(spec, vocab, Seeded(seed))

    def forward(self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return self.trunk(ids, keep, positions)


def opened(run: Trained | str) -> Trained:
    """As it is, or by the name of a run or a checkpoint."""
    return named(run) if isinstance(run, str) else run


def named(name: str, step: int | None = None) -> Trained:
    """The model of a run in the store (of an arm with several, that of the first seed), or of a checkpoint: a folder as
    save_pretrained writes it, minilm, or hub:NAME."""
    try:
        record = find_runs(name, store.home())[0]
    except InputError:
        if not is_checkpoint(name):
            if name and (name.startswith((".", "/", "~")) or Path(name).expanduser().is_dir()):
                find(name)  # which says what is wrong with that folder
            raise
        if step is not None:
            raise InputError(f"{name} is a checkpoint: it has no steps to choose from") from None
        return load(name)
    return load_trained(record, step)


def load(name: str) -> Trained:
    """A checkpoint as if it had been trained here."""
    found = find(name)
    got = read(found)
    tokenizer = Pieces(checkpoint=name, longest=ENDLESS if got.task == "lm" else got.spec.block)
    vocabulary = tokenizer.learn(iter(()))
    arm = Arm(task="lm" if got.task == "lm" else "classifier", tokenizer=tokenizer, model=got.spec)
    model = _model(name, got, vocabulary)
    return Trained(Record(found.folder), RunSpec(arm=arm), model, vocabulary, got.labels, None, checkpoint=name)


def _model(name: str, got: Read, vocabulary: Vocabulary) -> nn.Module:
    rows = len(got.weights["trunk.tokens.weight"])
    if rows != vocabulary.size:
        raise InputError(f"{name} has {rows} token embeddings and its config.json says {vocabulary.size}: mend it")

    def built() -> nn.Module:
        if got.task == "lm":
            return LanguageModel(got.spec, rows)
        if got.task == "classifier":
            return Classifier(got.spec, rows, len(got.labels), pad=vocabulary.pad)
        return Encoder(got.spec, rows)

    try:
        with torch.device("meta"):  # shapes alone: a wrong number must not fill the memory
            built().load_state_dict({weight: w.to("meta") for weight, w in got.weights.items()}, assign=True)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"the weights of {name} are not what its config.json says ({why}): mend it") from None
    model = built()
    model.load_state_dict(got.weights, assign=True)
    return model.eval()
