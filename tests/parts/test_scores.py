"""Softcap and talking heads against their equations, by nested loops, on both paths and with positions."""

import math

import pytest
import torch

from headtohead import Alibi, LanguageModel, Rope, Softcap, TalkingHeads
from headtohead.model.hooks import WEIGHTS, capture
from helpers.models import SMALL, VOCAB, close, language_model, stirred, text

H = SMALL.heads


def test_softcap_bends_scores_and_never_exceeds_the_cap():
    module = Softcap(cap=5.0).build(SMALL.layer(0, VOCAB))
    s = torch.tensor([-1e6, -5.0, 0.0, 0.01, 5.0, 1e6], dtype=torch.float64, requires_grad=True)
    out = module(s)
    close(out.detach(), torch.tensor([5 * math.tanh(x / 5) for x in s.tolist()], dtype=torch.float64))
    assert out.abs().max() <= 5
    out.sum().backward()
    close(s.grad, torch.tensor([1 - math.tanh(x / 5) ** 2 for x in s.tolist()], dtype=torch.float64))


@pytest.mark.parametrize("position", [Rope(), Alibi(slope=3.0)], ids=str)
@torch.no_grad()
def test_softcap_acts_before_the_bias_of_the_position(position):
    """Rotated products are capped; a bias is added to capped scores."""
    spec = SMALL.set("scores", Softcap(cap=0.5)).set("position", position)
    model = language_model(spec)
    with capture(model, WEIGHTS, read=lambda given, _out: given[0]) as seen:
        model(text(1))
    a = seen["trunk.blocks.0.attention.weights"][0].double().log()  # (1, H, T, T): scores up to a constant
    if position == Rope():
        spread = a[0, :, -1].amax(dim=-1) - a[0, :, -1].amin(dim=-1)
        assert (spread <= 1.0 + 1e-6).all(), "scores are between −0.5 and 0.5"
    else:
        fall = a[0, :, -1, -1] - a[0, :, -1, 0]
        assert ((fall - 3.0 * 11).abs() <= 1.0 + 1e-6).all(), "the bias itself is not capped"


def test_plain_models_have_the_bits_they_had():
    """A cap far above the scores changes nothing beyond rounding."""
    plain, capped = language_model(SMALL), language_model(SMALL.set("scores", Softcap(cap=1e9)))
    torch.testing.assert_close(capped(text(2)), plain(text(2)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("at", ["both", "before", "after"])
@torch.no_grad()
def test_talking_heads_mix_by_their_matrices(at):
    module = stirred(TalkingHeads(at=at).build(SMALL.layer(0, VOCAB)))
    s = torch.randn(2, H, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for mixed, matrix in ((module(s), module.before), (module.mix(s), module.after)):
        for h in range(H):
            expected = s[:, h].clone()
            for g in range(H):
                expected += 0 if matrix is None else matrix[h, g] * s[:, g]
            close(mixed[:, h], expected)
    assert (module.before is None) == (at == "after")
    assert (module.after is None) == (at == "before")


@torch.no_grad()
def test_talking_heads_start_as_plain_attention():
    talking, plain = LanguageModel(SMALL.set("scores", TalkingHeads()), VOCAB), LanguageModel(SMALL, VOCAB)
    torch.testing.assert_close(talking(text(2)), plain(text(2)))
