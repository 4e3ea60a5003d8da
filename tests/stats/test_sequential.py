"""Planned analyses: what rounding errors must not change."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.stats import Design
from headtohead.stats.sequential import judge


@pytest.mark.parametrize("constant", [0.1, -0.7, 1e-3])
def test_an_arm_with_equal_differences_changes_no_other(constant: float):
    """Its differences are equal up to rounding errors, so its noise is zero: it cannot widen another arm's interval."""
    base, noise = np.random.default_rng(0).normal(size=(2, 8))
    rounded = (base + constant) - base
    assert 0 < np.ptp(rounded) < 1e-15
    alone, beside = (judge(np.column_stack([noise, *others]), Design((8,))) for others in ((), (rounded,)))
    assert (beside[0].low, beside[0].high) == (alone[0].low, alone[0].high)
    assert beside[1].state == "differs"
