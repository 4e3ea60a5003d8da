"""Compares two trained models item by item: what if only the test texts were resampled? Imports only numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headtohead.errors import InputError
from headtohead.stats.paired import numbers


@dataclass(frozen=True)
class ItemTest:
    """The comparison of two trained models if the test texts were resampled. It does not cover other seeds."""

    difference: float  # weighted mean over items, variant − control
    low: float
    high: float
    items: int
    clusters: int
    p: float | None = None  # exact McNemar test, for right and wrong answers


def mcnemar(control: ArrayLike, variant: ArrayLike) -> float:
    """The exact p-value of McNemar's test for two classifiers on the same items, given which items each got right."""
    a, b = np.asarray(control, dtype=bool), np.asarray(variant, dtype=bool)
    if a.shape != b.shape:
        raise InputError(f"the classifiers have answers to {a.size} and {b.size} items: give both for the same items")
    gained, lost = int((~a & b).sum()), int((a & ~b).sum())
    disputed = gained + lost  # only items on which the classifiers disagree count
    ways = total = 1  # number of ways to choose i disputed items, and at most i; exact integers
    for i in range(1, min(gained, lost) + 1):
        ways = ways * (disputed - i + 1) // i
        total += ways
    return min(1.0, 2 * total / 2**disputed)


def over_items(
    differences: ArrayLike, weights: ArrayLike | None = None, clusters: ArrayLike | None = None, draws: int = 2000
) -> ItemTest:
    """The weighted mean difference over items, with a 95 % bootstrap interval.

    The bootstrap resamples whole clusters, such as documents, because items of one document are not independent.
    """
    d = numbers("differences", differences)
    w = np.ones_like(d) if weights is None else numbers("weights", weights)
    c = np.arange(len(d)) if clusters is None else np.unique(np.asarray(clusters).ravel(), return_inverse=True)[1]
    if not len(d) == len(w) == len(c) or len(d) == 0:
        raise InputError("differences, weights and clusters must have the same length, and at least one item")
    if np.isnan(d).any() or not (w >= 0).all() or not w.sum() > 0:
        raise InputError("every item needs a difference and a weight of 0 or more, and at least one weight above 0")
    count = int(c.max()) + 1
    top, bottom = np.bincount(c, d * w, count), np.bincount(c, w, count)
    picks = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=draws)  # (draws, clusters)
    means = (picks @ top) / np.maximum(picks @ bottom, np.finfo(float).tiny)
    low, high = np.quantile(means, [0.025, 0.975]) if count > 1 else (-math.inf, math.inf)
    return ItemTest(float(top.sum() / bottom.sum()), float(low), float(high), len(d), count)
