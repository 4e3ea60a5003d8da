"""Architectures of Hugging Face, said in our words: one `…_spec` and one `…_weights` each, and a table of all of them.

`…_spec(config)` is the ModelSpec of the same architecture; what has no word here is refused, never left out.
`…_weights(theirs, spec)` gives their tensors our names. Configurations are read as config.json has them and tensors by
their names, so nothing here imports transformers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from headtohead.attention import Biases
from headtohead.data.checkpoints import Checkpoint, config_of
from headtohead.errors import InputError
from headtohead.model import HeadSpec, ModelSpec
from headtohead.parts import Causal, First, Full, Gated, LayerNorm, Learned, Mlp, PostNorm, PreNorm, RMSNorm, Rope
from headtohead.spec import Spec

Config = dict[str, Any]
Weights = dict[str, Tensor]
Names = dict[str, str]  # of whole modules, {ours: theirs}

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
ALL_BIASES = Biases(q=True, k=True, v=True, out=True)
NO_BIASES = Biases(q=False, k=False, v=False, out=False)


@dataclass(frozen=True)
class Read:
    """A checkpoint in our words."""

    spec: ModelSpec
    task: Literal["lm", "classifier", "encoder"]
    weights: Weights  # as a LanguageModel, a Classifier, or a module with nothing but a `trunk` has them
    labels: tuple[str, ...]  # of a classifier


class UnknownArchitecture(InputError):  # noqa: N818
    """A checkpoint may be sound, and its architecture still have no words here."""


def read(checkpoint: Checkpoint, dropout: bool = False) -> Read:
    """The spec and the weights of a checkpoint; with its own dropout where it is to be trained on."""
    with _in_a_line(checkpoint.name):
        kind, spec, weights = _everything(checkpoint, dropout)
        if kind.decoder:
            _refuse_other_heads(checkpoint.config)
            return Read(spec, "lm", weights, ())
        if _is_classifier(checkpoint.config, weights):
            return Read(spec, "classifier", weights, _labels(checkpoint.config, len(weights["head.2.weight"])))
        return Read(spec, "encoder", {name: w for name, w in weights.items() if name.startswith("trunk.")}, ())


def classifier_start(checkpoint: Checkpoint, classes: int, dropout: bool = False) -> tuple[ModelSpec, Weights]:
    """What a classifier begins with that is trained on top of an encoder: its spec, and every weight but the last
    layer's. The layer before it, head.0, comes along where the checkpoint has one."""
    if classes < 2:
        raise InputError(f"a classifier needs two classes, not {classes}")
    with _in_a_line(checkpoint.name):
        _refuse_decoder(architecture(checkpoint.config))
        _, spec, weights = _everything(checkpoint, dropout)
        return spec, {name: w for name, w in weights.items() if not name.startswith("head.2.")}


def classifier_spec(name: str, dropout: bool = False) -> ModelSpec:
    """The spec that `classifier_start` has of the checkpoint of this name; of `minilm` without having it."""
    config = config_of(name)
    with _in_a_line(name):
        kind = architecture(config)
        _refuse_decoder(kind)
        return _spec(kind, config, dropout)


def _refuse_decoder(kind: Architecture) -> None:
    if kind.decoder:
        encoders = ", ".join(name for name, known in KNOWN.items() if not known.decoder)
        raise InputError(f"it is a language model, and a classifier begins with an encoder: {encoders}")


@contextmanager
def _in_a_line(name: str) -> Iterator[None]:
    """Whatever a configuration may hold, what is wrong with it is said of the checkpoint."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{name} cannot be imported: {error}") from None
    except KeyError as error:
        raise InputError(f"{name} cannot be imported: it lacks {error.args[0]}") from None
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{name} cannot be imported: its config.json is not sound ({why})") from None


def _everything(checkpoint: Checkpoint, dropout: bool) -> tuple[Architecture, ModelSpec, Weights]:
    """The spec, and the weights of the trunk and of whatever head there is."""
    kind, config = architecture(checkpoint.config), checkpoint.config
    spec = _spec(kind, config, dropout)
    computed = config.get("computed") or ()  # tables that our own exports hold beside the weights
    theirs = Tensors({name: w for name, w in checkpoint.tensors().items() if name not in computed}, kind.prefix)
    if spec.layers > len(theirs):
        raise KeyError(f"the weights of {spec.layers:,} layers")
    weights = kind.weights(theirs, spec)
    if left := theirs.unread(kind.inside):
        raise UnknownArchitecture(f"our model has no place for {left[0]} ({len(left)} such weights)")
    return kind, spec, {name: _as_floats(name, w) for name, w in weights.items()}


def _as_floats(name: str, w: Tensor) -> Tensor:
    if not w.is_floating_point():
        raise InputError(f"{name} is stored as {w.dtype}: have the weights again, not quantised")
    w = w.float().contiguous()
    if not w.isfinite().all():
        raise InputError(f"{name} holds NaN or infinity: have the weights again, of a model that did not diverge")
    return w


def _spec(kind: Architecture, config: Config, dropout: bool) -> ModelSpec:
    spec = kind.spec(config)
    return dataclasses.replace(spec, dropout=float(config.get(kind.dropout) or 0.0)) if dropout else spec


# -- what all of them share --------------------------------------------------------------------------------------------


class Tensors(dict[str, Tensor]):
    """Their tensors without the prefix that a model with a head puts before its trunk's, and under today's names; which
    of them were read is noted."""

    def __init__(self, theirs: Weights, prefix: str) -> None:
        renamed = {name.replace(".gamma", ".weight").replace(".beta", ".bias"): w for name, w in theirs.items()}
        super().__init__({name.removeprefix(prefix): w for name, w in renamed.items()})
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.seen.add(name)
        return super().__getitem__(name)

    def unread(self, inside: tuple[str, ...]) -> list[str]:
        """Learned tensors of the trunk that nobody asked for."""
        left = (name for name in self if name not in self.seen and name.startswith(inside))
        return [name for name in left if not name.endswith(NOT_LEARNED)]


NOT_LEARNED = ("position_ids", "token_type_ids", ".attn.bias", ".attn.masked_bias", "inv_freq")  # masks and the like


def take(theirs: Weights, names: Names) -> Weights:
    """The tensors of whole modules under our names; a bias comes along where there is one."""
    ours = {}
    for our_name, their_name in names.items():
        ours[f"{our_name}.weight"] = theirs[f"{their_name}.weight"]
        if f"{their_name}.bias" in theirs:
            ours[f"{our_name}.bias"] = theirs[f"{their_name}.bias"]
    return ours


def _only(config: Config, **known: tuple[Any, ...]) -> None:
    """Refuse a setting that changes what is computed in a way that has no word here; the first is the usual value."""
    for name, values in known.items():
        value = config.get(name, values[0])
        if value not in values:
            raise UnknownArchitecture(f"{name}={value!r} is not known here, only {' or '.join(map(repr, values))}")


def _activation(name: Any) -> Any:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UnknownArchitecture(f"the activation {name!r} is not known here: known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


# -- GPT-2 -------------------------------------------------------------------------------------------------------------


def gpt2_spec(config: Config) -> ModelSpec:
    _only(
        config,
        add_cross_attention=(False,),
        scale_attn_weights=(True,),
        scale_attn_by_inverse_layer_idx=(False,),
    )
    return ModelSpec(
        width=config["n_embd"],
        heads=config["n_head"],
        layers=config["n_layer"],
        block=config["n_positions"],
        biases=ALL_BIASES,
        tied=config.get("tie_word_embeddings", True),
        position=Learned(),
        pattern=Causal(),
        norm=LayerNorm(eps=config.get("layer_norm_epsilon", 1e-5)),
        residual=PreNorm(),
        feedforward=Mlp(
            activation=_activation(config.get("activation_function", "gelu_new")),
            hidden=config.get("n_inner") or 4 * config["n_embd"],
        ),
    )


def gpt2_names(spec: ModelSpec) -> tuple[Names, Names, Names]:
    """Modules as they are; linear layers, which GPT-2 keeps transposed; and q, k, v side by side in one of those, under
    the name of our attention."""
    plain = {"trunk.tokens": "wte", "trunk.position.table": "wpe", "trunk.last": "ln_f"}
    plain |= {} if spec.tied else {"head": "lm_head"}
    transposed: Names = {}
    fused: Names = {}
    for n in range(spec.layers):
        block, h = f"trunk.blocks.{n}", f"h.{n}"
        plain |= {f"{block}.around_attention.norm": f"{h}.ln_1", f"{block}.around_feedforward.norm": f"{h}.ln_2"}
        transposed |= {
            f"{block}.attention.out": f"{h}.attn.c_proj",
            f"{block}.feedforward.up": f"{h}.mlp.c_fc",
            f"{block}.feedforward.down": f"{h}.mlp.c_proj",
        }
        fused[f"{block}.attention"] = f"{h}.attn.c_attn"
    return plain, transposed, fused


def gpt2_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    plain, transposed, fused = gpt2_names(spec)
    ours = take(theirs, plain) | {name: w.t() for name, w in take(theirs, transposed).items()}
    for name, w in take(theirs, fused).items():  # (D, 3·D), or (3·D,) of a bias
        attention, _, kind = name.rpartition(".")
        ours |= {f"{attention}.{part}.{kind}": x for part, x in zip("qkv", w.t().chunk(3), strict=True)}
    return ours


# -- Llama -------------------------------------------------------------------------------------------------------------


def llama_spec(config: Config) -> ModelSpec:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    bias = config.get("mlp_bias", False)
    return ModelSpec(
        width=width,
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_width=config.get("head_dim") or width // heads,
        layers=config["num_hidden_layers"],
        block=config["max_position_embeddings"],
        biases=ALL_BIASES if config.get("attention_bias") else NO_BIASES,
        tied=config.get("tie_word_embeddings", False),
        position=Rope(theta=_theta(config)),
        pattern=Causal(),
        norm=RMSNorm(eps=config.get("rms_norm_eps", 1e-6)),
        residual=PreNorm(),
        feedforward=Gated(
            activation=_activation(config.get("hidden_act", "silu")), hidden=config["intermediate_size"], bias=bias
        ),
    )


def _theta(config: Config) -> float:
    """Of rotary positions without scaling; older files have it beside the scaling, newer ones in one table with it."""
    table: Config = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = table.get("rope_type", table.get("type", "default"))
    if kind != "default" or table.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnknownArchitecture(f"rotary positions scaled as '{kind}' are not known here, only plain ones")
    theta: Any = table.get("rope_theta", config.get("rope_theta", 10_000.0))
    return float(theta)


def llama_names(spec: ModelSpec) -> Names:
    names = {"trunk.tokens": "embed_tokens", "trunk.last": "norm"}
    names |= {} if spec.tied else {"head": "lm_head"}
    for n in range(spec.layers):
        block, layer = f"trunk.blocks.{n}", f"layers.{n}"
        names |= {f"{block}.attention.{part}": f"{layer}.self_attn.{part}_proj" for part in "qkv"}
        names |= {
            f"{block}.attention.out": f"{layer}.self_attn.o_proj",
            f"{block}.feedforward.gate": f"{layer}.mlp.gate_proj",
            f"{block}.feedforward.up": f"{layer}.mlp.up_proj",
            f"{block}.feedforward.down": f"{layer}.mlp.down_proj",
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.post_attention_layernorm",
        }
    return names


def llama_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    return take(theirs, llama_names(spec))


# -- BERT and its kin: the same blocks ---------------------------------------------------------------------------------


def bert_spec(config: Config) -> ModelSpec:
    """For a classifier that reads the first token: BERT's pooler is our head's first layer."""
    _only(config, position_embedding_type=("absolute",), is_decoder=(False,), add_cross_attention=(False,))
    _only(config, embedding_size=(config["hidden_size"],))  # of ELECTRA: no projection after the embeddings
    norm = LayerNorm(eps=config.get("layer_norm_eps", 1e-12))
    return ModelSpec(
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        block=config["max_position_embeddings"],
        biases=ALL_BIASES,
        position=Learned(),
        pattern=Full(),
        norm=norm,
        embedding_norm=norm,
        residual=PostNorm(),
        feedforward=Mlp(activation=_activation(config.get("hidden_act", "gelu")), hidden=config["intermediate_size"]),
        pooling=First(),
        head=HeadSpec(hidden=config["hidden_size"], activation="tanh"),
    )


def roberta_spec(config: Config) -> ModelSpec:
    """RoBERTa counts positions from one after the padding's id, so the first rows of its table are never used."""
    spec = bert_spec(config)
    return dataclasses.replace(spec, block=spec.block - config.get("pad_token_id", 1) - 1)


def electra_spec(config: Config) -> ModelSpec:
    return dataclasses.replace(bert_spec(config), head=HeadSpec(hidden=config["hidden_size"], activation="gelu"))


def bert_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """Of a text that is one segment: the vector of segment 0 is in every token's embedding."""
    places = theirs["embeddings.position_embeddings.weight"]
    return take(theirs, bert_names(spec) | _heads(theirs)) | {
        "trunk.tokens.weight": theirs["embeddings.word_embeddings.weight"]
        + theirs["embeddings.token_type_embeddings.weight"][0],
        "trunk.position.table.weight": places[len(places) - spec.block :],
    }


def bert_names(spec: ModelSpec) -> Names:
    """Of the trunk but for the embeddings."""
    names = {"trunk.embedding_norm": "embeddings.LayerNorm"}
    for n in range(spec.layers):
        block, layer = f"trunk.blocks.{n}", f"encoder.layer.{n}"
        names |= {
            f"{block}.attention.{part}": f"{layer}.attention.self.{word}"
            for part, word in {"q": "query", "k": "key", "v": "value"}.items()
        }
        names |= bert_block(block, layer)
    return names


def bert_block(block: str, layer: str) -> Names:
    return {
        f"{block}.attention.out": f"{layer}.attention.output.dense",
        f"{block}.around_attention.norm": f"{layer}.attention.output.LayerNorm",
        f"{block}.feedforward.up": f"{layer}.intermediate.dense",
        f"{block}.feedforward.down": f"{layer}.output.dense",
        f"{block}.around_feedforward.norm": f"{layer}.output.LayerNorm",
    }


def _heads(theirs: Weights) -> Names:
    """Whatever layers of a classifier's head there are: RoBERTa and ELECTRA have two, DistilBERT too, BERT a pooler."""
    found: Names = {}
    for ours, known in HEADS.items():
        there = [name for name in known if f"{name}.weight" in theirs]
        found |= {ours: there[0]} if there else {}
    return found


HEADS = {
    "head.0": ("classifier.dense", "pre_classifier", "pooler.dense"),
    "head.2": ("classifier.out_proj", "classifier"),
}


def distilbert_spec(config: Config) -> ModelSpec:
    spec = bert_spec(
        {
            "hidden_size": config["dim"],
            "num_attention_heads": config["n_heads"],
            "num_hidden_layers": config["n_layers"],
            "max_position_embeddings": config["max_position_embeddings"],
            "intermediate_size": config["hidden_dim"],
            "hidden_act": config.get("activation", "gelu"),
        }
    )
    return dataclasses.replace(spec, head=HeadSpec(hidden=spec.width, activation="relu"))


def distilbert_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    names = {
        "trunk.tokens": "embeddings.word_embeddings",
        "trunk.position.table": "embeddings.position_embeddings",
        "trunk.embedding_norm": "embeddings.LayerNorm",
    }
    for n in range(spec.layers):
        block, layer = f"trunk.blocks.{n}", f"transformer.layer.{n}"
        names |= {f"{block}.attention.{part}": f"{layer}.attention.{part}_lin" for part in ("q", "k", "v", "out")}
        names |= {
            f"{block}.around_attention.norm": f"{layer}.sa_layer_norm",
            f"{block}.feedforward.up": f"{layer}.ffn.lin1",
            f"{block}.feedforward.down": f"{layer}.ffn.lin2",
            f"{block}.around_feedforward.norm": f"{layer}.output_layer_norm",
        }
    return take(theirs, names | _heads(theirs))


# -- our own, exported with code of its own ----------------------------------------------------------------------------


def own_spec(config: Config) -> ModelSpec:
    spec = Spec.from_json(portable(config["model"]))
    if not isinstance(spec, ModelSpec):
        raise InputError("its config.json does not hold the spec of a model")
    return dataclasses.replace(spec, dropout=0.0)


def portable(said: Any) -> Any:
    """A spec's JSON without the files of a user's parts: they lie elsewhere, and are not ours to run."""
    if not isinstance(said, dict):
        return said
    return {name: portable(value) for name, value in said.items() if name not in ("file", "source")}


def own_weights(theirs: Weights, _spec: ModelSpec) -> Weights:
    return {name: theirs[name] for name in theirs}


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Architecture:
    spec: Callable[[Config], ModelSpec]
    weights: Callable[[Weights, ModelSpec], Weights]
    prefix: str  # of the trunk's tensors, in a model with a head
    inside: tuple[str, ...]  # how the names of the trunk's own tensors begin
    dropout: str  # where the configuration has it
    decoder: bool = False


ENCODER = ("embeddings.", "encoder.", "transformer.")
DECODER = ("wte.", "wpe.", "h.", "ln_f.", "embed_tokens.", "layers.", "norm.")
ROBERTA = Architecture(roberta_spec, bert_weights, "roberta.", ENCODER, "hidden_dropout_prob")

KNOWN = {  # by model_type
    "gpt2": Architecture(gpt2_spec, gpt2_weights, "transformer.", DECODER, "resid_pdrop", decoder=True),
    "llama": Architecture(llama_spec, llama_weights, "model.", DECODER, "attention_dropout", decoder=True),
    "bert": Architecture(bert_spec, bert_weights, "bert.", ENCODER, "hidden_dropout_prob"),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": Architecture(distilbert_spec, distilbert_weights, "distilbert.", ENCODER, "dropout"),
    "electra": Architecture(electra_spec, bert_weights, "electra.", ENCODER, "hidden_dropout_prob"),
    "headtohead_lm": Architecture(own_spec, own_weights, "", (), "dropout", decoder=True),
    "headtohead_classifier": Architecture(own_spec, own_weights, "", (), "dropout"),
}


def architecture(config: Config) -> Architecture:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KNOWN:
        said = f"its architecture '{kind}' is not known here" if kind else "its config.json has no model_type"
        raise UnknownArchitecture(f"{said}: known are {', '.join(KNOWN)}")
    return KNOWN[kind]


def _refuse_other_heads(config: Config) -> None:
    for head in config.get("architectures") or []:
        if not head.endswith(("ForCausalLM", "LMHeadModel", "Model")):
            raise UnknownArchitecture(f"{head} has a head that is not known here")


def _is_classifier(config: Config, weights: Weights) -> bool:
    named = " ".join(config.get("architectures") or ["SequenceClassification"])
    return "SequenceClassification" in named and {"head.0.weight", "head.2.weight"} <= weights.keys()


def _labels(config: Config, classes: int) -> tuple[str, ...]:
    named = config.get("id2label") or {str(n): f"LABEL_{n}" for n in range(classes)}
    labels = tuple(str(named[n]) for n in sorted(named, key=int))
    if classes < 2 or config.get("problem_type") not in (None, "single_label_classification"):
        raise InputError("it gives no probabilities of classes that exclude each other, so it is no classifier here")
    if len(labels) != classes or len(set(labels)) != classes:
        raise InputError(f"it has {classes} classes and its config.json names {len(set(labels))}: mend its id2label")
    return labels
