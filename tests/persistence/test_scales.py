"""Scales: the rule keeps head sizes and reaches the compute; changes of effects are tested seed by seed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, InputError, Pretrained, Study, run_scales
from headtohead.outcome.outcome import load_outcome
from headtohead.persistence.scales import Effect, changes, judge_scales
from headtohead.persistence.sizes import scaled, size_of
from headtohead.run.executors.execution import Execution
from headtohead.study.execution import folder_of, train_study
from helpers.studies import study

ONE = Execution(jobs=1, device="cpu")


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
