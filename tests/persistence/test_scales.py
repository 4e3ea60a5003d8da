"""Scales: the rule keeps head sizes and reaches the compute; changes of effects are tested seed by seed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, Gated, InputError, Mlp, ModelSpec, Pretrained, Study, run_scales
from headtohead.outcome.outcome import load_outcome
from headtohead.persistence.scales import Effect, changes, judge_scales, scaled, size_of
from headtohead.run.executors.execution import Execution
from headtohead.study.execution import folder_of, train_study
from helpers.studies import study

ONE = Execution(jobs=1, device="cpu")


def made(**sizes) -> Study:
    control = Arm(model=ModelSpec(**sizes)).settings(["train.steps=1000"])
    return Study("?", control, {"model.norm": ["LayerNorm", "RMSNorm"]})


def blocks(arm: Arm) -> float:
    return arm.model.layers * arm.model.width**2


# -- the rule ----------------------------------------------------------------------------------------------------------


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


def test_what_cannot_be_scaled_is_refused(text):
    one = study(text)
    odd = {(4,): "two scales", (4, 4.0): "two scales", (0, 1): "above zero", (1, math.nan): "above zero"}
    for scales, words in odd.items():
        with pytest.raises(InputError, match=words):
            run_scales(one, scales, ONE, progress=False)
    with pytest.raises(InputError, match="pretrained checkpoint has one size"):
        scaled(Study("?", Arm.of("classifier").set("start", Pretrained()), {"model.norm": ["LayerNorm", "RMSNorm"]}), 4)
    with pytest.raises(InputError, match="compares nothing"):
        run_scales(dataclasses.replace(one, vary=()), (1, 4), ONE, progress=False)


def test_size_counts_parameters_and_tokens(text, labelled):
    size = size_of(study(text), 1)
    assert (size.width, size.heads, size.layers, size.steps) == (16, 2, 1, 6)
    assert size.parameters == 11_776
    assert size.tokens == 6 * 4 * 16
    words = Study("?", Arm.of("classifier", Files(path=str(labelled))), {"model.norm": ["LayerNorm", "RMSNorm"]})
    found = size_of(words, 1)
    assert 0 < found.tokens <= found.steps * 16 * 32


# -- the comparison ----------------------------------------------------------------------------------------------------


def effect(scale: float, differences: list[float]) -> Effect:
    mean, half = float(np.mean(differences)), 3 * float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    return Effect(scale, mean, mean - half, mean + half, 0.0, "better", len(differences))


def trend(small: list[float], large: list[float]):
    by_seed = [{"arm": dict(enumerate(values))} for values in (small, large)]
    return changes(*by_seed, {"arm": (effect(1, small), effect(4, large))})[0]


NOISE = [0.01, -0.02, 0.015, -0.005, 0.02, -0.01, 0.004, -0.012]


def around(mean: float, shift: int = 0) -> list[float]:
    return [mean + NOISE[(n + shift) % 8] for n in range(8)]


@pytest.mark.parametrize(
    ("small", "large", "word", "turns"),
    [
        (-0.1, -0.3, "grows", False),
        (0.1, 0.3, "grows", False),
        (-0.3, -0.1, "shrinks", False),
        (0.3, 0.1, "shrinks", False),
        (-0.1, 0.3, "shrinks", True),
        (0.3, -0.1, "shrinks", True),
        (0.3, 0.0, "shrinks", False),
        (0.001, -0.3, "grows", False),
        (-0.1, -0.1, "unresolved", False),
    ],
)
def test_words(small, large, word, turns):
    found = trend(around(small), around(large, 3))
    assert (found.word, found.turns) == (word, turns)
    assert found.difference == pytest.approx(large - small)
    assert found.low < found.difference < found.high


def test_p_is_the_exact_sign_flip_of_the_difference_of_differences():
    random = np.random.default_rng(1)
    small, large = random.normal(0, 1, 7), random.normal(0.8, 1, 7)
    d = large - small
    flipped = [abs(np.mean(d * np.array(signs))) for signs in itertools.product((1, -1), repeat=7)]
    assert trend(list(small), list(large)).p == pytest.approx(np.mean(np.array(flipped) >= abs(d.mean()) - 1e-12))


def test_pairs_are_matched_by_seed_and_missing_seeds_are_left_out():
    small = {"arm": {seed: float(seed) for seed in range(8)}}
    large = {"arm": {seed: seed + 0.5 for seed in (7, 6, 5, 4, 3, 2, 1)}}
    found = changes(small, large, {"arm": (effect(1, [0.0, 1.0]), effect(4, [0.0, 1.0]))})[0]
    assert (found.pairs, found.difference) == (7, 0.5)


def test_p_is_corrected_for_the_arms():
    random = np.random.default_rng(2)
    arms = {f"arm {k}": dict(enumerate(random.normal(0, 1, 8))) for k in range(5)}
    arms["arm 0"] = dict(enumerate(np.array(NOISE) + 0.02))
    none = {name: dict.fromkeys(range(8), 0.0) for name in arms}
    effects = {name: (effect(1, [0.0, 1.0]), effect(4, [0.0, 1.0])) for name in arms}
    together = {t.arm: t.p for t in changes(none, arms, effects)}
    alone = changes({"arm 0": none["arm 0"]}, {"arm 0": arms["arm 0"]}, {"arm 0": effects["arm 0"]})[0].p
    assert together["arm 0"] > alone


def test_equal_effects_are_seldom_called_different():
    random = np.random.default_rng(3)
    words = [trend(list(random.normal(-1, 1, 6)), list(random.normal(-1, 1, 6))).word for _ in range(400)]
    assert sum(word != "unresolved" for word in words) <= 0.05 * 400 + 2 * math.sqrt(400 * 0.05 * 0.95)


# -- real runs ---------------------------------------------------------------------------------------------------------


def runs(home: Path) -> dict[str, int]:
    return {f.parent.name: f.stat().st_mtime_ns for f in (home / "runs").glob("*/result.json")}


def test_scales_use_the_studys_own_runs_and_continue(text, home, capsys):
    one = study(text, vary={"model.position": ["Learned", "Rope"]}, seeds=6)
    list(train_study(one, ONE, home=home))
    before = runs(home)
    found = run_scales(one, (4, 1), ONE, home=home)
    after = runs(home)
    assert len(before) == 12
    assert before.items() <= after.items()
    assert len(after) == 24
    told = capsys.readouterr().err
    assert "Scale s multiplies the training compute" in told
    assert "in the store" in told, "the forecast of scale 1"
    assert [size.scale for size in found.sizes] == [1, 4]
    own = load_outcome(folder_of(one, home))
    assert found["Rope"].effects[0].difference == own.verdicts["Rope"].verdict.difference
    per_seed = [load_outcome(Path(folder)).differences("")["Rope"] for folder in found.folders]
    assert found["Rope"].difference == pytest.approx(np.mean([per_seed[1][s] - per_seed[0][s] for s in range(6)]))
    assert found["Rope"].pairs == 6
    assert max(map(len, found.lines())) <= 80
    assert found.to_json()["trends"][0]["word"] == found["Rope"].word
    assert str(run_scales(one, (1, 4), ONE, home=home, progress=False)) == str(found)
    assert runs(home) == after
    with pytest.raises(InputError, match="no arm 'Rop'"):
        found["Rop"]


def test_an_arm_that_lost_a_run_is_unresolved(text, home):
    one = study(text, vary={"model.position": ["Learned", "Rope"]}, seeds=6)
    list(train_study(one, ONE, home=home))
    outcome = load_outcome(folder_of(one, home))
    rows = outcome.rows["", "Rope"]
    rows[2] = dataclasses.replace(rows[2], status="diverged", value=math.nan)
    sizes = [size_of(one, 1), size_of(one, 4)]
    found = judge_scales(one, sizes, [outcome, load_outcome(folder_of(one, home))])
    assert found["Rope"].word == "unresolved"
    assert "1 seed of tiny diverged or collapsed" in str(found)
