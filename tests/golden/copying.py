"""What no product code maps, said in our words: DeBERTa-v2, T5's encoder and Bloom, to compare our parts with.

`…_spec(config)` is the ModelSpec of the same architecture. `…_weights(theirs, spec)` turns their state dict into ours;
`filled` loads it strictly, so a tensor that is forgotten or misnamed is an error. Dropout is not carried over. GPT-2,
Llama and BERT are the product's own: `headtohead.pretrained.architectures`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from torch import nn

from headtohead import (
    Alibi,
    Causal,
    Disentangled,
    Full,
    Gated,
    LayerNorm,
    Mlp,
    ModelSpec,
    PreNorm,
    RelativeBias,
    RMSNorm,
)
from headtohead.pretrained.architectures import (
    ACTIVATIONS,
    ALL_BIASES,
    NO_BIASES,
    Tensors,
    Weights,
    bert_block,
    bert_spec,
    take,
)

Model = TypeVar("Model", bound=nn.Module)


def filled(model: Model, weights: Weights) -> Model:
    """The model with these weights, all of them, ready to evaluate."""
    model.load_state_dict(weights)
    return model.eval()


def bare(theirs: nn.Module, prefix: str) -> Weights:
    """Their tensors as the product reads them."""
    return Tensors(theirs.state_dict(), prefix)


# -- DeBERTa-v2: BERT's blocks ----------------------------------------------------------------------------------------

TERMS = {
    frozenset({"c2p", "p2c"}): "both",
    frozenset({"c2p"}): "content-to-position",
    frozenset({"p2c"}): "position-to-content",
}


def deberta_spec(config: Any) -> ModelSpec:
    """Without logarithmic buckets, shared keys, absolute positions, segments or a norm of the relative embeddings."""
    terms = TERMS[frozenset(config.pos_att_type)]
    return bert_spec(config.to_dict()).set("position", Disentangled(span=config.max_relative_positions, terms=terms))


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
        names |= bert_block(f"blocks.{n}", layer)
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
