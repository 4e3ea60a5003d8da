"""Attention maps of Hugging Face models whose architecture headtohead cannot import. transformers runs the model.

The folder has config.json, weights as safetensors and a tokenizer. Nothing is downloaded or unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headtohead.data.files import one_line
from headtohead.errors import InputError, needs_extra
from headtohead.interpret.checks import Claim, sanity
from headtohead.interpret.maps import PADDING, Maps, likeliest


@dataclass(frozen=True)
class HubModel:
    """A model of transformers with its tokenizer."""

    name: str
    model: Any  # a transformers model with a head
    tokenizer: Any
    task: str  # lm, masked or classifier
    labels: tuple[str, ...]

    @property
    def block(self) -> int:
        config = self.model.config
        return int(getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", 0) or 10**6)


def load_folder(folder: Path) -> HubModel:
    """Load a model and tokenizer written by `save_pretrained`."""
    try:
        import transformers
    except ImportError:
        raise needs_extra("a model of Hugging Face's", "hf") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        safe = {"local_files_only": True, "trust_remote_code": False}  # without False, transformers asks on a terminal
        config = transformers.AutoConfig.from_pretrained(folder, **safe)
        kind, task = _kind(transformers, config)
        options = {"use_safetensors": True, "attn_implementation": "eager", **safe}
        model, loaded = kind.from_pretrained(folder, output_loading_info=True, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
    except Exception as error:  # of any kind: transformers, the files or the disk
        raise InputError(
            f"{folder} has no Hugging Face model with safetensors and a tokenizer ({one_line(error)}): "
            "write it with save_pretrained"
        ) from None
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(
            f"{folder} lacks {missing[0]} ({len(missing)} such weights), which would be random: "
            "put the weights there that belong to its config.json"
        )
    labels = tuple(config.id2label[n] for n in sorted(config.id2label)) if task == "classifier" else ()
    return HubModel(f"{folder.name} ({config.model_type})", model.eval(), tokenizer, task, labels)


def _kind(transformers: Any, config: Any) -> tuple[Any, str]:
    architecture = (config.architectures or [""])[0]
    if "SequenceClassification" in architecture:
        return transformers.AutoModelForSequenceClassification, "classifier"
    if "MaskedLM" in architecture:
        return transformers.AutoModelForMaskedLM, "masked"
    return transformers.AutoModelForCausalLM, "lm"


@torch.inference_mode()
def hub_attention(hub: HubModel, text: str) -> Maps:
    """Return the attention maps of the model on a text. The expected pattern is causal for a language model."""
    ids: list[int] = hub.tokenizer(text)["input_ids"]
    if not ids:
        raise InputError("the text has no token: give words")
    seen = ids[: hub.block]
    room = min(PADDING, hub.block - len(seen))
    pad = hub.tokenizer.pad_token_id
    padded = torch.tensor([seen + [pad if pad is not None else seen[-1]] * room])
    keep = torch.arange(padded.shape[1]) < len(seen)
    out = hub.model(padded, attention_mask=keep[None].long(), output_attentions=True)
    attentions = getattr(out, "attentions", None)  # some models return none
    if not attentions or attentions[0] is None:
        raise InputError(f"{hub.name} returns no attention weights: give a transformer that does")
    weights = torch.stack([a[0] for a in attentions]).float().numpy()  # (L, H, T, T)
    plain = hub.model(torch.tensor([seen]))
    logits, as_used = (_last(hub, x.logits[0], len(seen)) for x in (out, plain))
    T = len(keep)
    allowed = np.tril(np.ones((T, T), bool)) if hub.task == "lm" else np.ones((T, T), bool)
    tokens = hub.tokenizer.convert_ids_to_tokens(padded[0].tolist())
    names: Sequence[str] = hub.labels or _Names(hub.tokenizer)
    checks = sanity(
        weights,
        [Claim("a causal model" if hub.task == "lm" else "a bidirectional model", allowed & keep.numpy()[None, :])],
        keep.numpy(),
        block=hub.block,
        given=len(ids),
        logits=(logits.numpy(), as_used.numpy()),
    )
    return Maps(
        weights=weights,
        tokens=tuple(_readable(t) for t in tokens),
        real=len(seen),
        cut=len(ids) - len(seen),
        unknown=sum(i == hub.tokenizer.unk_token_id for i in seen) if hub.tokenizer.unk_token_id is not None else 0,
        name=hub.name,
        step=None,
        task="classifier" if hub.task == "classifier" else "lm",
        answers=likeliest(logits, names),
        checks=checks,
        layers=tuple(range(weights.shape[0])),
        heads=tuple(range(weights.shape[1])),
    )


class _Names(Sequence[str]):
    """The text to print for an id, computed on demand."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __getitem__(self, i: Any) -> Any:
        return _readable(str(self.tokenizer.convert_ids_to_tokens(i)))

    def __len__(self) -> int:
        return len(self.tokenizer)


def _readable(piece: str) -> str:
    """Replace the marks of byte pairs and sentence pieces with white space."""
    return piece.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")


def _last(hub: HubModel, logits: torch.Tensor, length: int) -> torch.Tensor:
    return logits if hub.task == "classifier" else logits[length - 1]
