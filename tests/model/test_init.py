"""Initial weights: their rules, and the same weights in two arms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headtohead import (
    Biases,
    Disentangled,
    Fusion,
    FusionHooks,
    Gated,
    InitSpec,
    LanguageModel,
    LayerNorm,
    Learned,
    Mlp,
    ModelSpec,
    RelativeBias,
    RMSNorm,
)
from helpers.models import SMALL, VOCAB, text
from helpers.registry import forgotten

WIDE = ModelSpec(width=128, heads=4, layers=3, block=300, biases=Biases(q=True, k=True, v=True, out=True))


def started(init: InitSpec, **settings: object) -> dict[str, Tensor]:
    spec = WIDE.set("init", init)
    for name, value in settings.items():
        spec = spec.set(name, value)
    model = LanguageModel(spec.set("head_bias", True), vocab=400)
    return {name: p.detach() for name, p in model.named_parameters()}


def std(p: Tensor) -> float:
    p = p.detach()
    assert abs(float(p.mean())) < 4 * float(p.std()) / math.sqrt(p.numel())
    return float(p.std())


INTO_RESIDUAL = ("attention.out.", "feedforward.down.")


def linear(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    names = (".q.", ".k.", ".v.", ".out.", ".up.", ".down.", ".gate.")
    return {n: p for n, p in weights.items() if any(piece in n for piece in names) or n.startswith("head.")}


@pytest.mark.parametrize("expected", [1.0, 0.02, 0.3])
def test_embeddings_start_with_the_asked_deviation(expected):
    for position in (Learned(), Disentangled(span=128)):
        weights = started(InitSpec(embedding_std=expected), position=position)
        for name in ("trunk.tokens.weight", "trunk.position.table.weight"):
            assert std(weights[name]) == pytest.approx(expected, rel=0.02)


def test_the_default_and_torch_rules_scale_embeddings():
    assert std(started(InitSpec())["trunk.tokens.weight"]) == pytest.approx(0.02, rel=0.02)
    assert std(started(InitSpec.torch())["trunk.tokens.weight"]) == pytest.approx(1.0, rel=0.02)
    assert InitSpec.torch() == InitSpec(embedding_std=1.0, linear="torch", residual_scaling=False)


@pytest.mark.parametrize("scaling", [True, False])
@pytest.mark.parametrize("feedforward", [Mlp(), Gated(bias=True)], ids=str)
@pytest.mark.parametrize("rule", ["normal", "torch", "xavier"])
def test_linear_layers_start_by_their_rule(rule, feedforward, scaling):
    init = InitSpec(linear=rule, linear_std=0.05, residual_scaling=scaling)
    weights = linear(started(init, feedforward=feedforward))
    assert len(weights) == 2 * (3 * (4 + (2 if feedforward == Mlp() else 3)) + 1)
    scaled = 0
    for name, p in weights.items():
        fan_out, fan_in = weights[f"{name.rpartition('.')[0]}.weight"].shape
        smaller = 1 / math.sqrt(2 * 3) if scaling and any(piece in name for piece in INTO_RESIDUAL) else 1.0
        scaled += smaller < 1 and name.endswith("weight")
        if name.endswith("bias"):
            if rule == "torch":
                assert 0.8 / math.sqrt(fan_in) < float(p.abs().max()) <= 1 / math.sqrt(fan_in), name
            else:
                assert not p.any(), name
            continue
        if rule == "normal":
            assert std(p) == pytest.approx(0.05 * smaller, rel=0.03), name
            assert float(p.abs().max()) > 3 * 0.05 * smaller, "a normal has tails"
            continue
        bound = smaller * (1 / math.sqrt(fan_in) if rule == "torch" else math.sqrt(6 / (fan_in + fan_out)))
        assert 0.98 * bound < float(p.abs().max()) <= bound * (1 + 1e-6), name
        assert std(p) == pytest.approx(bound / math.sqrt(3), rel=0.03), name
    assert scaled == (6 if scaling else 0)


def test_scaling_grows_with_depth():
    for layers in (1, 2, 8):
        spec = ModelSpec(width=128, heads=4, layers=layers, block=8)
        model = LanguageModel(spec, vocab=10)
        for block in model.trunk.blocks:
            for layer in (block.attention.out, block.feedforward.down):
                assert std(layer.weight) == pytest.approx(0.02 / math.sqrt(2 * layers), rel=0.03)
            assert std(block.attention.q.weight) == pytest.approx(0.02, rel=0.03)


def test_the_torch_rule_matches_torch():
    """Measured against a plain nn.Linear and nn.Embedding."""
    weights = started(InitSpec.torch())
    torch.manual_seed(0)
    table = nn.Embedding(400, 128).weight.detach()
    for name in ("trunk.blocks.0.attention.out.weight", "trunk.blocks.0.feedforward.up.bias"):
        module = nn.Linear(128, weights[name].shape[0])
        plain = (module.weight if name.endswith("weight") else module.bias).detach()
        assert float(weights[name].std()) == pytest.approx(float(plain.std()), rel=0.1)
    assert std(weights["trunk.tokens.weight"]) == pytest.approx(float(table.std()), rel=0.02)


def test_other_parameters_start_as_built():
    weights = started(InitSpec(), norm=LayerNorm(), qk_norm=RMSNorm(), position=RelativeBias())
    norms = [p for n, p in weights.items() if "norm" in n or n.startswith("trunk.last")]
    assert len(norms) == 3 * (2 * 2 + 2) + 2
    assert all((p == 1).all() or (p == 0).all() for p in norms)
    assert std(weights["trunk.position.table"]) == pytest.approx(0.02, rel=0.2)


def test_the_first_loss_is_that_of_guessing():
    ids = text(8)
    for init in (InitSpec(), InitSpec.torch()):
        logits = LanguageModel(SMALL.set("init", init), VOCAB)(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text(8, seed=9).flatten())
        assert abs(float(loss.detach()) - math.log(VOCAB)) < 0.4


def test_weights_of_user_parts_start_equal_in_two_arms():
    """Values are drawn when the part is built, without a special rule, as a user would write it."""
    with forgotten():

        class Gains(Fusion):
            def build(self, dims, layer):
                hooks = FusionHooks()
                hooks.gains = nn.Parameter(torch.randn(dims.heads))
                return hooks

        arms = [LanguageModel(SMALL.set("fusion", Gains()).set("kv_heads", n), VOCAB, seed=1) for n in (4, 1)]
    ours, theirs = (arm.trunk.blocks[0].attention.fuse.gains for arm in arms)
    assert torch.equal(ours, theirs)
