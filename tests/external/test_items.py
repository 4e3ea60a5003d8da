from __future__ import annotations

import numpy as np
import pytest

from headtohead.external.items import compare_items
from headtohead.stats import mcnemar, over_items


def answers(*columns: np.ndarray) -> dict[str, dict[tuple[str, str, str], float]]:
    return {f"m{k}": {("", str(i), ""): float(v) for i, v in enumerate(c)} for k, c in enumerate(columns)}


def test_one_arm_is_what_stats_says() -> None:
    make = np.random.default_rng(0)
    a, b = (make.random(200) < 0.5).astype(float), (make.random(200) < 0.7).astype(float)
    verdicts, means, _ = compare_items("m0", answers(a, b), None, "higher")
    expected = over_items(b - a)
    found = verdicts["m1"]
    assert (found.difference, found.low, found.high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    assert found.p == pytest.approx(mcnemar(a, b))
    assert means == {"m0": a.mean(), "m1": b.mean()}
    assert found.verdict == "better"
    assert compare_items("m0", answers(a, b), None, "lower")[0]["m1"].verdict == "worse"


def test_arms_are_corrected_for_and_values_may_be_any_numbers() -> None:
    make = np.random.default_rng(1)
    a, b, c = make.normal(size=(3, 100))
    alone = compare_items("m0", answers(a, b), None, "lower")[0]["m1"]
    both = compare_items("m0", answers(a, b, c), None, "lower")[0]["m1"]
    assert alone.p is None
    assert (both.high - both.low) / (alone.high - alone.low) == pytest.approx(2.2414 / 1.9600, rel=1e-4)
    assert compare_items("m0", answers(a, a + 0.01), 1.0, "lower")[0]["m1"].verdict == "equivalent"


def test_false_verdicts_over_items() -> None:
    make = np.random.default_rng(2)
    false = 0
    for _ in range(200):
        columns = (make.random((4, 150)) < 0.6).astype(float)
        verdicts = compare_items("m0", answers(*columns), None, "higher")[0]
        false += any(v.is_real for v in verdicts.values())
        assert all(v.is_real == (v.low > 0 or v.high < 0) for v in verdicts.values())
    assert false <= 16  # 5 % of 200, and two standard errors


def test_p_is_multiplied_by_the_number_of_arms() -> None:
    make = np.random.default_rng(3)
    a, b, c = (make.random((3, 100)) < 0.5).astype(float)
    found = compare_items("m0", answers(a, b, c), None, "higher")[0]
    assert found["m1"].p == pytest.approx(min(1.0, 2 * mcnemar(a, b)))
    better = np.concatenate([np.ones(60), b[60:]])
    assert compare_items("m0", answers(a, better, c), None, "higher")[0]["m1"].p == pytest.approx(
        2 * mcnemar(a, better)
    )
