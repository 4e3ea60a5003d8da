"""Load a run or a pretrained checkpoint by name, so that commands for runs also take checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from headtohead.data.pretrained_checkpoints import find, is_checkpoint
from headtohead.data.tokenizers import Pieces, Vocabulary
from headtohead.errors import InputError
from headtohead.model.init import Seeded
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel, Trunk
from headtohead.pretrained.architectures import Read, read
from headtohead.run import files, store
from headtohead.run.load import Trained, load_trained
from headtohead.run.store import Record
from headtohead.run.studies import find_runs, other_seeds
from headtohead.training.arm import Arm, RunSpec

ENDLESS = 1 << 30  # tokens: a language model reads a long text window by window, so nothing is cut off


class Encoder(nn.Module):
    """Token ids → one vector per token (B, T, D): a trunk without a head."""

    def __init__(self, spec: ModelSpec, vocab: int, seed: int = 0) -> None:
        super().__init__()
        self.spec, self.vocab = spec, vocab
        self.trunk = Trunk(spec, vocab, Seeded(seed))

    def forward(self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return self.trunk(ids, keep, positions)


def opened(run: Trained | str) -> Trained:
    """A loaded model as it is; a name is that of a run or a checkpoint."""
    return named(run) if isinstance(run, str) else run


def named(name: str, step: int | None = None) -> Trained:
    """The model of a run or of a checkpoint, by its name."""
    torch.set_num_threads(1)  # faster for one small model
    record = run_or_checkpoint(name)
    if record is not None:
        return load_trained(record, step)
    if step is not None:
        raise InputError(f"{name} is a checkpoint: it has no steps to choose from")
    return load(name)


def run_or_checkpoint(name: str, home: Path | None = None) -> Record | None:
    """Find a run by name; of an arm with several seeds, the first. Returns None for a checkpoint: a folder as
    save_pretrained writes it, minilm, or hub:NAME."""
    try:
        return find_runs(name, home or store.home())[0]
    except InputError:
        if is_checkpoint(name):
            return None
        if name and (name.startswith((".", "/", "~")) or Path(name).expanduser().is_dir()):
            find(name)  # raises an error about that folder
        raise


def load(name: str) -> Trained:
    """Load a checkpoint in the form of a run."""
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
        raise InputError(f"{name} has {rows} token embeddings, but its config.json says {vocabulary.size}: correct it")

    def built() -> nn.Module:
        if got.task == "lm":
            return LanguageModel(got.spec, rows)
        if got.task == "classifier":
            return Classifier(got.spec, rows, len(got.labels), pad=vocabulary.pad)
        return Encoder(got.spec, rows)

    try:
        with torch.device("meta"):  # only shapes: a wrong number must not fill the memory
            built().load_state_dict({weight: w.to("meta") for weight, w in got.weights.items()}, assign=True)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"the weights of {name} do not match its config.json ({why}): correct it") from None
    model = built()
    model.load_state_dict(got.weights, assign=True)
    return model.eval()


def seeds_of(name: str) -> list[store.Record]:
    """Every complete run of the same arm: those of a study's arm, or runs in the store that differ only in the seed."""
    found = find_runs(name, store.home())
    if len(found) == 1:
        found += other_seeds(found[0], store.home())
    complete = [r for r in found if r.result is not None and r.result.is_complete]
    if not complete:
        raise InputError(f"{name} has no complete run: continue it first: h2h train --resume {found[0].id}")
    return sorted(complete, key=_seed)


def _seed(record: Record) -> int:
    seed = record.spec.get("seed")
    if not isinstance(seed, int):
        raise store.unreadable(record.folder / files.RUN, "train again")
    return seed
