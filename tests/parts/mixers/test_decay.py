"""Learned steps and decays: initial values, limits, and the decays between tokens of a chunk."""

import math

import pytest
import torch

from headtohead.parts.mixers.decay import Decay, decays_within


def test_initial_steps_and_rates_are_in_their_ranges():
    torch.manual_seed(0)
    decay = Decay(2000, steps=(0.01, 0.5))
    with torch.no_grad():
        dt, g = decay(torch.zeros(1, 2000))
    assert 0.00999 < float(dt.min()) < 0.012
    assert 0.45 < float(dt.max()) < 0.50001
    assert float(dt.log().mean()) == pytest.approx((math.log(0.01) + math.log(0.5)) / 2, abs=0.1)
    rates = -g / dt
    assert 0.999 < float(rates.min()) < 1.2
    assert 15.8 < float(rates.max()) < 16.001


def test_decays_within_a_chunk_are_products_of_each_step():
    g = -torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    between, since, until = decays_within(g)
    a = g.exp()
    for n in range(2):
        for t in range(5):
            for s in range(5):
                expected = math.prod(a[n, s + 1 : t + 1].tolist()) if s <= t else 0.0
                assert float(between[n, t, s]) == pytest.approx(expected, abs=1e-14)
            assert float(since[n, t]) == pytest.approx(math.prod(a[n, : t + 1].tolist()), abs=1e-14)
            assert float(until[n, t]) == pytest.approx(math.prod(a[n, t + 1 :].tolist()), abs=1e-14)


@pytest.mark.parametrize("strong", [-100.0, -1e6, -torch.inf])
def test_weak_decays_after_a_strong_one_keep_their_digits(strong):
    g = torch.tensor([-0.5, strong, -0.001, -0.002])
    between, since, until = decays_within(g)
    torch.testing.assert_close(between[3, 1:], torch.tensor([-0.003, -0.002, 0.0]).exp(), rtol=1e-7, atol=0)
    assert 0 <= float(until[0]) < 1e-40
    assert 0 <= float(since[3]) < 1e-40
