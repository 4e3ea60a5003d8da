"""Verdicts of invented values, without training; and verdicts without advice, where a test needs thousands."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from headtohead.outcome.outcome import ArmVerdict, Excluded, Verdicts
from headtohead.stats import compare_all, paired, pairs_for


def judged(*arms: str, question: str = "?", pairs: int = 6, metric: str = "test/loss", size: float = 0.1) -> Verdicts:
    """Verdicts of these arms. All runs of an arm whose name begins with `diverged` have diverged."""
    draw = np.random.default_rng(0)
    base = 4 + 0.05 * draw.normal(size=pairs)
    values = {
        name: np.full(pairs, math.nan)
        if name.startswith("diverged")
        else base[::-1] - size + 0.01 * draw.normal(size=pairs)
        for name in arms
    }
    found = compare_all(base, values)
    rows = [
        ArmVerdict(
            arm=name,
            differs={},
            mean=float(values[name].mean()),
            verdict=found[name],
            extra_parameters=-1234,
            extra_time=-0.123,
            extra_flops=0.0,
            items=None,
            items_agree=None,
            items_pairs=0,
            excluded=tuple(
                Excluded(s, name, "diverged at step 2") for s in range(pairs) if name.startswith("diverged")
            ),
        )
        for name in arms
    ]
    return Verdicts(
        question=question,
        metric=metric,
        better="lower",
        title="",
        control="Learned",
        control_mean=float(base.mean()),
        control_excluded=(),
        arms=tuple(rows),
        noise=None,
        seeds=pairs,
        scope="of a test",
        notes=(),
    )


@pytest.fixture(scope="module")
def no_advice() -> Iterator[None]:
    """Leave out how many pairs are needed: it takes longer than all the rest of a verdict."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "pairs_for", lambda *_: None)
        yield


@pytest.fixture
def advice(no_advice: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Say how many pairs are needed, in a module that leaves it out."""
    monkeypatch.setattr(paired, "pairs_for", pairs_for)
