"""Warnings about results that a table of means hides. Imports no torch.

Each warning says what happened and what to do. On normal noise, at most 5 % of arms are called skewed and at most 1.5 %
have a run that is called far worse: tests/outcome/test_cautions.py measures both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headtohead.outcome.metrics import better_way, change_text, figure_of, text_of
from headtohead.run.studies import TuningRecord
from headtohead.stats import ALPHA, LEAST_PAIRS, compare, t_quantile

if TYPE_CHECKING:
    from headtohead.outcome.outcome import RunRow

OUTLIER = 0.03  # false alarms of the search for one pair far off the others, on normal noise
SKEWNESS = 2.8  # standard errors of the skewness; normal noise exceeds it in 1 % of studies
SCALED = 1.4826  # the standard deviation of normal noise, in median absolute deviations
OTHER_FIGURE = {"accuracy": "loss", "macro_f1": "loss", "loss": "accuracy"}


def cautions(
    metric: str,
    task: str,
    tuning: Sequence[TuningRecord],
    control: Sequence[RunRow],
    variants: Mapping[str, Sequence[RunRow]],
) -> Iterator[str]:
    """Yield the warnings about the runs of a study: one line each."""
    for rows in (control, *variants.values()):
        yield from far_off(metric, rows)
    for arm, rows in variants.items():
        pairs = _pairs(control, rows)
        yield from skewed(metric, arm, {c.seed: v.value - c.value for c, v in pairs})
        if task == "classifier":
            yield from disagreeing(metric, arm, pairs)
    yield from at_edge(tuning)


def skewed(metric: str, arm: str, differences: Mapping[int, float]) -> Iterator[str]:
    """Warn if one pair moves the mean of the differences much, or if they have a long tail on one side."""
    d, n = np.array(list(differences.values())), len(differences)
    if n < LEAST_PAIRS or not np.ptp(d) > 1e-9 * np.abs(d).max():
        return
    without = (d.sum() - d) / (n - 1)  # the mean without each pair
    sds = np.array([np.delete(d, i).std(ddof=1) for i in range(n)])
    worst = int(np.argmax(np.abs(d - without) / np.maximum(sds, 1e-300)))
    error = max(sds[worst] / math.sqrt(n - 1), 1e-300)
    t = abs(d[worst] - without[worst]) / (error * math.sqrt(n))
    is_outlier = t > t_quantile(1 - OUTLIER / (2 * n), n - 1)  # Grubbs' test
    moved = abs(d.mean() - without[worst]) > t_quantile(0.975, n - 1) * error / 2  # half of the half-width without it
    skewness = abs(((d - d.mean()) ** 3).mean()) / d.std() ** 3
    is_skewed = skewness > SKEWNESS * math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    if not (is_outlier and moved) and not is_skewed:
        return
    mean, median, low, high = (
        change_text(metric, float(x)) for x in (d.mean(), np.median(d), without.min(), without.max())
    )
    remedy = (
        f"Compare the runs of seed {list(differences)[worst]} with the others before you use the mean"
        if is_outlier and moved
        else "Report the median beside the mean"
    )
    yield (
        f"{arm}: the differences are skewed: mean {mean}, median {median}, mean without one pair {low} to {high}. "
        f"{remedy}."
    )


def far_off(metric: str, rows: Sequence[RunRow]) -> Iterator[str]:
    """Warn of runs that are far worse than the others of their arm, measured in median absolute deviations."""
    done = [row for row in rows if math.isfinite(row.value)]
    n = len(done)
    if n < LEAST_PAIRS:
        return
    worse = np.array([row.value for row in done]) * (1 if better_way(metric) == "lower" else -1)
    away = worse - np.median(worse)
    scale = SCALED * float(np.median(np.abs(away)))
    if not scale > 1e-9 * float(np.abs(worse).max()):
        return
    limit = max(5.5, 60 / n)  # the deviation of few values is often small by chance
    bad = [row for row, off in zip(done, away / scale, strict=True) if off > limit]
    if bad:
        values = ", ".join(f"{text_of(metric, row.value)} (seed {row.seed})" for row in bad)
        median = text_of(metric, float(np.median([row.value for row in done])))
        yield (
            f"{done[0].arm}: {values} {'is' if len(bad) == 1 else 'are'} far worse than the arm's median {median}: the "
            "training may have half failed. Look at the learning curves, and lower the rate or clip gradients if they "
            "have jumps."
        )


def disagreeing(metric: str, arm: str, pairs: Sequence[tuple[RunRow, RunRow]]) -> Iterator[str]:
    """Warn if loss and accuracy of the same classifiers point in opposite directions."""
    name, figure = metric.partition("/")[0], figure_of(metric)
    other = f"{name}/{OTHER_FIGURE.get(figure, '')}"
    both = [(c, v) for c, v in pairs if _is_number(c.values.get(other)) and _is_number(v.values.get(other))]
    if len(both) < LEAST_PAIRS:
        return
    gain = np.mean([v.value - c.value for c, v in both]) * _good(metric)
    found = compare([c.values[other] for c, _ in both], [v.values[other] for _, v in both], better=better_way(other))
    if gain and gain * found.difference * _good(other) < 0 and found.p <= ALPHA:
        ours, theirs = (
            change_text(m, float(x)) for m, x in ((metric, gain * _good(metric)), (other, found.difference))
        )
        p = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}"
        yield (
            f"{arm}: {figure} is {'better' if gain > 0 else 'worse'} ({ours}) and {figure_of(other)} is "
            f"{'worse' if gain > 0 else 'better'} ({theirs}, {p}) in the same runs. Report both: loss also counts how "
            "confident wrong answers are."
        )


def at_edge(tuning: Sequence[TuningRecord]) -> Iterator[str]:
    """Warn of tuned settings whose best value is the smallest or largest of the grid."""
    for tuned in tuning:
        for path in tuned.edge:
            yield (
                f"{tuned.arm} was best at {path} = {tuned.best[path]}, the edge of the grid: a better value may lie "
                "beyond. Add values there."
            )


def _pairs(control: Sequence[RunRow], rows: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    by_seed = {row.seed: row for row in rows if math.isfinite(row.value)}
    return [(c, by_seed[c.seed]) for c in control if c.seed in by_seed and math.isfinite(c.value)]


def _good(metric: str) -> int:
    return -1 if better_way(metric) == "lower" else 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
