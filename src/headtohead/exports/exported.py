"""Models as folders that transformers loads: as an architecture of its own where the spec equals one, otherwise with a
file of code beside the weights; each with its tokenizer and a card."""

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

from headtohead.data.checkpoints import CONFIG, WEIGHTS, find
from headtohead.errors import InputError, Unavailable, describe
from headtohead.exports.bundle import bundled
from headtohead.exports.card import AUTO, card
from headtohead.exports.stock import completed, nearest
from headtohead.exports.tokenizer_files import tokenizer_files
from headtohead.imported import opened
from headtohead.pretrained.architectures import Config, Weights, portable
from headtohead.spec import Part, Spec
from headtohead.trained import Trained

CODE = "modeling_headtohead.py"
MARK = "# -- the model's own parts are written here"
OWN = {"lm": "HeadToHeadForCausalLM", "classifier": "HeadToHeadForSequenceClassification"}
SAME = 1e-4  # of the largest logit


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    architecture: str  # a class of transformers', or of the file beside the weights
    stock: bool  # transformers' own
    notes: tuple[str, ...]
    difference: float | None  # between transformers' logits and ours; none: transformers is not installed

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "folder": str(self.folder), "notes": list(self.notes)}

    def lines(self) -> Iterator[str]:
        """What to tell whoever asked for it."""
        yield f"wrote {self.folder}: {self.architecture}"
        yield from (f"note: {note}" for note in self.notes)
        if self.difference is None:
            yield "not checked: transformers is not installed here; pip install 'headtohead[hf]'"
        else:
            yield f"checked: transformers loads it and computes the same, to {max(self.difference, 1e-9):.0e}"


def export(run: Trained | str, folder: str | os.PathLike[str]) -> Exported:
    """Write a model, its tokenizer and its card into a new folder, which appears whole or not at all."""
    trained, into = opened(run), Path(folder)
    if into.is_file() or (into.is_dir() and any(into.iterdir())):
        raise InputError(f"{into} exists and is not empty: give the name of a new folder, or empty it first")
    written = _stock(trained) or _own(trained)
    notes = [*written.notes]
    try:
        written.files.update(tokenizer_files(trained.vocabulary, _longest(trained)))
    except InputError as error:
        notes.append(f"no tokenizer is in the folder: {error}")
    written.files["README.md"] = card(trained, written.architecture, notes, trusted=not written.stock)
    with _appearing(into) as aside:
        for name, text in written.files.items():
            (aside / name).write_text(text, encoding="utf-8")
        (aside / WEIGHTS).write_bytes(save(written.weights, {"format": "pt"}))
        difference = _difference(trained, aside, written)
    return Exported(into, written.architecture, written.stock, tuple(notes), difference)


# -- what is written ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    architecture: str
    stock: bool
    weights: Weights
    files: dict[str, str]  # by name
    notes: list[str]


def _stock(trained: Trained) -> Written | None:
    """As an architecture of transformers', if the model is one."""
    spec, ours = trained.spec.arm.model, trained.model.state_dict()
    fit = nearest(spec, ours, trained.task)
    if fit is None or fit.differs:
        return None
    whole = completed(ours, fit, trained.task, len(trained.labels))
    notes = ["biases that this model does not have are written as zeros"] if len(whole) > len(ours) else []
    if trained.checkpoint and "type_vocab_size" in fit.config:
        notes.append("one segment: its vector is in every token's embedding, so pairs of texts are not told apart")
    if trained.task == "encoder":
        notes.append("there is no pooler in it, and transformers will draw one: read last_hidden_state")
    config = {"model_type": fit.name, **fit.config}
    architecture = fit.stock.classes[trained.task]
    files = _configs(trained, architecture, config, {})
    return Written(architecture, True, fit.stock.weights(whole, fit.spec), files, notes)


def _own(trained: Trained) -> Written:
    """By code of its own: the template, with the source of the parts that this model is made of."""
    if trained.task not in OWN:
        raise InputError(f"no architecture of transformers is this encoder: {trained.instead}")
    spec, ours, task = trained.spec.arm.model, trained.model.state_dict(), trained.task
    template = (Path(__file__).parent / CODE).read_text(encoding="utf-8")
    unused = "pooling" if task == "lm" else ""
    parts = [p for f in dataclasses.fields(spec) if f.name != unused for p in _parts(getattr(spec, f.name))]
    before, _, after = template.partition(MARK)
    after = after.partition("\n")[2]
    code = f"{before}# -- its own parts, as they are in headtohead\n\n{bundled(parts, template)}\n{after}"
    computed = {name: b for name, b in trained.model.named_buffers() if name not in ours}
    config = {
        "model_type": f"headtohead_{task}",
        "auto_map": {"AutoConfig": f"{Path(CODE).stem}.HeadToHeadConfig", AUTO[task]: f"{Path(CODE).stem}.{OWN[task]}"},
        "model": portable(spec.to_json()),
        "dropout": spec.dropout,
        "computed": sorted(computed),
        "tie_word_embeddings": False,  # the file's own code does that
        "use_cache": False,
    }
    files = _configs(trained, OWN[task], config, {"use_cache": False})
    files[CODE] = code.replace('model_type = "headtohead"', f'model_type = "headtohead_{task}"')
    fit = nearest(spec, ours, task)
    near = f" (nearest is {fit.name}, but for {', '.join(fit.differs)})" if fit else ""
    note = (
        f"no architecture of transformers computes this{near}: load it with trust_remote_code=True, which runs {CODE}"
    )
    return Written(OWN[task], False, {**ours, **computed}, files, [note])


def _parts(value: Any) -> Iterator[Part]:
    """Of a setting, itself and what it is made of."""
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
    if trained.task == "lm":  # what is never said here is never said there
        silent = {"suppress_tokens": list(vocabulary.silent)} if vocabulary.silent else {}
        files["generation_config.json"] = _text({**ends, **silent, **generation})
    return files


def _longest(trained: Trained) -> int:
    block = trained.spec.arm.model.block
    return min(block, getattr(trained.spec.arm.tokenizer, "longest", block))


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """A folder to write into, which becomes the one that was asked for when all is written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            os.chmod(aside, 0o755)
            yield aside
            if folder.is_dir():
                folder.rmdir()
            os.replace(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            f"cannot write {folder}: {error.strerror or error}; give a folder of yours, with room on its disk"
        ) from None


# -- whether it is right -----------------------------------------------------------------------------------------------


@torch.inference_mode()
def _difference(trained: Trained, folder: Path, written: Written) -> float | None:
    """The largest between transformers' outputs and ours, on two random texts of which one is padded."""
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        home = transformers if written.stock else _run(folder / CODE)
        theirs = getattr(home, written.architecture).from_pretrained(folder, local_files_only=True).eval()
    except Exception as error:  # of a part of the user's own, anything
        raise InputError(f"transformers cannot load the exported model ({describe(error)}): not exported") from None
    length = min(trained.spec.arm.model.block, 12)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, trained.vocabulary.size, (2, length), generator=draw)
    keep = torch.arange(length) < torch.tensor([[length], [(length + 1) // 2]])
    ids = torch.where(keep, ids, trained.vocabulary.pad)
    expected = trained.model(ids, keep)
    found = theirs(ids, attention_mask=keep.long())
    found = found.last_hidden_state if trained.task == "encoder" else found.logits
    real = keep if expected.ndim == 3 else torch.ones(2, dtype=torch.bool)
    difference = float((found - expected)[real].abs().max())
    if not difference <= SAME * max(1.0, float(expected[real].abs().max())):
        raise InputError(
            f"transformers computes something else of the exported model, by {difference:.2g}: not exported"
        )
    return difference


def _run(path: Path) -> ModuleType:
    """The file's code, run as transformers would."""
    module = ModuleType("headtohead_exported")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where transformers looks for the file of a class
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
    return module


# -- to the Hub --------------------------------------------------------------------------------------------------------


def push(folder: Path, name: str, announce: Callable[[str], None]) -> None:
    """The folder to the Hub, as a model of that name; who may do so is between the user and the Hub."""
    try:
        import huggingface_hub
    except ImportError:
        raise Unavailable("pushing to the Hub needs huggingface_hub: pip install 'headtohead[hf]'") from None
    announce(f"pushing {folder} to the Hub as {name}")
    try:
        hub = huggingface_hub.HfApi()
        hub.create_repo(name, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # it raises whatever the network and the Hub do
        why = " ".join(str(error).split())[:160] or type(error).__name__
        raise Unavailable(
            f"cannot push to the Hub as {name} ({why}): the folder is whole; log in and push it"
        ) from None
