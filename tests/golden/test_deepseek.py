"""DeepSeek-V3 without experts: keys and values from a small vector, rotary part shared by the heads."""

import pytest
import torch

from headtohead import Gated, LanguageModel, Latent, ModelSpec, RMSNorm, Rope
from headtohead.pretrained.architectures import NO_BIASES, Weights, take
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB, ROTATED, CONTENT, WIDTH = 61, 4, 8, 12


def tiny(**settings):
    config = transformers.DeepseekV3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        first_k_dense_replace=3,  # no layer has experts
        num_attention_heads=4,
        num_key_value_heads=4,
        kv_lora_rank=WIDTH,
        qk_rope_head_dim=ROTATED,
        qk_nope_head_dim=CONTENT,
        v_head_dim=CONTENT,
        max_position_embeddings=40,
        **{"q_lora_rank": 10, **settings},
    )
    return randomised(transformers.DeepseekV3ForCausalLM(config))


def deepseek_spec(config) -> ModelSpec:
    return ModelSpec(
        width=config.hidden_size,
        heads=config.num_attention_heads,
        head_width=config.v_head_dim,
        layers=config.num_hidden_layers,
        block=config.max_position_embeddings,
        biases=NO_BIASES.set("q", config.attention_bias)
        .set("k", config.attention_bias)
        .set("out", config.attention_bias),
        mixer=Latent(
            width=config.kv_lora_rank,
            rotated=config.qk_rope_head_dim,
            query_width=config.q_lora_rank,
            norm=RMSNorm(eps=1e-6),
        ),
        position=Rope(theta=config.rope_parameters["rope_theta"]),
        norm=RMSNorm(eps=config.rms_norm_eps),
        feedforward=Gated(activation="silu", hidden=config.intermediate_size, bias=False),
    )


def deepseek_weights(theirs: Weights, spec: ModelSpec, interleaved: bool) -> Weights:
    names = {"trunk.tokens": "embed_tokens", "trunk.last": "norm", "head": "lm_head"}
    for n in range(spec.layers):
        block, layer = f"trunk.blocks.{n}", f"layers.{n}"
        attention, theirs_attention = f"{block}.attention", f"{layer}.self_attn"
        if spec.mixer.query_width:
            names |= {
                f"{attention}.q_down": f"{theirs_attention}.q_a_proj",
                f"{attention}.q_norm": f"{theirs_attention}.q_a_layernorm",
            }
        names |= {
            f"{attention}.q": f"{theirs_attention}.{'q_b_proj' if spec.mixer.query_width else 'q_proj'}",
            f"{attention}.down": f"{theirs_attention}.kv_a_proj_with_mqa",
            f"{attention}.norm": f"{theirs_attention}.kv_a_layernorm",
            f"{attention}.up": f"{theirs_attention}.kv_b_proj",
            f"{attention}.out": f"{theirs_attention}.o_proj",
            f"{block}.feedforward.gate": f"{layer}.mlp.gate_proj",
            f"{block}.feedforward.up": f"{layer}.mlp.up_proj",
            f"{block}.feedforward.down": f"{layer}.mlp.down_proj",
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.post_attention_layernorm",
        }
    ours = take(theirs, names)
    if interleaved:  # their pairs stand side by side, ours half a part away
        order = torch.arange(ROTATED).view(-1, 2).T.flatten()
        for name, w in ours.items():
            if name.endswith("attention.q.weight"):
                w = w.unflatten(0, (spec.heads, -1)).clone()
                w[:, CONTENT:] = w[:, CONTENT + order]
                ours[name] = w.flatten(0, 1)
            elif ".attention.down." in name:
                ours[name] = torch.cat([w[:WIDTH], w[WIDTH + order]])
    return ours


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or deepseek_spec(theirs.config)
    weights = deepseek_weights(bare(theirs, "model."), spec, theirs.config.rope_interleave)
    return filled(LanguageModel(spec, VOCAB), weights)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="as published"),
        pytest.param({"q_lora_rank": None}, id="queries from the input"),
        pytest.param({"rope_interleave": False}, id="pairs half a part away"),
        pytest.param({"attention_bias": True}, id="biases"),
    ],
)
def test_logits_are_equal(settings):
    theirs = tiny(**settings)
    ours = ours_of(theirs)
    ids, _ = texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs = tiny()
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


@torch.no_grad()
def test_generation_from_the_small_vectors_gives_the_same_logits():
    theirs = tiny()
    ours, (ids, _) = ours_of(theirs), texts(VOCAB, [40, 40])
    cache = ours.new_cache()
    out = torch.cat(
        [ours(ids[:, a:b], cache=cache) for a, b in [(0, 5), (5, 6), (6, 20), *((n, n + 1) for n in range(20, 40))]],
        dim=1,
    )
    assert (out - theirs(ids).logits).abs().max() <= SAME
    assert cache.bytes == 3 * 2 * 40 * (WIDTH + ROTATED) * 4, "only small vectors and rotated parts are kept"


@pytest.mark.parametrize(
    ("path", "value"), [("position.theta", 5_000.0), ("position", "NoPosition"), ("mixer.norm", "RMSNorm(eps=0.1)")]
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny()
    ids, _ = texts(VOCAB, [40, 40])
    other = ours_of(theirs, deepseek_spec(theirs.config).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
