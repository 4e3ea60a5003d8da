from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.external.replicates import may_tie, split_missing, without_identical, without_repeats
from headtohead.external.values import Value


def values(*given: tuple[str, str | None, float]) -> list[Value]:
    return [Value(arm, seed, value, "file") for arm, seed, value in given]


def test_repeats_of_a_seed_are_refused_with_the_reason() -> None:
    repeated = values(("a", "1", 2.0), ("a", "1", 4.0), ("a", "2", 5.0), ("b", "1", 1.0))
    with pytest.raises(InputError, match=r"a has 2 values for seed 1: .* cannot show what another seed would give"):
        without_repeats(repeated, average=False)
    merged, notes = without_repeats(repeated, average=True)
    assert [(v.arm, v.seed, v.value) for v in merged] == [("a", "1", 3.0), ("a", "2", 5.0), ("b", "1", 1.0)]
    assert "4 values were averaged to 3" in notes[0]


def test_runs_without_seeds_are_no_repeats() -> None:
    found = values(("a", None, 2.0), ("a", None, 4.0))
    assert without_repeats(found, average=False) == (found, [])


def test_equal_values_under_different_seeds_are_refused() -> None:
    same = values(("a", "1", 2.123456789), ("a", "2", 2.123456789), ("b", "1", 2.123456789))
    with pytest.raises(InputError, match="seed 1 and seed 2 give exactly the same value"):
        without_identical(same, average=False)
    kept, notes = without_identical(same, average=True)
    assert [(v.arm, v.seed) for v in kept] == [("a", "1"), ("b", "1")]
    assert notes


@pytest.mark.parametrize("value", [0.0, 1.0, 0.85, 128 / 150, 100 * 743 / 872, -3.25, float(np.float32(744 / 872))])
def test_shares_and_short_numbers_may_tie(value: float) -> None:
    assert may_tie(value)


@pytest.mark.parametrize("value", [math.pi, 2.1234567891, -1e-9 * math.e, float(np.float32(0.87123451))])
def test_long_numbers_do_not_tie(value: float) -> None:
    assert not may_tie(value)


def test_missing_values_are_named() -> None:
    there, missing, notes = split_missing(
        values(("a", "1", math.nan), ("a", "1", 2.0), ("a", "2", math.inf), ("b", "1", 1.0))
    )
    assert [v.value for v in there] == [2.0, 1.0]
    assert [v.named for v in missing] == ["a, seed 2"]
    assert "a, seed 1" in notes[0]
