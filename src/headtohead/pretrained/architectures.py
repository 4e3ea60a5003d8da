"""Reads checkpoints of Hugging Face architectures as headtohead models: one `…_spec` and one `…_weights` each.

`…_spec(config)` returns the ModelSpec of the same architecture. Settings that headtohead cannot express are refused,
never ignored. `…_weights(theirs, spec)` renames their tensors to ours. `ours` is headtohead's side, `theirs` that of
Hugging Face. The module reads config.json and tensors by name, and does not import transformers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from headtohead.data.pretrained_checkpoints import Checkpoint, config_of
from headtohead.errors import InputError
from headtohead.model.spec import Biases, HeadSpec, ModelSpec
from headtohead.parts import Causal, First, Full, Gated, LayerNorm, Learned, Mlp, PostNorm, PreNorm, RMSNorm, Rope
from headtohead.spec import Spec

Config = dict[str, Any]
Weights = dict[str, Tensor]
Names = dict[str, str]  # names of modules, {ours: theirs}

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
    """A checkpoint as a headtohead model."""

    spec: ModelSpec
    task: Literal["lm", "classifier", "encoder"]
    weights: Weights  # named as in LanguageModel, Classifier, or a module that has only a `trunk`
    labels: tuple[str, ...]  # the classes of a classifier


class UnknownArchitecture(InputError):  # noqa: N818
    """The checkpoint has an architecture that headtohead cannot express."""


def read(checkpoint: Checkpoint, dropout: bool = False) -> Read:
    """Read the spec and the weights of a checkpoint. With `dropout`, the spec has the dropout of the checkpoint."""
    with _one_line_errors(checkpoint.name):
        kind, spec, weights = _read_model(checkpoint, dropout)
        if kind.decoder:
            _refuse_other_heads(checkpoint.config)
            return Read(spec, "lm", weights, ())
        if _is_classifier(checkpoint.config, weights):
            return Read(spec, "classifier", weights, _labels(checkpoint.config, len(weights["head.2.weight"])))
        return Read(spec, "encoder", {name: w for name, w in weights.items() if name.startswith("trunk.")}, ())


def classifier_start(checkpoint: Checkpoint, classes: int, dropout: bool = False) -> tuple[ModelSpec, Weights]:
    """Read the spec and the initial weights of a classifier that is fine-tuned from an encoder.

    The weights do not include the last layer of the head. They include the layer before it, head.0, if the checkpoint
    has one.
    """
    if classes < 2:
        raise InputError(f"a classifier needs at least two classes, not {classes}")
    with _one_line_errors(checkpoint.name):
        _refuse_decoder(architecture(checkpoint.config))
        _, spec, weights = _read_model(checkpoint, dropout)
        return spec, {name: w for name, w in weights.items() if not name.startswith("head.2.")}


def classifier_spec(name: str, dropout: bool = False) -> ModelSpec:
    """The spec that `classifier_start` returns for a checkpoint name. For `minilm` it needs no download."""
    config = config_of(name)
    with _one_line_errors(name):
        kind = architecture(config)
        _refuse_decoder(kind)
        return _spec(kind, config, dropout)


def _refuse_decoder(kind: Architecture) -> None:
    if kind.decoder:
        encoders = ", ".join(name for name, known in KNOWN.items() if not known.decoder)
        raise InputError(f"it is a language model, but a classifier needs an encoder: {encoders}")


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Turn any error of a faulty configuration into one line that names the checkpoint."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{name} cannot be imported: {error}") from None
    except KeyError as error:
        raise InputError(f"{name} cannot be imported: it lacks {error.args[0]}") from None
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{name} cannot be imported: its config.json has a wrong value ({why})") from None


def _read_model(checkpoint: Checkpoint, dropout: bool) -> tuple[Architecture, ModelSpec, Weights]:
    """The architecture, the spec, and the weights of the trunk and of the head, if there is one."""
    kind, config = architecture(checkpoint.config), checkpoint.config
    spec = _spec(kind, config, dropout)
    computed = config.get("computed") or ()  # tables that headtohead exports beside the weights
    theirs = Tensors({name: w for name, w in checkpoint.tensors().items() if name not in computed}, kind.prefix)
    if spec.layers > len(theirs):
        raise KeyError(f"the weights of {spec.layers:,} layers")
    weights = kind.weights(theirs, spec)
    if unread := theirs.unread(kind.inside):
        raise UnknownArchitecture(f"headtohead's model has no place for {unread[0]} ({len(unread)} such weights)")
    return kind, spec, {name: _as_floats(name, w) for name, w in weights.items()}


def _as_floats(name: str, w: Tensor) -> Tensor:
    if not w.is_floating_point():
        raise InputError(f"{name} is stored as {w.dtype}: get the weights as floats, not quantised")
    w = w.float().contiguous()
    if not w.isfinite().all():
        raise InputError(f"{name} contains NaN or infinity: get the weights of a model that did not diverge")
    return w


def _spec(kind: Architecture, config: Config, dropout: bool) -> ModelSpec:
    spec = kind.spec(config)
    return dataclasses.replace(spec, dropout=float(config.get(kind.dropout) or 0.0)) if dropout else spec


# -- shared by all architectures ---------------------------------------------------------------------------------------


class Tensors(dict[str, Tensor]):
    """Their tensors, without the prefix that models with a head add to the trunk, and with current names of old layers.
    It records which tensors were read."""

    def __init__(self, theirs: Weights, prefix: str) -> None:
        renamed = {name.replace(".gamma", ".weight").replace(".beta", ".bias"): w for name, w in theirs.items()}
        super().__init__({name.removeprefix(prefix): w for name, w in renamed.items()})
        self.was_read: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.was_read.add(name)
        return super().__getitem__(name)

    def unread(self, inside: tuple[str, ...]) -> list[str]:
        """Learned tensors of the trunk that were not read."""
        unread = (name for name in self if name not in self.was_read and name.startswith(inside))
        return [name for name in unread if not name.endswith(NOT_LEARNED)]


NOT_LEARNED = (
    "position_ids",
    "token_type_ids",
    ".attn.bias",
    ".attn.masked_bias",
    "inv_freq",
)  # masks, ids, computed tables


def take(theirs: Weights, names: Names) -> Weights:
    """Rename the tensors of whole modules to our names: weights, and biases if present."""
    ours = {}
    for our_name, their_name in names.items():
        ours[f"{our_name}.weight"] = theirs[f"{their_name}.weight"]
        if f"{their_name}.bias" in theirs:
            ours[f"{our_name}.bias"] = theirs[f"{their_name}.bias"]
    return ours


def _only(config: Config, **known: tuple[Any, ...]) -> None:
    """Refuse settings with other values than these; the first value is the default."""
    for name, values in known.items():
        value = config.get(name, values[0])
        if value not in values:
            raise UnknownArchitecture(f"{name}={value!r} is not supported, only {' or '.join(map(repr, values))}")


def _activation(name: Any) -> Any:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UnknownArchitecture(f"the activation {name!r} is not supported; supported: {', '.join(ACTIVATIONS)}")
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
    """Three groups of names: modules that are read unchanged; linear layers, which GPT-2 stores transposed; and the
    transposed layers that hold q, k and v side by side, under the name of our attention."""
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
    for name, w in take(theirs, fused).items():  # weight (D, 3·D), bias (3·D,)
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
    """theta of rotary positions without scaling. Newer files have it in rope_parameters, older ones at the top."""
    table: Config = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = table.get("rope_type", table.get("type", "default"))
    if kind != "default" or table.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnknownArchitecture(
            f"rotary positions with scaling '{kind}' are not supported, only those without scaling"
        )
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


# -- BERT and related architectures ------------------------------------------------------------------------------------


def bert_spec(config: Config) -> ModelSpec:
    """The spec of a classifier that reads the first token. BERT's pooler is the first layer of our head."""
    _only(config, position_embedding_type=("absolute",), is_decoder=(False,), add_cross_attention=(False,))
    _only(
        config, embedding_size=(config["hidden_size"],)
    )  # ELECTRA: a projection after the embeddings is not supported
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
    """RoBERTa starts positions at the padding id + 1, so the first rows of its position table are unused."""
    spec = bert_spec(config)
    return dataclasses.replace(spec, block=spec.block - config.get("pad_token_id", 1) - 1)


def electra_spec(config: Config) -> ModelSpec:
    return dataclasses.replace(bert_spec(config), head=HeadSpec(hidden=config["hidden_size"], activation="gelu"))


def bert_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """Weights for texts of one segment: the vector of segment 0 is added to every token embedding."""
    positions = theirs["embeddings.position_embeddings.weight"]
    return take(theirs, bert_names(spec) | _heads(theirs)) | {
        "trunk.tokens.weight": theirs["embeddings.word_embeddings.weight"]
        + theirs["embeddings.token_type_embeddings.weight"][0],
        "trunk.position.table.weight": positions[len(positions) - spec.block :],
    }


def bert_names(spec: ModelSpec) -> Names:
    """Names of the trunk without the embeddings."""
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
    """Names of one block, except queries, keys and values."""
    return {
        f"{block}.attention.out": f"{layer}.attention.output.dense",
        f"{block}.around_attention.norm": f"{layer}.attention.output.LayerNorm",
        f"{block}.feedforward.up": f"{layer}.intermediate.dense",
        f"{block}.feedforward.down": f"{layer}.output.dense",
        f"{block}.around_feedforward.norm": f"{layer}.output.LayerNorm",
    }


def _heads(theirs: Weights) -> Names:
    """Names of the layers of a classifier's head that are present. BERT's first layer is its pooler."""
    names: Names = {}
    for ours, candidates in HEADS.items():
        present = [name for name in candidates if f"{name}.weight" in theirs]
        names |= {ours: present[0]} if present else {}
    return names


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


# -- models that headtohead exported with their code -------------------------------------------------------------------


def own_spec(config: Config) -> ModelSpec:
    spec = Spec.from_json(portable(config["model"]))
    if not isinstance(spec, ModelSpec):
        raise InputError("its config.json does not contain the spec of a model")
    return dataclasses.replace(spec, dropout=0.0)


def portable(data: Any) -> Any:
    """A spec's JSON without the files of a user's parts, which do not exist elsewhere and must not be run."""
    if isinstance(data, list | tuple):
        return [portable(value) for value in data]
    if not isinstance(data, dict):
        return data
    return {name: portable(value) for name, value in data.items() if name not in ("file", "source")}


def own_weights(theirs: Weights, _spec: ModelSpec) -> Weights:
    return {name: theirs[name] for name in theirs}


# -- table of architectures --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Architecture:
    """How to read one architecture."""

    spec: Callable[[Config], ModelSpec]
    weights: Callable[[Weights, ModelSpec], Weights]
    prefix: str  # prefix of the trunk's tensors in a model with a head
    inside: tuple[str, ...]  # beginnings of the names of the trunk's tensors
    dropout: str  # name of the dropout setting
    decoder: bool = False


ENCODER = ("embeddings.", "encoder.", "transformer.")
DECODER = ("wte.", "wpe.", "h.", "ln_f.", "embed_tokens.", "layers.", "norm.")
ROBERTA = Architecture(roberta_spec, bert_weights, "roberta.", ENCODER, "hidden_dropout_prob")

KNOWN = {  # model_type → architecture
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
    """The architecture that a config.json names."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KNOWN:
        problem = f"its architecture '{kind}' is not supported" if kind else "its config.json has no model_type"
        raise UnknownArchitecture(f"{problem}; supported: {', '.join(KNOWN)}")
    return KNOWN[kind]


def _refuse_other_heads(config: Config) -> None:
    for head in config.get("architectures") or []:
        if not head.endswith(("ForCausalLM", "LMHeadModel", "Model")):
            raise UnknownArchitecture(f"the head of {head} is not supported, only that of a language model")


def _is_classifier(config: Config, weights: Weights) -> bool:
    named = " ".join(config.get("architectures") or ["SequenceClassification"])
    return "SequenceClassification" in named and {"head.0.weight", "head.2.weight"} <= weights.keys()


def _labels(config: Config, classes: int) -> tuple[str, ...]:
    named = config.get("id2label") or {str(n): f"LABEL_{n}" for n in range(classes)}
    labels = tuple(str(named[n]) for n in sorted(named, key=int))
    if classes < 2 or config.get("problem_type") not in (None, "single_label_classification"):
        raise InputError(
            "it does not assign each text to one of several classes, so headtohead cannot use it as a classifier"
        )
    if len(labels) != classes or len(set(labels)) != classes:
        raise InputError(
            f"it has {classes} classes and its config.json names {len(set(labels))}: correct id2label there"
        )
    return labels
