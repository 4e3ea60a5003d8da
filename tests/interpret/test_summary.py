"""The summary of maps."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from headtohead.interpret.maps import attention
from headtohead.interpret.summary import summary
from helpers.models import as_if_trained


def test_a_summary_matches_its_definitions():
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[0, 0] = [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]]
    found = dataclasses.replace(
        attention(as_if_trained(), "abc", padding=0), weights=w, tokens=("a", "b", "c"), real=3, layers=(0,), heads=(0,)
    )
    row = summary(found)[0]
    entropy = (-0.25 * np.log(0.25) - 0.75 * np.log(0.75) - 0.5 * np.log(0.5) - 0.5 * np.log(0.25)) / 2
    assert row["entropy"] == pytest.approx(entropy), "the first query has no choice and does not count"
    assert row["distance"] == pytest.approx((0.25 + (1 + 0.25)) / 2)
    assert row["self"] == pytest.approx((0.75 + 0.25) / 2)
    assert row["previous"] == pytest.approx((0.25 + 0.25) / 2)
    assert row["first"] == pytest.approx((0.25 + 0.5) / 2)
    assert row["strongest"] == "'c' → 'a' 0.50"
