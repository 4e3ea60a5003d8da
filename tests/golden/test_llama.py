"""Llama: rotary positions, RMSNorm, gated silu, no biases, untied head, fewer key and value heads than query heads."""

import pytest

from headtohead import LanguageModel, ModelSpec
from headtohead.pretrained.architectures import llama_spec, llama_weights
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB = 61


def tiny(kv_heads: int, **settings):
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=40,
        **settings,
    )
    return randomised(transformers.LlamaForCausalLM(config))


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or llama_spec(theirs.config.to_dict())
    return filled(LanguageModel(spec, VOCAB), llama_weights(bare(theirs, "model."), spec))


@pytest.mark.parametrize(
    ("kv_heads", "settings"),
    [
        pytest.param(4, {}, id="multi-head"),
        pytest.param(2, {}, id="grouped-query"),
        pytest.param(1, {}, id="multi-query"),
        pytest.param(2, {"head_dim": 10}, id="heads wider than their share"),
        pytest.param(2, {"attention_bias": True, "mlp_bias": True}, id="biases"),
        pytest.param(2, {"tie_word_embeddings": True}, id="tied"),
    ],
)
def test_logits_are_equal(kv_heads, settings):
    theirs = tiny(kv_heads, **settings)
    ours = ours_of(theirs)
    ids, _ = texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs = tiny(kv_heads=2)
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("position.theta", 5_000.0),
        ("position.fraction", 0.5),
        ("position", "NoPosition"),
        ("feedforward.activation", "gelu"),
        ("norm.eps", 0.1),
    ],
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny(kv_heads=2)
    ids, _ = texts(VOCAB, [40, 40])
    other = ours_of(theirs, llama_spec(theirs.config.to_dict()).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
