"""Verdicts of unrelated runs are wrong no more often than promised, whatever the noise, and intervals cover."""

from __future__ import annotations

import math

import pytest

from .unpaired import NOISES, covered_share, draws, false_share, may_be_real, verdicts, welch_share

STUDIES = 1000
ONE_ARM = [((6, 6), (1, 1)), ((6, 6), (1, 2)), ((12, 6), (1, 2)), ((6, 12), (1, 3)), ((4, 4), (1, 2))]
MANY_ARMS = [((6, 6, 6), (1, 1, 1)), ((8, 6, 10, 5), (1, 2, 1, 3)), ((6, 8, 12), (2, 1, 1))]


def at_most(share: float) -> float:
    """Two standard errors above the share."""
    return share + 2 * math.sqrt(share * (1 - share) / STUDIES)


@pytest.mark.parametrize(("runs", "sds"), ONE_ARM + MANY_ARMS)
@pytest.mark.parametrize("kind", NOISES)
def test_false_verdicts_and_coverage(kind: str, runs: tuple[int, ...], sds: tuple[float, ...]) -> None:
    studies = draws(kind, runs, sds, STUDIES)
    assert false_share(studies) <= at_most(0.05)
    assert covered_share(studies) >= 1 - at_most(0.05)


def test_a_plain_welch_test_fails_on_skewed_noise() -> None:
    """The reason for the wider interval."""
    assert welch_share(draws("exponential", (12, 6), (1, 3), STUDIES)) > 0.08


def test_the_quick_check_agrees_with_verdicts() -> None:
    for study in draws("exponential", (6, 5), (1, 2), 100):
        assert may_be_real(study, 2.0) or not verdicts(study, 2.0)[0].is_real


def test_large_effects_are_found() -> None:
    assert false_share(draws("normal", (6, 6), (1, 1), 300), effect=3.0) > 0.9
