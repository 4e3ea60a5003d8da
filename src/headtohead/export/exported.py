"""Writes a model as a folder that transformers loads, with its tokenizer and a model card.

A spec that equals an architecture of transformers is written as that architecture. Other models get a Python file with
their code beside the weights.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save

from headtohead.data.pretrained_checkpoints import CONFIG, WEIGHTS, find
from headtohead.disk.writing import write_whole
from headtohead.errors import InputError, Unavailable, describe, needs_extra
from headtohead.export.bundle import bundled
from headtohead.export.card import AUTO, card
from headtohead.export.stock import completed, nearest
from headtohead.export.tokenizer_files import tokenizer_files
from headtohead.pretrained.architectures import Config, Weights, portable
from headtohead.run.load import Trained
from headtohead.run.named import opened
from headtohead.spec import Part, Spec
from headtohead.spec.userfiles import run_source

CODE = "modeling_headtohead.py"
MARK = "# -- the parts of the model are inserted here"
OWN = {"lm": "HeadToHeadForCausalLM", "classifier": "HeadToHeadForSequenceClassification"}
SAME = 1e-4  # largest allowed difference, relative to the largest logit


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    folder: Path
    architecture: str  # class name, in transformers or in the file beside the weights
    stock: bool  # whether the class is part of transformers
    notes: tuple[str, ...]
    difference: float | None  # largest difference from our logits; None: transformers is not installed

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "folder": str(self.folder), "notes": list(self.notes)}

    def lines(self) -> Iterator[str]:
        """The lines that the command prints."""
        yield f"wrote {self.folder}: {self.architecture}"
        yield from (f"note: {note}" for note in self.notes)
        if self.difference is None:
            yield "not checked: that needs the extra hf: pip install 'headtohead[hf]'"
        else:
            yield f"checked: transformers loads it; outputs differ by at most {max(self.difference, 1e-9):.0e}"


def export(run: Trained | str, folder: str | os.PathLike[str]) -> Exported:
    """Write a model, its tokenizer and its card into a new folder. If anything fails, no folder is left."""
    trained, into = opened(run), Path(folder)
    if into.is_file() or (into.is_dir() and any(into.iterdir())):
        raise InputError(f"{into} exists and is not empty: give a new folder, or empty this one")
    written = _stock(trained) or _own(trained)
    notes = [*written.notes]
    try:
        written.files.update(tokenizer_files(trained.vocabulary, _longest(trained)))
    except InputError as error:
        notes.append(f"the folder has no tokenizer: {error}")
    written.files["README.md"] = card(trained, written.architecture, notes, trusted=not written.stock)
    with _complete_or_absent(into) as temporary:
        for name, text in written.files.items():
            write_whole(temporary / name, text)
        write_whole(temporary / WEIGHTS, save(written.weights, {"format": "pt"}))
        difference = _difference(trained, temporary, written)
    return Exported(into, written.architecture, written.stock, tuple(notes), difference)


# -- the contents ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """The contents of an export, before they are written."""

    architecture: str
    stock: bool
    weights: Weights
    files: dict[str, str]  # name → text
    notes: list[str]


def _stock(trained: Trained) -> Written | None:
    """Export as an architecture of transformers; None if none equals the model."""
    if trained.task not in AUTO:
        raise InputError(f"this model is not exported: {trained.instead}")
    spec, ours = trained.spec.arm.model, trained.model.state_dict()
    fit = nearest(spec, ours, trained.task)
    if fit is None or fit.differs:
        return None
    whole = completed(ours, fit, trained.task, len(trained.labels))
    notes = ["biases that only the transformers model has are written as zeros"] if len(whole) > len(ours) else []
    if trained.checkpoint and "type_vocab_size" in fit.config:
        notes.append(
            "the vector of segment 0 is part of the token embeddings, so the model cannot separate pairs of texts"
        )
    if trained.task == "encoder":
        notes.append("it has no pooler, and transformers will add a random one: use last_hidden_state")
    config = {"model_type": fit.name, **fit.config}
    architecture = fit.stock.classes[trained.task]
    files = _configs(trained, architecture, config, {})
    return Written(architecture, True, fit.stock.weights(whole, fit.spec), files, notes)


def _own(trained: Trained) -> Written:
    """Export with a Python file: the template with the source code of the model's parts."""
    if trained.task not in OWN:
        raise InputError(f"no architecture of transformers equals this encoder: {trained.instead}")
    spec, ours, task = trained.spec.arm.model, trained.model.state_dict(), trained.task
    template = (Path(__file__).parent / CODE).read_text(encoding="utf-8")
    unused = "pooling" if task == "lm" else ""
    parts = [p for f in dataclasses.fields(spec) if f.name != unused for p in _parts(getattr(spec, f.name))]
    before, _, after = template.partition(MARK)
    after = after.partition("\n")[2]
    code = f"{before}# -- parts of the model, copied from their files\n\n{bundled(parts, template)}\n{after}"
    computed = {name: b for name, b in trained.model.named_buffers() if name not in ours}
    config = {
        "model_type": f"headtohead_{task}",
        "auto_map": {"AutoConfig": f"{Path(CODE).stem}.HeadToHeadConfig", AUTO[task]: f"{Path(CODE).stem}.{OWN[task]}"},
        "model": portable(spec.to_json()),
        "dropout": spec.dropout,
        "computed": sorted(computed),
        "tie_word_embeddings": False,  # the code of the file ties them
        "use_cache": False,
    }
    files = _configs(trained, OWN[task], config, {"use_cache": False})
    files[CODE] = code.replace('model_type = "headtohead"', f'model_type = "headtohead_{task}"')
    fit = nearest(spec, ours, task)
    near = f" (the nearest, {fit.name}, differs in {', '.join(fit.differs)})" if fit else ""
    note = f"no architecture of transformers equals it{near}: load it with trust_remote_code=True, which runs {CODE}"
    return Written(OWN[task], False, {**ours, **computed}, files, [note])


def _parts(value: Any) -> Iterator[Part]:
    """The parts in a setting, including the setting itself."""
    if isinstance(value, Part):
        yield value
    if isinstance(value, Spec):
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))


def _configs(trained: Trained, architecture: str, config: Config, generation: Config) -> dict[str, str]:
    vocabulary = trained.vocabulary
    theirs = find(trained.checkpoint).config if trained.checkpoint else {}
    ends: Config = {name: theirs.get(name) for name in ("bos_token_id", "eos_token_id")}
    ends["pad_token_id"] = vocabulary.pad if vocabulary.pad in vocabulary.silent else None
    whole: Config = {
        "architectures": [architecture],
        **config,
        **ends,
        "vocab_size": vocabulary.size,
        "dtype": "float32",
    }
    if trained.labels:
        whole["id2label"] = {str(n): label for n, label in enumerate(trained.labels)}
        whole["label2id"] = {label: n for n, label in enumerate(trained.labels)}
    files = {CONFIG: _text(whole)}
    if trained.task == "lm":  # tokens that headtohead never generates are not generated by transformers either
        silent = {"suppress_tokens": list(vocabulary.silent)} if vocabulary.silent else {}
        files["generation_config.json"] = _text({**ends, **silent, **generation})
    return files


def _longest(trained: Trained) -> int:
    block = trained.spec.arm.model.block
    return min(block, getattr(trained.spec.arm.tokenizer, "longest", block))


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def _complete_or_absent(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to write into, and rename it to `folder` at the end."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            os.chmod(temporary, 0o755)
            yield temporary
            if folder.is_dir():
                folder.rmdir()
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            f"cannot write {folder}: {error.strerror or error}; give a folder that you can write to"
        ) from None


# -- the check ---------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def _difference(trained: Trained, folder: Path, written: Written) -> float | None:
    """The largest difference between the outputs of transformers and ours, on two random texts, one of them padded."""
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        home = transformers if written.stock else _run(folder / CODE, written.files[CODE])
        theirs = getattr(home, written.architecture).from_pretrained(folder, local_files_only=True).eval()
    except Exception as error:  # a part in a user's file may raise anything
        raise InputError(
            f"transformers cannot load the model ({describe(error)}), so it was not exported: check your parts"
        ) from None
    length = min(trained.spec.arm.model.block, 12)
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(0, trained.vocabulary.size, (2, length), generator=rng)
    keep = torch.arange(length) < torch.tensor([[length], [(length + 1) // 2]])
    ids = torch.where(keep, ids, trained.vocabulary.pad)
    expected = trained.model(ids, keep)
    output = theirs(ids, attention_mask=keep.long())
    output = output.last_hidden_state if trained.task == "encoder" else output.logits
    real = keep if expected.ndim == 3 else torch.ones(2, dtype=torch.bool)
    difference = float((output - expected)[real].abs().max())
    if not difference <= SAME * max(1.0, float(expected[real].abs().max())):
        raise InputError(
            f"transformers computes other outputs than headtohead (difference {difference:.2g}), so it was not exported"
        )
    return difference


def _run(path: Path, source: str) -> ModuleType:
    """Run the file that was just written, as transformers does."""
    module = ModuleType("headtohead_exported")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # transformers finds the file of a class here
    run_source(module, source, str(path))
    return module


# -- to the Hub --------------------------------------------------------------------------------------------------------


def push(folder: Path, name: str, announce: Callable[[str], None]) -> None:
    """Upload the folder to the Hub as the model `name`. The user must be logged in to the Hub."""
    try:
        import huggingface_hub
    except ImportError:
        raise needs_extra("pushing to the Hub", "hf") from None
    announce(f"pushing {folder} to the Hub as {name}")
    try:
        hub = huggingface_hub.HfApi()
        hub.create_repo(name, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # network and Hub errors have no common class
        why = " ".join(str(error).split())[:160] or type(error).__name__
        raise Unavailable(
            f"cannot push to the Hub as {name} ({why}): the folder is complete; log in and upload it"
        ) from None
