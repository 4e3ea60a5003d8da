"""Our models as architectures of transformers' own: which one a spec equals, its config.json, and the weights under its
names. The way back from `architectures`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headtohead.errors import InputError
from headtohead.imported import Encoder
from headtohead.model import Classifier, LanguageModel, ModelSpec
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
from headtohead.spec import Spec

UNUSED = {  # settings that the model of a task never looks at
    "lm": ("pooling", "head"),
    "classifier": ("tied", "head_bias"),
    "encoder": ("tied", "head_bias", "pooling", "head"),
}


@dataclass(frozen=True)
class Stock:
    """One architecture: a spec's configuration, what such a configuration computes, and the weights under its names."""

    config: Callable[[ModelSpec, int], Config]  # of a spec, and the hidden size of its feed-forwards
    spec: Callable[[Config], ModelSpec]
    weights: Callable[[Weights, ModelSpec], Weights]
    classes: dict[str, str]  # by task


@dataclass(frozen=True)
class Fit:
    """How near a spec comes to an architecture."""

    name: str  # model_type
    stock: Stock
    config: Config
    spec: ModelSpec  # what the architecture computes
    differs: tuple[str, ...]  # settings in which ours computes something else


def nearest(spec: ModelSpec, ours: Weights, task: str) -> Fit | None:
    """The architecture that differs least, of those that have such a head; none where there is not even a likeness."""
    up = ours.get("trunk.blocks.0.feedforward.up.weight")
    fits = []
    for name, stock in STOCKS.items():
        if task not in stock.classes or up is None:
            continue
        try:
            config = stock.config(spec, len(up))
            theirs = stock.spec(config)
            alike = _said_alike(spec, theirs, task, len(up))
        except (InputError, KeyError):  # it has no word for one of the settings
            continue
        differs = tuple(d.path for d in theirs.diff(alike))
        fits.append(Fit(name, stock, config, theirs, differs))
    return min(fits, key=lambda fit: len(fit.differs), default=None)


def _said_alike(spec: ModelSpec, theirs: ModelSpec, task: str, hidden: int) -> ModelSpec:
    """Our spec with all that makes no difference said in their words: what a task never looks at, sizes left to a rule,
    and a bias that we lack and they have, which is zero."""
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
    """Every truth value of ours that is false and true in theirs says that there is a bias."""
    more = {f.name: True for f in dataclasses.fields(theirs) if getattr(theirs, f.name) is True}
    return _set(ours, **more)


def _set(spec: Spec, **values: Any) -> Any:
    """With those of the settings that it has."""
    return dataclasses.replace(spec, **{name: value for name, value in values.items() if hasattr(spec, name)})


def completed(ours: Weights, fit: Fit, task: str, classes: int) -> Weights:
    """With zeros for the biases that only theirs has."""
    vocab = len(ours["trunk.tokens.weight"])
    model: nn.Module
    with torch.device("meta"):  # names and shapes alone
        if task == "lm":
            model = LanguageModel(fit.spec, vocab)
        else:
            model = Classifier(fit.spec, vocab, classes) if task == "classifier" else Encoder(fit.spec, vocab)
    return {name: ours[name] if name in ours else torch.zeros(w.shape) for name, w in model.state_dict().items()}


def put(ours: Weights, names: Names) -> Weights:
    """The tensors of whole modules under their names: `take`, turned round."""
    theirs = {}
    for our_name, their_name in names.items():
        for kind in ("weight", "bias"):
            if f"{our_name}.{kind}" in ours:
                theirs[f"{their_name}.{kind}"] = ours[f"{our_name}.{kind}"]
    return theirs


def _activation(spec: ModelSpec) -> str:
    return {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}[getattr(spec.feedforward, "activation", "")]


# -- each of them ------------------------------------------------------------------------------------------------------


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
    """Texts are one segment, whose vector is zero: ours has it in the tokens."""
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
