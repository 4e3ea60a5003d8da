"""Verdicts of invented values, without training, and tables of invented values."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from headtohead.outcome.outcome import ArmVerdict, Excluded, Verdicts
from headtohead.stats import compare_all


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


few = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def tables(draw: st.DrawFn, least: int = 2, most: int = 8, arms: int = 4, gaps: bool = False) -> np.ndarray:
    """Values (n, 1 + k) of the control and the arms. They are whole numbers, so ties are frequent and sums exact."""
    n, k = draw(st.integers(least, most)), draw(st.integers(1, arms))
    value = st.integers(-20, 20).map(float)
    value = st.one_of(value, value, value, st.just(math.nan)) if gaps else value
    rows = draw(st.lists(st.lists(value, min_size=k + 1, max_size=k + 1), min_size=n, max_size=n))
    effects = draw(st.lists(st.sampled_from([0.0, 12.0, 40.0, -40.0]), min_size=k, max_size=k))
    return np.array(rows) + np.array([0.0, *effects])


def named(table: np.ndarray) -> dict[str, np.ndarray]:
    """The arms of such a table, with names."""
    return {f"arm {k}": table[:, k] for k in range(1, table.shape[1])}


def noise(n: int, arms: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal values of the control (n,) and of the arms (n, k)."""
    values = np.random.default_rng([seed, n, arms]).normal(size=(n, arms + 1))
    return values[:, 0], values[:, 1:]
