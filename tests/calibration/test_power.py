"""Effects are found as often as forecast, sequential designs need fewer pairs, and estimates are not biased."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from headtohead.stats import Design, power, sequential_design

from .simulated import decide, noise


@pytest.mark.parametrize(
    ("n", "arms"),
    [
        *itertools.product([6, 8, 10], [1, 4]),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in itertools.product([7, 9, 12, 20], [1, 4])),
    ],
)
def test_effects_are_detected_as_often_as_forecast(n, arms):
    studies, strength = (1000, 3.0) if n < 20 else (600, 3.5)
    effect = np.array([strength / math.sqrt(n)] + [0.0] * (arms - 1))
    seen = (
        decide(noise("normal", studies, n, arms, seed=7) + effect, Design((n,), reserve=0.0)).differs[:, 0] > 0
    ).mean()
    assert seen == pytest.approx(power(effect[0], n, arms), abs=0.02 + 2.5 * math.sqrt(0.25 / studies))


@pytest.mark.parametrize(("effect", "fewer", "arms"), [(2.0, 0.8, 1), (3.0, 0.7, 4)])
def test_sequential_studies_of_large_effects_need_fewer_pairs(effect, fewer, arms):
    design = sequential_design(10)
    d = noise("normal", 300, 10, arms, seed=8) + effect
    found = decide(d, design)
    assert (found.differs > 0).mean() > 0.95
    assert found.pairs(design).mean() < fewer * 10


def test_the_longest_design_finds_smaller_effects_than_ten_pairs():
    d = noise("normal", 200, 20, 1, seed=8) + 0.75
    long, ten = sequential_design(20), Design((10,))
    found = decide(d, long)
    assert (found.differs > 0).mean() > (decide(d[:, :10], ten).differs > 0).mean() + 0.05
    assert found.pairs(long).mean() < 18


@pytest.mark.parametrize("effect", [0.5, 1.5])
def test_the_estimate_is_median_unbiased(effect):
    design, studies = sequential_design(10), 300
    d = noise("normal", studies, 10, 1, seed=11) + effect
    found = decide(d, design, [effect], estimate=True)
    above = (found.estimate[:, 0] > effect).mean()
    assert above == pytest.approx(0.5, abs=0.03 + 2.5 * math.sqrt(0.25 / studies))


def test_the_plain_mean_of_stopped_studies_is_too_large():
    """The reason for the corrected estimate."""
    design, effect = sequential_design(10), 1.0
    d = noise("normal", 400, 10, 1, seed=12) + effect
    found = decide(d, design, [effect], estimate=True)
    means = np.array([one[:n, 0].mean() for one, n in zip(d, found.pairs(design)[:, 0], strict=True)])
    assert means.mean() > effect + 0.02
    assert abs(found.estimate.mean() - effect) < means.mean() - effect
