from __future__ import annotations

import math
import re

import pytest

from headtohead.errors import InputError
from headtohead.external.values import (
    Asked,
    RunLog,
    arm_and_seed,
    bare_name,
    better_of,
    chosen_point,
    metric_in,
    number_of,
    seed_text,
    split_name,
)


@pytest.mark.parametrize(
    ("name", "arm", "seed"),
    [
        ("rope-seed3", "rope", "3"),
        ("rope_s3", "rope", "3"),
        ("rope/seed=3", "rope", "3"),
        ("rope-3", "rope", "3"),
        ("rope/3", "rope", "3"),
        ("seed_12_rope", "rope", "12"),
        ("gpt2-s4-lr0.1", "gpt2-lr0.1", "4"),
        ("Seed07", "", "7"),
        ("rope-8-seed3", "rope-8", "3"),
        ("gpt2", "gpt2", None),
        ("heads16", "heads16", None),
        ("bias8-small", "bias8-small", None),
        ("rope", "rope", None),
    ],
)
def test_names_have_arm_and_seed(name: str, arm: str, seed: str | None) -> None:
    assert split_name(name) == (arm, seed)


def test_a_pattern_of_the_user_wins() -> None:
    assert split_name("rope-seed3-run7", re.compile(r"run(\d+)")) == ("rope-seed3", "7")
    with pytest.raises(InputError, match="does not match"):
        split_name("rope", re.compile(r"run(\d+)"))


def test_endings_of_files() -> None:
    assert bare_name("a/rope-seed3.log") == "a/rope-seed3"
    assert bare_name("rope-lr0.1") == "rope-lr0.1"


@pytest.mark.parametrize(
    ("seed", "text"), [(3, "3"), (3.0, "3"), ("03", "3"), (" 3 ", "3"), ("a", "a"), ("", None), (math.nan, None)]
)
def test_seeds_as_text(seed: object, text: str | None) -> None:
    assert seed_text(seed) == text


def test_configuration_wins_over_names() -> None:
    run = RunLog("sunny-wave-7", "x", {}, {"seed": 3, "position": "rope"}, "group A")
    assert arm_and_seed(run, Asked()) == ("group A", "3", "the group", "the field seed")
    assert arm_and_seed(run, Asked(arm="position"))[:2] == ("rope", "3")
    assert arm_and_seed(run, Asked(seed_pattern=re.compile(r"-(\d)")))[1] == "7"
    with pytest.raises(InputError, match="did you mean position"):
        arm_and_seed(run, Asked(arm="positio"))


@pytest.mark.parametrize(
    ("value", "number"), [("1e-3", 1e-3), (" 2 ", 2.0), (True, 1.0), ("inf", math.inf), (10**400, math.inf)]
)
def test_numbers(value: object, number: float) -> None:
    assert number_of(value) == number


def test_missing_numbers_and_text() -> None:
    assert all(math.isnan(number_of(value) or 0.0) for value in ("", "nan", None, "N/A"))
    assert [number_of(value) for value in ("abc", "1_000", [1], "0,5")] == [None] * 4


POINTS = [(10.0, 1.0), (20.0, 2.0), (20.0, 3.0), (0.0, 5.0)]


def test_points_of_a_curve() -> None:
    assert chosen_point(POINTS, Asked(), "x", None) == 3.0  # the later line of the last step
    assert chosen_point(POINTS, Asked(take="first"), "x", None) == 5.0
    assert chosen_point(POINTS, Asked(take="best"), "x", "lower") == 1.0
    assert chosen_point(POINTS, Asked(take="best"), "x", "higher") == 5.0
    assert chosen_point(POINTS, Asked(step=10), "x", None) == 1.0
    with pytest.raises(InputError, match="nearest is 10, the last 20"):
        chosen_point(POINTS, Asked(step=11), "x", None)


def test_a_run_that_ends_in_nan_has_no_last_value() -> None:
    assert math.isnan(chosen_point([*POINTS, (30.0, math.nan)], Asked(), "x", None))


@pytest.mark.parametrize(
    ("metric", "way"),
    [
        ("eval_loss", "lower"),
        ("val/acc", "higher"),
        ("evalLoss", "lower"),
        ("exact_match,none", "higher"),
        ("WER", "lower"),
    ],
)
def test_the_better_way_follows_from_the_name(metric: str, way: str) -> None:
    assert better_of(metric, None) == way


@pytest.mark.parametrize("metric", ["value", "x", "loss_accuracy"])
def test_an_unknown_metric_needs_a_direction(metric: str) -> None:
    with pytest.raises(InputError, match="--better"):
        better_of(metric, None)
    assert better_of(metric, "higher") == "higher"


def test_the_metric_of_runs() -> None:
    one, two = RunLog("a", "a", {"x": [], "y": []}), RunLog("b", "b", {"y": []})
    assert metric_in([one, two], None) == "y"
    with pytest.raises(InputError, match="which metric"):
        metric_in([one, one], None)
    with pytest.raises(InputError, match="b has no metric 'x'"):
        metric_in([one, two], "x")
    with pytest.raises(InputError, match="in common"):
        metric_in([RunLog("a", "a", {"x": []}), two], None)
