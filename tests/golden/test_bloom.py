"""Bloom: ALiBi, a norm on the embeddings, q, k and v fused head by head, tanh gelu, tied head."""

import pytest

from headtohead import LanguageModel, ModelSpec
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import bloom_spec, bloom_weights, filled

transformers = pytest.importorskip("transformers")

VOCAB, BLOCK = 61, 40


def tiny(heads: int):
    config = transformers.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=3, n_head=heads)
    return randomised(transformers.BloomForCausalLM(config))


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or bloom_spec(theirs.config, BLOCK)
    return filled(LanguageModel(spec, VOCAB), bloom_weights(theirs.state_dict(), spec))


@pytest.mark.parametrize("heads", [1, 2, 4, 16])
def test_logits_are_equal(heads):
    theirs = tiny(heads)
    ours = ours_of(theirs)
    ids, _ = texts(VOCAB, [BLOCK, BLOCK])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs = tiny(heads=4)
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long()).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    ("path", "value"), [("position.slope", 1.0), ("position", "NoPosition"), ("feedforward.activation", "relu")]
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny(heads=4)
    ids, _ = texts(VOCAB, [BLOCK, BLOCK])
    other = ours_of(theirs, bloom_spec(theirs.config, BLOCK).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
