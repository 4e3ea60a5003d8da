"""Gemma 2: softcap of scores, windows in every second layer, norms before and after sublayers, scaled embeddings."""

import pytest

from headtohead import Causal, Gated, LanguageModel, Local, ModelSpec, RMSNorm, Rope, Sandwich, Softcap
from headtohead.pretrained.architectures import NO_BIASES, Weights, take
from helpers.comparing import DIFFERENT, SAME, counted, difference, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB, WINDOW, CAP = 61, 5, 2.0  # the cap is small enough to matter for scores of random weights


def tiny(**settings):
    config = transformers.Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=10,
        max_position_embeddings=40,
        sliding_window=WINDOW,
        attn_logit_softcapping=CAP,
        final_logit_softcapping=None,
        attn_implementation="eager",  # only this one has the softcap
        **{"query_pre_attn_scalar": 10, **settings},
    )
    return randomised(transformers.Gemma2ForCausalLM(config))


def gemma2_spec(config) -> ModelSpec:
    """Their tied embeddings are scaled where they enter the model, so ours are not tied."""
    return ModelSpec(
        width=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_width=config.head_dim,
        layers=config.num_hidden_layers,
        block=config.max_position_embeddings,
        biases=NO_BIASES,
        position=Rope(theta=config.rope_parameters["rope_theta"]),
        pattern=(Causal() & Local(config.sliding_window)) + Causal(),
        scores=Softcap(cap=config.attn_logit_softcapping),
        norm=RMSNorm(eps=config.rms_norm_eps),
        residual=Sandwich(),
        feedforward=Gated(activation="gelu_tanh", hidden=config.intermediate_size, bias=False),
    )


def gemma2_weights(theirs: Weights, config) -> Weights:
    names, norms = {"trunk.tokens": "embed_tokens", "head": "embed_tokens"}, {"trunk.last": "norm"}
    for n in range(config.num_hidden_layers):
        block, layer = f"trunk.blocks.{n}", f"layers.{n}"
        names |= {f"{block}.attention.{part}": f"{layer}.self_attn.{part}_proj" for part in "qkv"}
        names |= {
            f"{block}.attention.out": f"{layer}.self_attn.o_proj",
            f"{block}.feedforward.gate": f"{layer}.mlp.gate_proj",
            f"{block}.feedforward.up": f"{layer}.mlp.up_proj",
            f"{block}.feedforward.down": f"{layer}.mlp.down_proj",
        }
        norms |= {
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_attention.norm_after": f"{layer}.post_attention_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.pre_feedforward_layernorm",
            f"{block}.around_feedforward.norm_after": f"{layer}.post_feedforward_layernorm",
        }
    ours = take(theirs, names)
    ours["trunk.tokens.weight"] = ours["trunk.tokens.weight"] * config.hidden_size**0.5
    scale = (config.head_dim / config.query_pre_attn_scalar) ** 0.5
    ours |= {name: w * scale for name, w in ours.items() if name.endswith("attention.q.weight")}
    return ours | {name: 1 + gain for name, gain in take(theirs, norms).items()}  # their gains are centred at zero


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or gemma2_spec(theirs.config)
    return filled(LanguageModel(spec, VOCAB), gemma2_weights(bare(theirs, "model."), theirs.config))


@pytest.mark.parametrize("settings", [{}, {"query_pre_attn_scalar": 3}], ids=["scale of a head", "another scale"])
def test_logits_are_equal(settings):
    theirs = tiny(**settings)
    ids, _ = texts(VOCAB, [40, 40])
    # logits are of the order of ten here, because embeddings are scaled
    assert difference(ours_of(theirs), lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs = tiny()
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("scores.cap", 4.0),
        ("scores", "PlainScores"),
        ("pattern", "Causal"),
        ("pattern", "Causal + (Causal & Local(5))"),
        ("pattern", "(Causal & Local(6)) + Causal"),
    ],
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny()
    ids, _ = texts(VOCAB, [40, 40])
    other = ours_of(theirs, gemma2_spec(theirs.config).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
