"""Hugging Face configurations and weights, said in our words: one `…_spec` and one `…_weights` an architecture.

`…_spec(config)` is the ModelSpec of the same architecture. `…_weights(theirs, spec)` turns their state dict into ours;
`filled` loads it strictly, so a tensor that is forgotten or misnamed is an error. Dropout is not carried over.

The functions read attributes of the configuration and names of tensors only: this file does not import transformers.
"""

from __future__ import annotations

from typing import Any, TypeVar

from torch import Tensor, nn

from headtohead import (
    Alibi,
    Biases,
    Causal,
    Disentangled,
    First,
    Full,
    Gated,
    HeadSpec,
    LayerNorm,
    Learned,
    Mlp,
    ModelSpec,
    PostNorm,
    PreNorm,
    RelativeBias,
    RMSNorm,
    Rope,
)

Weights = dict[str, Tensor]
Model = TypeVar("Model", bound=nn.Module)

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
}
ALL_BIASES = Biases(q=True, k=True, v=True, out=True)
NO_BIASES = Biases(q=False, k=False, v=False, out=False)


def filled(model: Model, weights: Weights) -> Model:
    """The model with these weights, all of them, ready to evaluate."""
    model.load_state_dict(weights)
    return model.eval()


def take(theirs: Weights, names: dict[str, str]) -> Weights:
    """The tensors of whole modules under our names, {ours: theirs}; a bias comes along where there is one."""
    ours = {}
    for our_name, their_name in names.items():
        ours[f"{our_name}.weight"] = theirs[f"{their_name}.weight"]
        if f"{their_name}.bias" in theirs:
            ours[f"{our_name}.bias"] = theirs[f"{their_name}.bias"]
    return ours


# -- GPT-2 ------------------------------------------------------------------------------------------------------------


def gpt2_spec(config: Any) -> ModelSpec:
    return ModelSpec(
        width=config.n_embd,
        heads=config.n_head,
        layers=config.n_layer,
        block=config.n_positions,
        biases=ALL_BIASES,
        tied=True,
        position=Learned(),
        pattern=Causal(),
        norm=LayerNorm(eps=config.layer_norm_epsilon),
        residual=PreNorm(),
        feedforward=Mlp(activation=ACTIVATIONS[config.activation_function], hidden=config.n_inner),
    )


def gpt2_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a LanguageModel. GPT-2 keeps its linear layers transposed, and q, k, v side by side in one of them."""
    ours = take(
        theirs,
        {
            "trunk.tokens": "transformer.wte",
            "trunk.position.table": "transformer.wpe",
            "trunk.last": "transformer.ln_f",
        },
    )
    for n in range(spec.layers):
        block, h = f"trunk.blocks.{n}", f"transformer.h.{n}"
        norms = {f"{block}.around_attention.norm": f"{h}.ln_1", f"{block}.around_feedforward.norm": f"{h}.ln_2"}
        ours |= take(theirs, norms)
        linear = {
            f"{block}.attention.out": f"{h}.attn.c_proj",
            f"{block}.feedforward.up": f"{h}.mlp.c_fc",
            f"{block}.feedforward.down": f"{h}.mlp.c_proj",
        }
        ours |= {name: tensor.t() for name, tensor in take(theirs, linear).items()}
        for kind, fused in take(theirs, {"qkv": f"{h}.attn.c_attn"}).items():
            for part, tensor in zip("qkv", fused.t().chunk(3), strict=True):
                ours[f"{block}.attention.{kind.replace('qkv', part)}"] = tensor
    return ours


# -- Llama ------------------------------------------------------------------------------------------------------------


def llama_spec(config: Any) -> ModelSpec:
    return ModelSpec(
        width=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_width=config.head_dim,
        layers=config.num_hidden_layers,
        block=config.max_position_embeddings,
        biases=ALL_BIASES if config.attention_bias else NO_BIASES,
        tied=config.tie_word_embeddings,
        position=Rope(theta=config.rope_parameters["rope_theta"]),
        pattern=Causal(),
        norm=RMSNorm(eps=config.rms_norm_eps),
        residual=PreNorm(),
        feedforward=Gated(
            activation=ACTIVATIONS[config.hidden_act], hidden=config.intermediate_size, bias=config.mlp_bias
        ),
    )


def llama_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a LanguageModel."""
    names = {"trunk.tokens": "model.embed_tokens", "trunk.last": "model.norm"}
    if not spec.tied:
        names["head"] = "lm_head"
    for n in range(spec.layers):
        block, layer = f"trunk.blocks.{n}", f"model.layers.{n}"
        names |= {f"{block}.attention.{part}": f"{layer}.self_attn.{part}_proj" for part in "qkv"}
        names |= {
            f"{block}.attention.out": f"{layer}.self_attn.o_proj",
            f"{block}.feedforward.gate": f"{layer}.mlp.gate_proj",
            f"{block}.feedforward.up": f"{layer}.mlp.up_proj",
            f"{block}.feedforward.down": f"{layer}.mlp.down_proj",
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.post_attention_layernorm",
        }
    return take(theirs, names)


# -- BERT and DeBERTa-v2: the same blocks -----------------------------------------------------------------------------


def bert_spec(config: Any) -> ModelSpec:
    return ModelSpec(
        width=config.hidden_size,
        heads=config.num_attention_heads,
        layers=config.num_hidden_layers,
        block=config.max_position_embeddings,
        biases=ALL_BIASES,
        position=Learned(),
        pattern=Full(),
        norm=LayerNorm(eps=config.layer_norm_eps),
        embedding_norm=LayerNorm(eps=config.layer_norm_eps),
        residual=PostNorm(),
        feedforward=Mlp(activation=ACTIVATIONS[config.hidden_act], hidden=config.intermediate_size),
        pooling=First(),
        head=HeadSpec(hidden=config.hidden_size, activation="tanh"),
    )


def bert_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a Classifier that reads one segment: the vector of segment 0 is in every token's embedding."""
    embeddings = "bert.embeddings"
    names = {
        "trunk.position.table": f"{embeddings}.position_embeddings",
        "trunk.embedding_norm": f"{embeddings}.LayerNorm",
        "head.0": "bert.pooler.dense",
        "head.2": "classifier",
    }
    for n in range(spec.layers):
        layer = f"bert.encoder.layer.{n}"
        names |= {
            f"trunk.blocks.{n}.attention.{part}": f"{layer}.attention.self.{word}"
            for part, word in {"q": "query", "k": "key", "v": "value"}.items()
        }
        names |= _bert_block(f"trunk.blocks.{n}", layer)
    tokens = theirs[f"{embeddings}.word_embeddings.weight"]
    segments = theirs[f"{embeddings}.token_type_embeddings.weight"]
    return take(theirs, names) | {"trunk.tokens.weight": tokens + segments[0]}


def _bert_block(block: str, layer: str) -> dict[str, str]:
    return {
        f"{block}.attention.out": f"{layer}.attention.output.dense",
        f"{block}.around_attention.norm": f"{layer}.attention.output.LayerNorm",
        f"{block}.feedforward.up": f"{layer}.intermediate.dense",
        f"{block}.feedforward.down": f"{layer}.output.dense",
        f"{block}.around_feedforward.norm": f"{layer}.output.LayerNorm",
    }


TERMS = {
    frozenset({"c2p", "p2c"}): "both",
    frozenset({"c2p"}): "content-to-position",
    frozenset({"p2c"}): "position-to-content",
}


def deberta_spec(config: Any) -> ModelSpec:
    """Without logarithmic buckets, shared keys, absolute positions, segments or a norm of the relative embeddings."""
    terms = TERMS[frozenset(config.pos_att_type)]
    return bert_spec(config).set("position", Disentangled(span=config.max_relative_positions, terms=terms))


def deberta_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a Trunk."""
    names = {
        "tokens": "embeddings.word_embeddings",
        "embedding_norm": "embeddings.LayerNorm",
        "position.table": "encoder.rel_embeddings",
    }
    for n in range(spec.layers):
        layer = f"encoder.layer.{n}"
        of_self = f"{layer}.attention.self"
        names |= {
            f"blocks.{n}.attention.{part}": f"{of_self}.{word}_proj"
            for part, word in {"q": "query", "k": "key", "v": "value"}.items()
        }
        if spec.position.terms != "position-to-content":
            names[f"position.keys.{n}"] = f"{of_self}.pos_key_proj"
        if spec.position.terms != "content-to-position":
            names[f"position.queries.{n}"] = f"{of_self}.pos_query_proj"
        names |= _bert_block(f"blocks.{n}", layer)
    return take(theirs, names)


# -- T5's encoder -----------------------------------------------------------------------------------------------------


def t5_spec(config: Any, block: int) -> ModelSpec:
    """T5 itself sets no longest text, so `block` is ours to say."""
    hidden, act = config.d_ff, ACTIVATIONS[config.dense_act_fn]
    gated = Gated(activation=act, hidden=hidden, bias=False)
    plain = Mlp(activation=act, hidden=hidden, bias=False)
    return ModelSpec(
        width=config.d_model,
        heads=config.num_heads,
        head_width=config.d_kv,
        layers=config.num_layers,
        block=block,
        biases=NO_BIASES,
        position=RelativeBias(
            buckets=config.relative_attention_num_buckets,
            max_distance=config.relative_attention_max_distance,
            sides="both",
            scaled=False,
        ),
        pattern=Full(),
        norm=RMSNorm(eps=config.layer_norm_epsilon),
        residual=PreNorm(),
        feedforward=gated if config.is_gated_act else plain,
    )


def t5_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a Trunk. The first layer's bias table serves all layers."""
    names = {"tokens": "shared", "last": "encoder.final_layer_norm"}
    gated = isinstance(spec.feedforward, Gated)
    for n in range(spec.layers):
        block, attend, feed = f"blocks.{n}", f"encoder.block.{n}.layer.0", f"encoder.block.{n}.layer.1"
        names |= {f"{block}.attention.{part}": f"{attend}.SelfAttention.{part}" for part in "qkv"}
        names |= {
            f"{block}.attention.out": f"{attend}.SelfAttention.o",
            f"{block}.around_attention.norm": f"{attend}.layer_norm",
            f"{block}.around_feedforward.norm": f"{feed}.layer_norm",
            f"{block}.feedforward.up": f"{feed}.DenseReluDense.{'wi_1' if gated else 'wi'}",
            f"{block}.feedforward.down": f"{feed}.DenseReluDense.wo",
        }
        if gated:
            names[f"{block}.feedforward.gate"] = f"{feed}.DenseReluDense.wi_0"
    table = theirs["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]  # (buckets, H)
    return take(theirs, names) | {"position.table": table}


# -- Bloom ------------------------------------------------------------------------------------------------------------


def bloom_spec(config: Any, block: int) -> ModelSpec:
    """Bloom itself sets no longest text, so `block` is ours to say."""
    return ModelSpec(
        width=config.hidden_size,
        heads=config.n_head,
        layers=config.n_layer,
        block=block,
        biases=ALL_BIASES,
        tied=True,
        position=Alibi(),
        pattern=Causal(),
        norm=LayerNorm(eps=config.layer_norm_epsilon),
        embedding_norm=LayerNorm(eps=config.layer_norm_epsilon),
        residual=PreNorm(),
        feedforward=Mlp(activation="gelu_tanh"),
    )


def bloom_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """For a LanguageModel. The fused projection goes head by head: q, k, v of the first, then of the second, …"""
    names = {
        "trunk.tokens": "transformer.word_embeddings",
        "trunk.embedding_norm": "transformer.word_embeddings_layernorm",
        "trunk.last": "transformer.ln_f",
    }
    ours = {}
    for n in range(spec.layers):
        block, h = f"trunk.blocks.{n}", f"transformer.h.{n}"
        names |= {
            f"{block}.attention.out": f"{h}.self_attention.dense",
            f"{block}.around_attention.norm": f"{h}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{h}.post_attention_layernorm",
            f"{block}.feedforward.up": f"{h}.mlp.dense_h_to_4h",
            f"{block}.feedforward.down": f"{h}.mlp.dense_4h_to_h",
        }
        for kind, fused in take(theirs, {"qkv": f"{h}.self_attention.query_key_value"}).items():
            by_head = fused.unflatten(0, (spec.heads, 3, -1))  # (H, 3, d) of a bias, (H, 3, d, D) of a weight
            for s, part in enumerate("qkv"):
                ours[f"{block}.attention.{kind.replace('qkv', part)}"] = by_head[:, s].flatten(0, 1)
    return take(theirs, names) | ours
