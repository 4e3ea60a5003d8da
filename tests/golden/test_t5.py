"""T5's encoder: bucketed relative biases, scores not divided by sqrt(d), RMSNorm, no biases; and every bucket."""

import pytest
import torch

from headtohead import Dims, ModelSpec, RelativeBias, Trunk
from headtohead.model.init import Seeded
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import filled, t5_spec, t5_weights

transformers = pytest.importorskip("transformers")

VOCAB, BLOCK = 61, 60


def tiny(**settings):
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=32,
        d_kv=6,  # 4 · 6 is not the width: T5 allows it, and so must we
        d_ff=48,
        num_layers=3,
        num_heads=4,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=40,
        **settings,
    )
    return randomised(transformers.T5EncoderModel(config))


def ours_of(theirs, spec: ModelSpec | None = None) -> Trunk:
    spec = spec or t5_spec(theirs.config, BLOCK)
    return filled(Trunk(spec, VOCAB, Seeded(0)), t5_weights(theirs.state_dict(), spec))


@pytest.mark.parametrize("feedforward", ["relu", "gated-gelu"])
@pytest.mark.parametrize("lengths", [[BLOCK, BLOCK], [BLOCK, 25, 3]], ids=["full", "padded"])
def test_hidden_states_are_equal(feedforward, lengths):
    theirs = tiny(feed_forward_proj=feedforward)
    ours = ours_of(theirs)
    ids, keep = texts(VOCAB, lengths)
    expected = lambda: theirs(ids, attention_mask=keep.long()).last_hidden_state
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    ("path", "value"), [("position.max_distance", 30), ("position.sides", "past"), ("position.scaled", True)]
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny()
    ids, keep = texts(VOCAB, [BLOCK, BLOCK])
    other = ours_of(theirs, t5_spec(theirs.config, BLOCK).set(path, value))
    assert difference(other, lambda: theirs(ids).last_hidden_state, ids, keep) > DIFFERENT


@pytest.mark.parametrize("sides", ["both", "past"])
@pytest.mark.parametrize(
    ("buckets", "max_distance"),
    [(32, 128), (16, 40), (8, 20), (4, 3), (10, 50), (64, 256), (6, 1000), (12, 7), (32, 17)],
)
def test_every_offset_has_the_bucket_of_t5(sides, buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    hooks = RelativeBias(buckets=buckets, max_distance=max_distance, sides=sides).build(
        Dims(width=4, heads=1, head_width=4, layers=1, block=8)
    )
    offset = torch.arange(-300, 301)  # i − j; theirs is j − i
    expected = T5Attention._relative_position_bucket(
        -offset, bidirectional=sides == "both", num_buckets=buckets, max_distance=max_distance
    )
    assert torch.equal(hooks.bucket(offset), expected)
    assert expected.unique().numel() > buckets // 2  # near and far buckets were both met
