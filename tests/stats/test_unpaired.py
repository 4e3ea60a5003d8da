"""Unpaired verdicts: what the definitions and scipy say, and verdict, interval and p that agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead.errors import InputError
from headtohead.stats import unpaired
from headtohead.stats.unpaired import LEAST_RUNS, compare_unpaired, permutation_p, welch_limits, welch_p

few = settings(max_examples=40, deadline=None, derandomize=True)
samples = st.lists(st.integers(-20, 20).map(float), min_size=4, max_size=7).filter(lambda x: len(set(x)) > 1)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def welch_t(a: np.ndarray, b: np.ndarray) -> float:
    return distributions.ttest_ind(a, b, equal_var=False).statistic


def test_p_is_that_of_scipys_permutation_test() -> None:
    for seed in range(4):
        control, arm = noise(5, seed=seed), noise(6, seed=seed + 10) + 1
        expected = distributions.permutation_test(
            (arm, control), lambda a, b: abs(welch_t(a, b)), n_resamples=math.inf, alternative="greater"
        )
        assert permutation_p(control, [arm])[0] == pytest.approx(expected.pvalue, abs=1e-12)


def test_p_of_several_arms_is_the_share_of_larger_maxima() -> None:
    """Nested loops over every assignment of labels."""
    control, first, second = noise(3, seed=1), noise(2, seed=2) + 2, noise(2, seed=3)
    x = np.concatenate([control, first, second])

    def largest(labels: tuple[int, ...]) -> list[float]:
        groups = [x[[i for i, label in enumerate(labels) if label == g]] for g in range(3)]
        return [abs(welch_t(groups[g], groups[0])) for g in (1, 2)]

    observed = largest((0, 0, 0, 1, 1, 2, 2))
    every = [max(largest(p)) for p in set(itertools.permutations((0, 0, 0, 1, 1, 2, 2)))]
    expected = [np.mean([m >= t * (1 - 1e-9) for m in every]) for t in observed]
    assert permutation_p(control, [first, second]) == pytest.approx(expected, abs=1e-12)


def test_random_permutations_are_close_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    control, arm = noise(6, seed=4), noise(6, seed=5) + 1
    exact = permutation_p(control, [arm])[0]
    monkeypatch.setattr(unpaired, "PERMUTATIONS", 900)  # fewer than the 924 that there are
    unpaired._labels.cache_clear()
    drawn = permutation_p(control, [arm])[0]
    unpaired._labels.cache_clear()
    assert drawn == pytest.approx(exact, abs=0.03)
    assert drawn != exact


@few
@given(samples, samples)
def test_without_skewness_limits_are_welchs_with_fewer_degrees(control: list[float], arm: list[float]) -> None:
    """Symmetric samples: each value with its mirror image."""
    a, b = (np.array([*x, *(-v for v in x)]) for x in (control, arm))
    low, high = welch_limits(a, b + 3, 0.04)
    error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    half = distributions.t.ppf(0.98, min(len(a), len(b)) - 1) * error
    assert (low, high) == pytest.approx((3 - half, 3 + half))
    t, p = distributions.ttest_ind(b + 3, a, equal_var=False)
    assert error == pytest.approx(3 / t)
    assert welch_p(a, b + 3) >= p  # never more certain than Welch's test


@few
@given(samples, samples, st.floats(-30, 30))
def test_welch_p_is_the_level_at_which_a_limit_is_zero(control: list[float], arm: list[float], shift: float) -> None:
    a, b = np.array(control), np.array(arm) + shift
    p = welch_p(a, b)
    if 1e-6 < p < 0.9:
        low, high = welch_limits(a, b, p)
        assert min(abs(low), abs(high)) < 1e-6 * max(1.0, high - low)


def test_skewness_widens_the_side_of_the_unseen_tail() -> None:
    tail = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 5.0])  # values far above the mean
    low, high = welch_limits(np.linspace(-0.1, 0.1, 6), tail, 0.05)
    middle = tail.mean()
    assert high - middle > 1.2 * (middle - low)


@few
@given(samples, samples, samples, st.sampled_from([0.0, 15.0, -60.0]))
def test_verdict_interval_and_p_agree(control: list[float], a: list[float], b: list[float], effect: float) -> None:
    for v in compare_unpaired(control, {"a": np.array(a) + effect, "b": b}).values():
        excludes = v.low > 0 or v.high < 0
        assert (v.verdict in ("better", "worse")) == (v.p <= 0.05) == excludes == v.is_real
        assert v.low <= v.difference <= v.high


def test_the_interval_contains_zero_if_the_permutation_test_objects() -> None:
    control, arm = np.array([3.0, 0.0, 0.0, 0.0]), np.array([5.0, 9.0, 3.0, 7.0])
    assert welch_limits(control, arm, 0.04)[0] > 0
    found = compare_unpaired(control, {"x": arm})["x"]
    assert found.p == pytest.approx(4 / 70)
    assert (found.low, found.verdict) == (0.0, "unresolved")


def test_direction_and_margin() -> None:
    control, arm = noise(12, seed=7), noise(12, seed=8) - 4
    assert compare_unpaired(control, {"x": arm})["x"].verdict == "better"
    assert compare_unpaired(control, {"x": arm}, better="higher")["x"].verdict == "worse"
    assert compare_unpaired(control, {"x": control + 0.01}, 5.0)["x"].verdict == "equivalent"
    assert compare_unpaired(control, {"x": control + 0.01}, 0.1)["x"].verdict == "unresolved"


def test_margins_are_judged_by_a_shorter_interval_and_by_arms() -> None:
    control, arm = noise(10, seed=9), noise(10, seed=19)
    low, high = welch_limits(control, arm, 2 * 0.04)
    edge = max(-low, high)
    assert compare_unpaired(control, {"x": arm}, edge * 1.001)["x"].verdict == "equivalent"
    assert compare_unpaired(control, {"x": arm}, edge * 0.999)["x"].verdict == "unresolved"
    assert compare_unpaired(control, {"x": arm, "y": control}, edge * 1.001)["x"].verdict == "unresolved"


def test_more_arms_make_the_interval_wider() -> None:
    control, arm = noise(6, seed=1), noise(6, seed=2)
    alone = compare_unpaired(control, {"x": arm})["x"]
    both = compare_unpaired(control, {"x": arm, "y": noise(6, seed=3)})["x"]
    assert both.high - both.low > alone.high - alone.low
    assert both.p >= alone.p


def test_few_runs_are_descriptive_and_leave_the_others_alone() -> None:
    control, arm = noise(6, seed=1), noise(6, seed=2) - 5
    found = compare_unpaired(control, {"x": arm, "small": noise(LEAST_RUNS - 1)})
    assert found["small"].descriptive
    assert found["small"].verdict == "unresolved"
    assert found["x"] == compare_unpaired(control, {"x": arm})["x"]
    assert compare_unpaired([1.0], {"x": [2.0]})["x"].difference == 1.0


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e12, 1e200])
def test_the_unit_does_not_matter(unit: float) -> None:
    control, arm = noise(6, seed=1), noise(6, seed=2) - 3
    plain, scaled = (compare_unpaired(control * u, {"x": arm * u})["x"] for u in (1.0, unit))
    assert (scaled.p, scaled.verdict) == (pytest.approx(plain.p), plain.verdict)
    assert scaled.low / unit == pytest.approx(plain.low)


def test_constant_values() -> None:
    assert compare_unpaired([1.0] * 5, {"x": [1.0] * 5})["x"].verdict == "unresolved"
    found = compare_unpaired([1.0] * 5, {"x": [2.0] * 5})["x"]
    assert (found.low, found.high, found.verdict) == (1.0, 1.0, "worse")


@pytest.mark.parametrize(
    ("control", "arm", "options", "says"),
    [
        ([1.0, math.nan], [1.0], {}, "missing value"),
        ([], [1.0], {}, "at least one value"),
        ([1.0], ["a"], {}, "not a number"),
        ([1.0], [1.0], {"margin": 0.0}, "above zero"),
        ([1.0], [1.0], {"better": "more"}, "lower"),
        ([-1.7e308] * 4, [1.7e308] * 4, {}, "larger unit"),
    ],
)
def test_wrong_input_is_one_line(control: list, arm: list, options: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        compare_unpaired(control, {"x": arm}, **options)
