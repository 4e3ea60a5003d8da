"""Initialisations that are not in tests/model/test_init.py."""

import math

import pytest
import torch

from headtohead import Experts, FanIn, InitSpec, LanguageModel, ModelSpec, ZeroProjections

SPEC = ModelSpec(width=128, heads=4, layers=3, block=40)


def weights(init, **settings) -> dict[str, torch.Tensor]:
    spec = SPEC.set("init", init)
    for name, value in settings.items():
        spec = spec.set(name, value)
    return {name: p.detach() for name, p in LanguageModel(spec, 300).named_parameters()}


INTO_STREAM = ("attention.out.", "feedforward.down.", ".down.")


@pytest.mark.parametrize("others", [InitSpec(), InitSpec.torch(), FanIn()], ids=str)
@pytest.mark.parametrize("feedforward", ["Mlp", "Experts(count=3, shared=1)"])
def test_zero_projections_are_zero_and_others_are_not(others, feedforward):
    zero, plain = weights(ZeroProjections(others), feedforward=feedforward), weights(others, feedforward=feedforward)
    assert zero.keys() == plain.keys()
    for name, w in zero.items():
        if any(piece in name for piece in INTO_STREAM):
            assert not w.any(), name
        else:
            assert torch.equal(w, plain[name]), name


def test_a_model_with_zero_projections_starts_as_its_embedding():
    model = LanguageModel(SPEC.set("init", ZeroProjections()), 300)
    ids = torch.arange(40)[None]
    embedded = model.trunk.position.embed(model.trunk.tokens(ids), ids)
    torch.testing.assert_close(model.trunk(ids), model.trunk.last(embedded))


@pytest.mark.parametrize("scaling", [True, False])
def test_fan_in_keeps_the_scale(scaling):
    found = weights(FanIn(gain=1.5, embedding_std=0.4, residual_scaling=scaling))
    assert float(found["trunk.tokens.weight"].std()) == pytest.approx(0.4, rel=0.03)
    smaller = 1 / math.sqrt(6) if scaling else 1
    for name, scale in (("attention.q", 1), ("feedforward.up", 1), ("attention.out", smaller)):
        w = found[f"trunk.blocks.1.{name}.weight"]
        assert float(w.std()) == pytest.approx(scale * 1.5 / math.sqrt(128), rel=0.03), name
    down = found["trunk.blocks.1.feedforward.down.weight"]
    assert float(down.std()) == pytest.approx(smaller * 1.5 / math.sqrt(512), rel=0.03)
    assert not found["trunk.blocks.1.feedforward.up.bias"].any()


def test_experts_start_different():
    found = weights(InitSpec(), feedforward=Experts(count=4))
    first = [found[f"trunk.blocks.0.feedforward.experts.{e}.up.weight"] for e in range(4)]
    assert all(not torch.equal(a, b) for n, a in enumerate(first) for b in first[:n])
