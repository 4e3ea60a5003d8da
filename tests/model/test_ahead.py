"""Extra heads: the tokens that they predict, what they must not see, and that the model does not depend on them."""

from __future__ import annotations

import pytest
import torch

from headtohead import Disentangled, LanguageModel, ModelSpec, PostNorm, RelativeBias, Rope
from headtohead.model.ahead import attach, detach, heads_of, kept_weights

V, T = 11, 8
SPEC = ModelSpec(width=8, heads=2, layers=2, block=T)
SPECS = [SPEC, SPEC.set("position", Rope()), SPEC.set("position", RelativeBias()), SPEC.set("residual", PostNorm())]
SPECS += [SPEC.set("position", Disentangled()), SPEC.set("tied", True)]


def built(spec: ModelSpec = SPEC, heads: int = 0, seed: int = 0) -> LanguageModel:
    model = LanguageModel(spec, V, seed)
    if heads:
        attach(model, spec, heads, seed)
    return model


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_weights_of_the_model_start_as_without_heads(spec):
    plain, more = built(spec).state_dict(), built(spec, 3).state_dict()
    assert all(torch.equal(more[name], weight) for name, weight in plain.items())
    assert all(name.startswith("ahead.") for name in more.keys() - plain.keys())
    assert kept_weights(built(spec, 3)).keys() == plain.keys()


def test_heads_depend_on_the_seed_and_differ_from_each_other():
    one, again, other = (built(heads=2, seed=seed).state_dict() for seed in (0, 0, 1))
    weight = "ahead.blocks.{}.feedforward.up.weight"
    name, next_name = weight.format(0), weight.format(1)
    assert torch.equal(one[name], again[name])
    assert not torch.equal(one[name], other[name])
    assert not torch.equal(one[name], one[next_name])
    assert not torch.equal(one[name], one[name.replace("ahead", "trunk")])


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_heads_see_no_later_token(spec):
    model = built(spec, 2).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()), dtype=p.dtype))
    ids = torch.randint(0, V, (1, T), generator=torch.Generator().manual_seed(1))
    heads = heads_of(model)
    assert heads is not None
    for at in range(1, T):
        changed = ids.clone()
        changed[0, at] = (changed[0, at] + 1) % V
        for before, after in zip(*(heads(model.trunk, model.trunk(i)) for i in (ids, changed)), strict=True):
            assert (before - after)[:, :at].abs().max() < 1e-12
            assert (before - after)[:, at].abs().max() > 1e-6


def test_detached_heads_leave_the_model_as_it_was():
    model, plain = built(heads=3), built()
    ids = torch.arange(T)[None]
    count = detach(model)
    assert count == sum(p.numel() for p in built(heads=3).parameters()) - sum(p.numel() for p in plain.parameters())
    assert torch.equal(model(ids), plain(ids))
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert detach(model) == 0
