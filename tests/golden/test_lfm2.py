"""LFM2's gated short convolution: the layer of transformers against ours, at once and with both caches."""

import pytest
import torch

from headtohead.parts.mixers.convolution import ConvolutionMixer
from helpers.comparing import DIFFERENT, SAME, randomised
from helpers.mixers import D, T, embeddings, layer_of, mixed

transformers = pytest.importorskip("transformers")


def both(kernel: int):
    """Their layer and ours, with its weights; single precision."""
    from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

    config = transformers.Lfm2Config(
        hidden_size=D, num_hidden_layers=1, num_attention_heads=2, conv_L_cache=kernel, layer_types=["conv"]
    )
    theirs = randomised(Lfm2ShortConv(config, 0))
    ours = layer_of(ConvolutionMixer(kernel=kernel), **{"biases.out": False}).float()
    ours.load_state_dict(
        {
            "into.weight": theirs.in_proj.weight,
            "convolve.weight": theirs.conv.weight.squeeze(1),
            "out.weight": theirs.out_proj.weight,
        }
    )
    return config, theirs, ours


@pytest.mark.parametrize("kernel", [2, 3, 4])
@torch.no_grad()
def test_outputs_are_equal(kernel):
    _, theirs, ours = both(kernel)
    x = embeddings().float()
    expected = theirs(x)
    assert (mixed(ours, x) - expected).abs().max() <= SAME
    assert (mixed(ours, x, None, [4, 1, 1, T - 6]) - expected).abs().max() <= SAME


@torch.no_grad()
def test_outputs_are_equal_with_their_cache():
    config, theirs, ours = both(3)
    x, cache = embeddings().float(), transformers.DynamicCache(config=config)
    parts = [theirs(x[:, a:b], past_key_values=cache) for a, b in ((0, 4), (4, 5), (5, 6))]
    assert (mixed(ours, x[:, :6], None, [4, 1, 1]) - torch.cat(parts, dim=1)).abs().max() <= SAME


@torch.no_grad()
def test_padding_on_the_left_is_equal():
    _, theirs, ours = both(3)
    x, keep = embeddings(rows=2).float(), torch.ones(2, T, dtype=torch.bool)
    keep[1, :4] = False
    expected = theirs(x, attention_mask=keep.long())
    assert (mixed(ours, x, keep) - expected)[keep].abs().max() <= SAME


@torch.no_grad()
def test_a_changed_filter_is_noticed():
    _, theirs, ours = both(3)
    ours.convolve.weight.copy_(ours.convolve.weight.flip(1))
    x = embeddings().float()
    assert (mixed(ours, x) - theirs(x)).abs().max() > DIFFERENT
