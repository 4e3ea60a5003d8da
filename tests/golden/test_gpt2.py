"""GPT-2: learned positions, norm first, tanh gelu, biases everywhere, tied head."""

import pytest
import torch

from headtohead import LanguageModel, ModelSpec
from headtohead.pretrained.architectures import gpt2_spec, gpt2_weights
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB = 61


@pytest.fixture(scope="module")
def theirs():
    config = transformers.GPT2Config(vocab_size=VOCAB, n_positions=24, n_embd=32, n_layer=3, n_head=4)
    return randomised(transformers.GPT2LMHeadModel(config))


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or gpt2_spec(theirs.config.to_dict())
    return filled(LanguageModel(spec, VOCAB), gpt2_weights(bare(theirs, "transformer."), spec))


def test_logits_are_equal(theirs):
    ours = ours_of(theirs)
    ids, _ = texts(VOCAB, [24, 24, 24])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


def test_logits_are_equal_with_padding_on_the_right(theirs):
    ids, keep = texts(VOCAB, [17, 9, 1])
    expected = lambda: theirs(ids, attention_mask=keep.long()).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


def test_logits_are_equal_with_padding_on_the_left(theirs):
    ids, keep = texts(VOCAB, [17, 9, 1], pad="left")
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


def test_cached_logits_are_equal(theirs):
    ours = ours_of(theirs)
    ids, keep = texts(VOCAB, [17, 9, 1], pad="left")
    cache = ours.new_cache()
    with torch.no_grad():
        expected = theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
        steps = [ours(ids[:, t : t + 1], keep[:, t : t + 1], cache=cache) for t in range(ids.shape[1])]
    assert float((torch.cat(steps, dim=1) - expected)[keep].abs().max()) <= SAME


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("feedforward.activation", "relu"),
        ("pattern", "Full"),
        ("pattern", "Causal() & Local(8)"),
        ("norm.eps", 0.1),
        ("fusion", "Shift"),
    ],
)
def test_a_changed_part_is_noticed(theirs, path, value):
    ids, _ = texts(VOCAB, [24, 24])
    other = ours_of(theirs, gpt2_spec(theirs.config.to_dict()).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
