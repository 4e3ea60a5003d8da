"""Convolutions against their equations, in nested loops; padding, cache and packing are in tests/conformance."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Canon, ConvolutionHooks, Experts, InputError, LanguageModel, LinearAttention, TokenShift
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.state import LayerCache
from helpers.models import SMALL, VOCAB, close, influence, language_model, stirred, text

C, T = 3, 7


def mask_of(keep: Tensor | None) -> Mask:
    i = torch.zeros(1, 1, T, 1)
    return Mask(i, i.transpose(2, 3), torch.ones(1, 1, T, T, dtype=torch.bool), None, None, keep)


def inputs() -> Tensor:
    return torch.randn(2, T, C, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


KEEPS = {"whole texts": None, "holes": torch.tensor([[1, 1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 1, 1, 0]]).bool()}


def seen(keep: Tensor | None, row: int) -> list[int]:
    return list(range(T)) if keep is None else keep[row].nonzero()[:, 0].tolist()


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
@pytest.mark.parametrize("part", [Canon(), Canon(width=2, residual=False, activation="silu", bias=True)], ids=str)
@torch.no_grad()
def test_canon_matches_its_equation(part, keep):
    hooks, x = stirred(part.build(SMALL.layer(0), "A", C)), inputs()
    out = hooks(x, mask_of(keep), None)
    w, bias = hooks.filters.weight, hooks.filters.bias
    for row in range(2):
        real = seen(keep, row)
        for n, t in enumerate(real):
            for c in range(C):
                y = 0.0 if bias is None else float(bias[c])
                for r in range(part.width):  # r tokens back
                    if n - r >= 0:
                        y += float(w[c, part.width - 1 - r]) * float(x[row, real[n - r], c])
                y = y / (1 + math.exp(-y)) if part.activation == "silu" else y
                assert float(out[row, t, c]) == pytest.approx(y + part.residual * float(x[row, t, c]), abs=1e-10)


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
@torch.no_grad()
def test_token_shift_matches_its_equation(keep):
    hooks, x = stirred(TokenShift().build(SMALL.layer(0), "C", C)), inputs()
    out = hooks(x, mask_of(keep), None)
    for row in range(2):
        real = seen(keep, row)
        for n, t in enumerate(real):
            for c in range(C):
                m, before = float(hooks.share[c]), float(x[row, real[n - 1], c]) if n else 0.0
                assert float(out[row, t, c]) == pytest.approx(m * float(x[row, t, c]) + (1 - m) * before, abs=1e-10)


@torch.no_grad()
def test_each_site_keeps_its_own_last_inputs():
    cache, layer = LayerCache(), SMALL.layer(0)
    for site in "ABCD":
        stirred(Canon().build(layer, site, C))(inputs(), mask_of(None), cache)
    assert len(cache.states) == 4
    assert all(x.shape == (2, 3, C) for x in cache.states.values())


@pytest.mark.parametrize("site", "ABCD")
def test_every_site_reaches_as_far_as_it_says(site):
    """One layer whose attention sees only the token itself."""
    part = Canon(sites=site, width=3)
    model = language_model(SMALL.set("convolution", part).set("pattern", "Causal & Local(1)").set("layers", 1))
    found = influence(model) > 0
    n = torch.arange(len(found))
    distance = n[:, None] - n[None, :]
    assert torch.equal(found, (distance >= 0) & (distance <= part.before(site)))
    assert part.before(site) == 2
    assert all(part.before(other) == 0 for other in set("ABCD") - {site})


def test_sites_are_built_where_they_are_asked_for():
    model = LanguageModel(SMALL.set("convolution", Canon(sites="BD")), VOCAB)
    block = model.trunk.blocks[0]
    assert block.before_attention.neutral
    assert block.before_feedforward.neutral
    assert not block.in_feedforward.neutral
    assert block.attention.convolve.filters.weight.shape[0] == 3 * 16
    assert type(Canon(sites="A").build(SMALL.layer(0), "B", C)) is ConvolutionHooks


@pytest.mark.parametrize("sites", ["", "E", "AA", "abc"])
def test_unknown_sites_are_refused(sites):
    with pytest.raises(InputError, match="sites are letters"):
        Canon(sites=sites)


def test_a_site_inside_experts_is_refused():
    spec = SMALL.set("convolution", Canon()).set("feedforward", Experts())
    with pytest.raises(InputError, match="leave D out"):
        LanguageModel(spec, VOCAB)
    LanguageModel(spec.set("convolution.sites", "ABC"), VOCAB)


@torch.no_grad()
def test_other_mixers_ignore_site_b():
    spec = SMALL.set("mixer", LinearAttention()).set("convolution", Canon(sites="AB", width=2))
    names = [name for name, _ in LanguageModel(spec, VOCAB).named_parameters() if "filters" in name]
    assert len(names) == 2, "one per layer, before the mixer"
    close(language_model(spec)(text(2)), language_model(spec)(text(2)))
