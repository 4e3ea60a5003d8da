"""Find a student's class and call it: other names of classes and arguments are understood, and reported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from headtohead.errors import InputError, it_has

SYNONYMS = {
    "vocab": ("vocab_size", "n_vocab", "vocabulary", "vocabulary_size", "num_embeddings", "num_tokens", "n_tokens"),
    "block": ("block_size", "max_len", "max_length", "seq_len", "context", "context_length", "n_positions", "n_ctx"),
    "width": ("n_embd", "d_model", "dim", "embed_dim", "emb_dim", "hidden_size", "d", "n_embed", "model_dim", "emb"),
    "heads": ("n_head", "n_heads", "num_heads", "nhead", "num_attention_heads", "h"),
    "layers": ("n_layer", "n_layers", "num_layers", "depth", "num_blocks", "n_blocks", "num_hidden_layers"),
    "hidden": ("n_hidden", "hidden_dim", "hidden_units", "num_hidden", "d_hidden", "ff_hidden"),
    "classes": ("n_classes", "num_classes", "num_labels", "n_class", "n_labels", "outputs", "out_dim", "n_output"),
}
USUAL = {  # values for further arguments that have no default
    **dict.fromkeys(("dropout", "drop", "p", "dropout_rate", "p_drop"), 0.0),
    **dict.fromkeys(("device",), "cpu"),
    **dict.fromkeys(("pad", "pad_id", "pad_idx", "padding_idx", "pad_token_id"), 0),
    **dict.fromkeys(("bias",), True),
}


def find_object(module: Any, name: str, also: Sequence[str]) -> tuple[Any, str]:
    """Return the object that is meant and what to rename, if anything."""
    for one in (name, *also):
        value = vars(module).get(one)
        if callable(value):
            return value, "" if one == name else f"{one} was used: rename it to {name}"
    own = {n: v for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__}
    same = next((n for n in own if n.lower().replace("_", "") == name.lower().replace("_", "")), None)
    like = [n for n, v in own.items() if isinstance(v, type) and issubclass(v, nn.Module) and _resembles(n, name)]
    chosen = same or (like[-1] if like else None)
    if chosen is None:
        raise InputError(f"there is no '{name}': {it_has(name, [n for n in own if not n.startswith('_')][:12])}")
    return own[chosen], f"{chosen} was used: rename it to {name}"


def _resembles(found: str, name: str) -> bool:
    """Whether a class with another name is probably the one that is meant."""
    first = re.findall("[A-Z][a-z]+", name)[:1]  # Alibi of AlibiLanguageModel
    words = (
        ("gpt", "lm", "decoder", "language", "transformer")
        if name.endswith("LanguageModel")
        else ("classif", "encoder")
    )
    special = first[0].lower() if first and first[0] not in ("Language", "Classifier") else ""
    return name.lower() in found.lower() or (special in found.lower() and any(w in found.lower() for w in words))


def arguments_for(target: Callable[..., Any], wanted: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments to call with and what to rename. Raise InputError if an argument has no place."""
    try:
        parameters = [p for p in inspect.signature(target).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return dict(wanted), []
    known = {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters)
    given: dict[str, Any] = {}
    notes = []
    for key, value in wanted.items():
        other = next((one for one in SYNONYMS.get(key, ()) if one in known and one not in wanted), None)
        if key in known or (takes_any and other is None):
            given[key] = value
        elif other is not None:
            given[other] = value
            notes.append(f"rename the argument '{other}' of {name} to '{key}'")
        else:
            raise InputError(f"{name} has no argument '{key}': {it_has(key, known)}")
    for p in known.values():
        if p.default is p.empty and p.name not in given:
            if p.name not in USUAL:
                raise InputError(f"{name} needs '{p.name}': give it a default value")
            given[p.name] = USUAL[p.name]
            notes.append(f"give the argument '{p.name}' of {name} a default value")
    return given, notes
