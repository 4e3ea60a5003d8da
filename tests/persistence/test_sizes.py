"""The rule of scales keeps head sizes and reaches the compute."""

from __future__ import annotations

import dataclasses

import pytest

from headtohead import Arm, Files, Gated, Mlp, ModelSpec, Study
from headtohead.persistence.sizes import scaled, size_of
from helpers.studies import study


def made(**sizes) -> Study:
    control = Arm(model=ModelSpec(**sizes)).settings(["train.steps=1000"])
    return Study("?", control, {"model.norm": ["LayerNorm", "RMSNorm"]})


def blocks(arm: Arm) -> float:
    return arm.model.layers * arm.model.width**2


@pytest.mark.parametrize("scale", [0.05, 0.25, 0.5, 2, 3, 4, 10, 16, 64])
@pytest.mark.parametrize("heads", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("layers", [1, 2, 6])
def test_compute_is_multiplied_by_the_scale(heads, layers, scale):
    before = made(width=32 * heads, heads=heads, layers=layers)
    after = scaled(before, scale)
    small, large = before.control, after.control
    assert large.model.width // large.model.heads == 32
    assert large.model.width % large.model.heads == 0
    compute = blocks(large) * large.train.steps / (blocks(small) * 1000)
    assert compute == pytest.approx(scale, rel=0.01), "up to the rounding of steps"
    way = 1 if scale > 1 else -1
    assert way * (large.model.width - small.model.width) >= 0
    assert way * (large.model.layers - small.model.layers) >= 0
    assert way * (large.train.steps - 1000) >= 0


def test_parameters_and_tokens_grow_evenly_where_rounding_is_fine():
    large = scaled(made(width=32 * 24, heads=24, layers=24), 64).control
    assert (large.model.heads, large.model.layers, large.train.steps) == (48, 48, 8000)


def test_the_demo_at_scale_four():
    large = scaled(made(width=64, heads=2, layers=2), 4).control
    assert (large.model.width, large.model.heads, large.model.layers, large.train.steps) == (96, 3, 2, 1778)


def test_scale_one_is_the_study_itself():
    one = dataclasses.replace(made(width=64, heads=2), seeds=6)
    assert scaled(one, 1) is one


def test_a_sequential_study_has_eight_pairs_at_each_scale():
    one = made(width=64, heads=2)
    assert one.is_sequential
    same, large = scaled(one, 1), scaled(one, 4)
    assert same.all_seeds == large.all_seeds == tuple(range(8))
    assert [v.arm.id for v in same.variants] == [v.arm.id for v in one.variants]
    assert same.folder_name != one.folder_name, "the sequential study keeps its plan"


def test_arms_differ_in_the_declared_fields_alone():
    control = Arm(model=ModelSpec(width=64, heads=4, feedforward=Mlp(hidden=100)))
    arms = {
        "one": control.set("model.kv_heads", 1),
        "two": control.set("model.kv_heads", 2),
        "gated": control.set("model.feedforward", Gated(hidden=70)),
        "wide": control.set("model.feedforward", Gated()),
    }
    large = scaled(Study("?", control, ["model.kv_heads", "model.feedforward"], arms=arms), 16)
    one, two, gated, wide = (large.arms[name].model for name in ("one", "two", "gated", "wide"))
    assert [m.width for m in (one, two, gated, wide)] == [large.control.model.width] * 4 == [96] * 4
    assert (one.heads, one.kv_heads) == (6, 1), "multi-query attention at any size"
    assert (two.heads, two.kv_heads) == (6, 3), "two query heads share a key and value head, as before"
    assert (large.control.model.feedforward.hidden, gated.feedforward.hidden) == (150, 105)
    assert wide.feedforward.hidden is None


@pytest.mark.parametrize("field", ["heads", "width", "layers"])
def test_a_study_that_varies_a_size_can_be_scaled(field):
    values = [64, 128] if field == "width" else [2, 4]
    one = Study("?", Arm(model=ModelSpec(width=64, heads=2, layers=2)), {f"model.{field}": values})
    control, other = scaled(one, 16).variants
    ratio = other.arm.model.width / other.arm.model.heads
    assert ratio == {"heads": 16, "width": 64, "layers": 32}[field], "the head size of each arm stays"
    assert other.arm.model != control.arm.model


def test_epochs_are_scaled_like_steps():
    one = Study("?", Arm.of("classifier").set("train.epochs", 9), {"model.norm": ["LayerNorm", "RMSNorm"]})
    large = scaled(one, 4).control.train
    assert (large.steps, large.epochs) == (None, round(9 * 4 / 2.25))


def test_size_counts_parameters_and_tokens(text, labelled):
    size = size_of(study(text), 1)
    assert (size.width, size.heads, size.layers, size.steps) == (16, 2, 1, 6)
    assert size.parameters == 11_776
    assert size.tokens == 6 * 4 * 16
    words = Study("?", Arm.of("classifier", Files(path=str(labelled))), {"model.norm": ["LayerNorm", "RMSNorm"]})
    found = size_of(words, 1)
    assert 0 < found.tokens <= found.steps * 16 * 32
