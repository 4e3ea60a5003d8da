"""Variance components: on simulated noise of known size, and against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead.persistence.components import Component, MeanSquare, combined, component, components, shared

SOURCES = ("initial weights", "batch order", "weights × order", "numerical chaos", "training text")


def simulated(random: np.random.Generator, levels: int, i: float, o: float, io: float, c: float, text: float):
    """Differences of a design whose sources have these sds."""
    weights = random.normal(0, i, levels)
    pairs = random.normal(0, io, (levels, levels))
    base = 7 + weights[:, None] + random.normal(0, o, levels)[None, :] + pairs
    crossed = base + random.normal(0, c, (levels, levels))
    chaos = np.diag(base) + random.normal(0, c, levels)
    batches = random.normal(0, math.hypot(o, io, c), (levels, 2))  # a half has batches of its own
    halves = 7 + weights[:, None] + batches + random.normal(0, text, levels)[:, None] * np.array([1, -1])
    return crossed, chaos, halves


@pytest.mark.parametrize(
    "sds",
    [(3.0, 2.0, 1.0, 0.5, 2.0), (0.0, 3.0, 1.0, 0.1, 0.0), (2.0, 0.0, 0.0, 1.0, 3.0), (0.0, 0.0, 0.0, 1.0, 0.0)],
)
def test_known_sources_are_found_on_average_and_covered(sds):
    random, levels, times = np.random.default_rng(0), 6, 600
    found = [components(*simulated(random, levels, *sds), None, None) for _ in range(times)]
    for n, (source, sd) in enumerate(zip(SOURCES, sds, strict=True)):
        measured = [f[n] for f in found]
        assert {m.source for m in measured} == {source}
        variances = np.array([m.sd**2 for m in measured])
        error = variances.std() / math.sqrt(times)
        # a variance that is never below zero is too large on average where the true one is small
        assert variances.mean() > sd**2 - 4 * error
        if sd >= 2:
            assert variances.mean() < 1.1 * sd**2 + 4 * error
        covered = np.mean([m.low - 1e-12 <= sd <= m.high for m in measured])
        assert covered > 0.92, source


def test_mean_squares_are_those_of_the_definition():
    random = np.random.default_rng(4)
    d, chaos, halves = simulated(random, 3, 5, 5, 1, 0.01, 9)
    found = {c.source: c.sd**2 for c in components(d, chaos, halves, (0.3, 50), 0.7)}
    mean = sum(d[i][j] for i in range(3) for j in range(3)) / 9
    row = [sum(d[i][j] for j in range(3)) / 3 for i in range(3)]
    column = [sum(d[i][j] for i in range(3)) / 3 for j in range(3)]
    e = sum((d[i][j] - row[i] - column[j] + mean) ** 2 for i in range(3) for j in range(3)) / 4
    assert found["initial weights"] == pytest.approx((3 * sum((r - mean) ** 2 for r in row) / 2 - e) / 3)
    order = (3 * sum((c - mean) ** 2 for c in column) / 2 - e) / 3
    assert found["batch order"] == pytest.approx(order)
    c = sum((chaos[k] - d[k][k]) ** 2 for k in range(3)) / 6
    assert found["numerical chaos"] == pytest.approx(c)
    assert found["weights × order"] == pytest.approx(e - c)
    text = sum((a - b) ** 2 for a, b in halves) / 12
    assert found["training text"] == pytest.approx(text - (order + e) / 2)
    assert found["test texts"] == pytest.approx(0.09)
    assert found["choice of rate"] == pytest.approx(0.49)


def test_interval_of_one_mean_square_is_that_of_chi_squared():
    random = np.random.default_rng(5)
    means = (2.0**2) * random.chisquare(4, 4000) / 4
    found = [component("x", MeanSquare(float(m), 4)) for m in means]
    assert np.mean([c.low <= 2 <= c.high for c in found]) == pytest.approx(0.95, abs=0.015)
    assert np.mean([c.low > 2 for c in found]) == pytest.approx(0.025, abs=0.01)


def test_interval_of_a_component_is_that_of_williams_and_tukey():
    from scipy.stats import chi2, f

    found = component("x", MeanSquare(9.0, 3), MeanSquare(1.0, 9), 4)
    assert found.sd**2 == pytest.approx((9 - 1) / 4)
    assert found.low**2 == pytest.approx((9 - f.ppf(0.975, 3, 9)) * 3 / chi2.ppf(0.975, 3) / 4)
    assert found.high**2 == pytest.approx((9 - f.ppf(0.025, 3, 9)) * 3 / chi2.ppf(0.025, 3) / 4)


def test_a_source_below_its_noise_is_zero_with_an_upper_limit():
    found = component("x", MeanSquare(1.0, 3), MeanSquare(2.0, 9))
    assert (found.sd, found.low) == (0, 0)
    assert found.high > 0


def test_degrees_of_freedom_of_a_sum():
    both = combined((0.5, MeanSquare(2.0, 3)), (0.5, MeanSquare(2.0, 3)))
    assert (both.value, both.df) == (2.0, 6)
    assert combined((1.0, MeanSquare(2.0, 3))).df == pytest.approx(3)


def test_pairs_average_only_their_sources():
    found = [Component("batch order", 2.0, 0, 1, averages=True), Component("test texts", 1.0, 0, 1, averages=False)]
    assert [c.share for c in shared(found, 4)] == [0.5, 0.5]
    assert [c.share for c in shared(found, 400)] == pytest.approx([4 / 404, 400 / 404])
    assert [c.share for c in shared([Component("batch order", 0.0, 0, 1, averages=True)], 4)] == [0.0]
