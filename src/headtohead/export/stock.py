"""Finds the architecture of transformers that equals a spec, with its config.json and its names of the weights.

This is the inverse of `pretrained.architectures`. `ours` is headtohead's side, `theirs` that of transformers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.pretrained.architectures import (
    ACTIVATIONS,
    Config,
    Names,
    Weights,
    bert_names,
    bert_spec,
    gpt2_names,
    gpt2_spec,
    llama_names,
    llama_spec,
)
from headtohead.run.named import Encoder
from headtohead.spec import Spec

UNUSED = {  # settings that the model of a task does not use
    "lm": ("pooling", "head"),
    "classifier": ("tied", "head_bias"),
    "encoder": ("tied", "head_bias", "pooling", "head"),
}


@dataclass(frozen=True)
class Stock:
    """One architecture of transformers."""

    config: Callable[[ModelSpec, int], Config]  # from a spec and the hidden size of its feed-forward layers
    spec: Callable[[Config], ModelSpec]  # what a configuration computes
    weights: Callable[[Weights, ModelSpec], Weights]  # our weights under their names
    classes: dict[str, str]  # task → class in transformers


@dataclass(frozen=True)
class Fit:
    """The comparison of a spec with an architecture."""

    name: str  # model_type
    stock: Stock
    config: Config
    spec: ModelSpec  # what the architecture computes
    differs: tuple[str, ...]  # paths of settings that differ


def nearest(spec: ModelSpec, ours: Weights, task: str) -> Fit | None:
    """The architecture that differs in the fewest settings, among those with a head for the task; None: none fits."""
    up = ours.get("trunk.blocks.0.feedforward.up.weight")
    fits = []
    for name, stock in STOCKS.items():
        if task not in stock.classes or up is None:
            continue
        try:
            config = stock.config(spec, len(up))
            theirs = stock.spec(config)
            comparable = _without_irrelevant(spec, theirs, task, len(up))
        except (InputError, KeyError):  # the architecture cannot express one of the settings
            continue
        differs = tuple(d.path for d in theirs.diff(comparable))
        fits.append(Fit(name, stock, config, theirs, differs))
    return min(fits, key=lambda fit: len(fit.differs), default=None)


def _without_irrelevant(spec: ModelSpec, theirs: ModelSpec, task: str, hidden: int) -> ModelSpec:
    """Our spec without differences that do not matter: settings that the task does not use, sizes given by a rule, and
    biases that only theirs has, because these are written as zeros."""
    changed: dict[str, Any] = {name: getattr(theirs, name) for name in ("init", "dropout", *UNUSED[task])}
    for name in ("biases", "norm", "embedding_norm"):
        changed[name] = _with_biases(getattr(spec, name), getattr(theirs, name))
    changed["feedforward"] = _with_biases(_set(spec.feedforward, hidden=hidden), theirs.feedforward)
    if (spec.kv_heads or spec.heads) == (theirs.kv_heads or theirs.heads):
        changed["kv_heads"] = theirs.kv_heads
    if spec.dims == theirs.dims:
        changed["head_width"] = theirs.head_width
    return dataclasses.replace(spec, **changed)


def _with_biases(ours: Any, theirs: Any) -> Any:
    """Our settings with every flag set that theirs has set: these flags are biases."""
    more = {f.name: True for f in dataclasses.fields(theirs) if getattr(theirs, f.name) is True}
    return _set(ours, **more)


def _set(spec: Spec, **values: Any) -> Any:
    """Replace the given settings, except those that the spec does not have."""
    return dataclasses.replace(spec, **{name: value for name, value in values.items() if hasattr(spec, name)})


def completed(ours: Weights, fit: Fit, task: str, classes: int) -> Weights:
    """Our weights, with zeros for biases that only theirs has."""
    vocab = len(ours["trunk.tokens.weight"])
    model: nn.Module
    with torch.device("meta"):  # names and shapes only
        if task == "lm":
            model = LanguageModel(fit.spec, vocab)
        else:
            model = Classifier(fit.spec, vocab, classes) if task == "classifier" else Encoder(fit.spec, vocab)
    return {name: ours[name] if name in ours else torch.zeros(w.shape) for name, w in model.state_dict().items()}


def put(ours: Weights, names: Names) -> Weights:
    """Rename the tensors of whole modules to their names: the inverse of `take`."""
    theirs = {}
    for our_name, their_name in names.items():
        for kind in ("weight", "bias"):
            if f"{our_name}.{kind}" in ours:
                theirs[f"{their_name}.{kind}"] = ours[f"{our_name}.{kind}"]
    return theirs


def _activation(spec: ModelSpec) -> str:
    return {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}[getattr(spec.feedforward, "activation", "")]


# -- the architectures -------------------------------------------------------------------------------------------------


def gpt2_config(spec: ModelSpec, hidden: int) -> Config:
    return {
        "n_embd": spec.width,
        "n_head": spec.heads,
        "n_layer": spec.layers,
        "n_positions": spec.block,
        "n_inner": hidden,
        "activation_function": _activation(spec),
        "layer_norm_epsilon": getattr(spec.norm, "eps", 1e-5),
        "tie_word_embeddings": spec.tied,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), spec.dropout),
    }


def gpt2_out(ours: Weights, spec: ModelSpec) -> Weights:
    plain, transposed, fused = gpt2_names(spec)
    theirs = put(ours, plain) | {name: w.t() for name, w in put(ours, transposed).items()}
    for attention, name in fused.items():
        for kind in ("weight", "bias"):
            theirs[f"{name}.{kind}"] = torch.cat([ours[f"{attention}.{part}.{kind}"] for part in "qkv"]).t()
    return _prefixed(theirs, "transformer.", "lm_head")


def llama_config(spec: ModelSpec, hidden: int) -> Config:
    biases = spec.biases
    return {
        "hidden_size": spec.width,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads or spec.heads,
        "head_dim": spec.dims.head_width,
        "num_hidden_layers": spec.layers,
        "max_position_embeddings": spec.block,
        "intermediate_size": hidden,
        "hidden_act": _activation(spec),
        "attention_bias": biases.q or biases.k or biases.v or biases.out,
        "mlp_bias": getattr(spec.feedforward, "bias", False),
        "rms_norm_eps": getattr(spec.norm, "eps", 1e-6),
        "rope_parameters": {"rope_type": "default", "rope_theta": getattr(spec.position, "theta", 10_000.0)},
        "tie_word_embeddings": spec.tied,
        "attention_dropout": spec.dropout,
    }


def llama_out(ours: Weights, spec: ModelSpec) -> Weights:
    return _prefixed(put(ours, llama_names(spec)), "model.", "lm_head")


def bert_config(spec: ModelSpec, hidden: int) -> Config:
    return {
        "hidden_size": spec.width,
        "num_attention_heads": spec.heads,
        "num_hidden_layers": spec.layers,
        "max_position_embeddings": spec.block,
        "intermediate_size": hidden,
        "hidden_act": _activation(spec),
        "layer_norm_eps": getattr(spec.norm, "eps", 1e-12),
        "type_vocab_size": 1,
        **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), spec.dropout),
    }


def bert_out(ours: Weights, spec: ModelSpec) -> Weights:
    """The single segment has a zero vector, because our token embeddings contain the vector of segment 0."""
    names = bert_names(spec) | {"trunk.tokens": "embeddings.word_embeddings"}
    names |= {
        "trunk.position.table": "embeddings.position_embeddings",
        "head.0": "pooler.dense",
        "head.2": "classifier",
    }
    theirs = put(ours, names) | {"embeddings.token_type_embeddings.weight": torch.zeros(1, spec.width)}
    return _prefixed(theirs, "bert.", "classifier") if "classifier.weight" in theirs else theirs


def _prefixed(theirs: Weights, prefix: str, head: str) -> Weights:
    return {name if name.startswith(head) else prefix + name: w.contiguous() for name, w in theirs.items()}


STOCKS = {
    "gpt2": Stock(gpt2_config, gpt2_spec, gpt2_out, {"lm": "GPT2LMHeadModel"}),
    "llama": Stock(llama_config, llama_spec, llama_out, {"lm": "LlamaForCausalLM"}),
    "bert": Stock(
        bert_config, bert_spec, bert_out, {"classifier": "BertForSequenceClassification", "encoder": "BertModel"}
    ),
}
