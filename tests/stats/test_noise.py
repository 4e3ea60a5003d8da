"""Noise of paired differences: limits, and arms that borrow from other arms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead.stats import LEAST_PAIRS, pairs_for
from headtohead.stats.noise import PRIOR_FREE, SETUPS_DIFFER, Noise, elsewhere, expected, moderated, pairs_range


def test_the_limits_of_the_noise_hold_it_four_times_in_five():
    """Brute force: the interval of sd covers the true value in 80 % of samples."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(2000):
        noise = Noise(float(rng.normal(size=5).std(ddof=1)), 4, "")
        hits += noise.limit(0.1) < 1 < noise.limit(0.9)
    assert hits / 2000 == pytest.approx(0.8, abs=0.03)
    assert Noise(2.0, 0, "").limit(0.9) == 2.0


@pytest.mark.parametrize("others", [1, 4, 50])
def test_the_limits_hold_for_arms_whose_variances_differ(others):
    """Brute force: true variances drawn from the prior, six pairs an arm. Few other arms leave the prior itself
    uncertain, which the degrees of freedom describe only roughly: the range holds 75 to 80 % there."""
    rng, hits, errors = np.random.default_rng(1), 0, np.zeros(2)
    for _ in range(2000):
        sds = np.sqrt(PRIOR_FREE / rng.chisquare(PRIOR_FREE, size=others + 1))
        own, *rest = [Noise(float(sd * rng.normal(size=6).std(ddof=1)), 5, "own") for sd in sds]
        found = moderated(own, rest)
        hits += found.limit(0.1) < sds[0] < found.limit(0.9)
        errors += [abs(math.log(found.sd / sds[0])), abs(math.log(own.sd / sds[0]))]
    assert hits / 2000 == pytest.approx(0.8, abs=0.05)
    assert errors[0] < (0.95 if others == 1 else 0.9) * errors[1]  # closer to the truth than the arm's own pairs


def test_an_arm_borrows_from_others_and_says_so():
    own = Noise(0.1, 5, "6 complete pairs (pilot)")
    found = moderated(own, [Noise(0.4, 9, ""), Noise(0.4, 9, "")], "2 other arms")
    assert 0.1 < found.sd < 0.4
    assert 5 < found.free < 5 + PRIOR_FREE
    many = moderated(own, [Noise(0.4, 9, "")] * 1000)
    assert many.free == pytest.approx(5 + PRIOR_FREE, abs=0.01)
    assert found.free < many.free
    assert found.source == "6 complete pairs (pilot) and 2 other arms"


@pytest.mark.parametrize("others", [[], [Noise(0.0, 5, "")], [Noise(0.3, 0, "")]])
def test_arms_that_tell_nothing_change_nothing(others):
    own = Noise(0.1, 5, "own")
    assert moderated(own, others) is own
    assert moderated(Noise(0.0, 5, ""), [Noise(0.1, 5, "")]).sd == 0


def test_arms_without_pairs_have_the_noise_of_others():
    """Brute force: the limits hold the true sd of an arm that was never trained four times in five."""
    rng, hits = np.random.default_rng(2), 0
    for _ in range(1000):
        sds = np.sqrt(PRIOR_FREE / rng.chisquare(PRIOR_FREE, size=21))
        rest = [Noise(float(sd * rng.normal(size=6).std(ddof=1)), 5, "") for sd in sds[1:]]
        found = expected(rest)
        assert found is not None
        hits += found.limit(0.1) < sds[0] < found.limit(0.9)
    assert hits / 1000 == pytest.approx(0.8, abs=0.05)
    assert expected([]) is None
    assert expected([Noise(0.0, 5, "")]) is None


# -- uncertain noise ---------------------------------------------------------------------------------------------------


def test_how_often_noise_exceeds_a_size_is_student_t():
    rng = np.random.default_rng(5)
    values = rng.normal(size=200_000) / np.sqrt(rng.chisquare(4, size=200_000) / 4)
    noise = Noise(0.5, 4, "")
    assert noise.beyond(1.0) == pytest.approx(float((abs(0.5 * values) >= 1.0).mean()), abs=0.003)
    assert noise.beyond(noise.reach()) == pytest.approx(0.05)
    assert Noise(0.5, math.inf, "").reach() == pytest.approx(0.98, abs=0.001)
    assert Noise(0.0, 4, "").beyond(0.1) == Noise(0.0, 4, "").reach() == 0


def test_spread_between_setups_is_log_normal():
    rng = np.random.default_rng(6)
    sds = 0.5 * np.exp(math.sqrt(2.0) * rng.normal(size=200_000) / 2)
    noise = Noise(0.5, math.inf, "", spread=2.0)
    assert noise.beyond(1.0) == pytest.approx(float((abs(sds * rng.normal(size=200_000)) >= 1.0).mean()), abs=0.005)
    assert noise.limit(0.9) == pytest.approx(float(np.quantile(sds, 0.9)), rel=0.02)
    assert noise.beyond(noise.reach()) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize("setups", [1, 3, 12])
def test_the_noise_of_a_new_setup_is_held_by_its_limits(setups: int):
    """Brute force: setups and arms drawn with the measured spreads; the limits hold a new arm's sd in 80 %."""
    rng, hits = np.random.default_rng(setups), 0
    for _ in range(1500):
        levels = np.sqrt(SETUPS_DIFFER) * rng.normal(size=setups + 1)
        sds = np.exp(levels / 2)[:, None] * np.sqrt(PRIOR_FREE / rng.chisquare(PRIOR_FREE, size=(setups + 1, 3)))
        known = [[Noise(float(sd * rng.normal(size=10).std(ddof=1)), 9, "") for sd in arms] for arms in sds[1:]]
        found = elsewhere(known)
        assert found is not None
        hits += found.limit(0.1) < sds[0, 0] < found.limit(0.9)
    assert hits / 1500 == pytest.approx(0.8, abs=0.06)
    assert elsewhere([[Noise(0.0, 5, "")], []]) is None


def test_pairs_of_a_range_are_those_of_its_limits():
    noise = Noise(0.1, 5, "")
    pairs, low, high = pairs_range(noise, 0.1)
    assert (pairs, low, high) == tuple(pairs_for(0.1 / sd) for sd in (0.1, noise.limit(0.1), noise.limit(0.9)))
    assert pairs_range(Noise(0.0, 5, ""), 0.1) == (LEAST_PAIRS,) * 3
    assert pairs_range(noise, 1e-9) == (None, None, None)
