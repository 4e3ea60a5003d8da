"""Parallel blocks: Phi has one norm for both sublayers, GPT-NeoX one each."""

import pytest

from headtohead import LanguageModel, LayerNorm, Mlp, ModelSpec, Parallel, PreNorm, Rope
from headtohead.pretrained.architectures import ALL_BIASES, take
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB = 61
SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 40}


def spec_of(residual, activation: str, head_bias: bool, fraction: float) -> ModelSpec:
    return ModelSpec(
        width=32,
        heads=4,
        layers=3,
        block=40,
        biases=ALL_BIASES,
        head_bias=head_bias,
        position=Rope(fraction=fraction),
        norm=LayerNorm(eps=1e-5),
        residual=residual,
        feedforward=Mlp(activation=activation, hidden=48),
    )


PHI = spec_of(Parallel(), "gelu_tanh", True, 0.5)
NEOX = spec_of(Parallel(shared=False), "gelu", False, 0.5)


def phi():
    theirs = randomised(transformers.PhiForCausalLM(transformers.PhiConfig(**SIZES)))
    names = {"trunk.tokens": "embed_tokens", "trunk.last": "final_layernorm", "head": "lm_head"}
    for n in range(3):
        block, layer = f"trunk.blocks.{n}", f"layers.{n}"
        names |= {f"{block}.attention.{part}": f"{layer}.self_attn.{part}_proj" for part in "qkv"}
        names |= {
            f"{block}.attention.out": f"{layer}.self_attn.dense",
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.feedforward.up": f"{layer}.mlp.fc1",
            f"{block}.feedforward.down": f"{layer}.mlp.fc2",
        }
    return theirs, take(bare(theirs, "model."), names)


def neox():
    rotary = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    config = transformers.GPTNeoXConfig(**SIZES, rope_parameters=rotary)
    theirs = randomised(transformers.GPTNeoXForCausalLM(config))
    weights = bare(theirs, "gpt_neox.")
    names = {"trunk.tokens": "embed_in", "trunk.last": "final_layer_norm", "head": "lm_head"}
    ours = {}
    for n in range(3):
        block, layer = f"trunk.blocks.{n}", f"layers.{n}"
        names |= {
            f"{block}.attention.out": f"{layer}.attention.dense",
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.post_attention_layernorm",
            f"{block}.feedforward.up": f"{layer}.mlp.dense_h_to_4h",
            f"{block}.feedforward.down": f"{layer}.mlp.dense_4h_to_h",
        }
        for kind, fused in take(weights, {"qkv": f"{layer}.attention.query_key_value"}).items():
            by_head = fused.unflatten(0, (4, 3, -1))  # of each head q, k and v
            for s, part in enumerate("qkv"):
                ours[f"{block}.attention.{kind.replace('qkv', part)}"] = by_head[:, s].flatten(0, 1)
    return theirs, take(weights, names) | ours


@pytest.mark.parametrize(("tiny", "spec"), [(phi, PHI), (neox, NEOX)], ids=["Phi", "GPT-NeoX"])
def test_logits_are_equal(tiny, spec):
    theirs, weights = tiny()
    ours = filled(LanguageModel(spec, VOCAB), weights)
    ids, _ = texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


def test_one_sublayer_after_the_other_is_noticed():
    theirs, weights = neox()
    ids, _ = texts(VOCAB, [40, 40])
    other = filled(LanguageModel(NEOX.set("residual", PreNorm()), VOCAB), weights)
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
