"""Norms against their equations."""

import math

import pytest
import torch

from headtohead import DyT
from helpers.models import stirred


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_dyt_matches_its_equation(bias):
    norm = stirred(DyT(slope=0.7, bias=bias).build(5))
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out, a = norm(x), float(norm.slope)
    for t in range(3):
        for k in range(5):
            y = float(norm.weight[k]) * math.tanh(a * float(x[t, k])) + (float(norm.bias[k]) if bias else 0)
            assert float(out[t, k]) == pytest.approx(y, abs=1e-12)


def test_dyt_starts_as_a_plain_tanh():
    norm = DyT().build(5)
    x = torch.randn(3, 5)
    assert torch.equal(norm(x), torch.tanh(0.5 * x))
