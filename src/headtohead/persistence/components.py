"""Estimates the variance components of a paired difference, with intervals; `variance` has the design. Imports only
numpy and scipy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

LEVEL = 0.95  # of the intervals


@dataclass(frozen=True)
class MeanSquare:
    """A mean square with its degrees of freedom; perhaps a sum of several (Satterthwaite)."""

    value: float
    df: float


@dataclass(frozen=True)
class Component:
    """One source of noise. `sd` and its interval are of one pair's difference, in the unit of the metric."""

    source: str
    sd: float
    low: float  # 95 % interval
    high: float
    averages: bool  # more pairs reduce it
    share: float = 0.0  # of the variance of the study's mean difference


def component(
    source: str, ms: MeanSquare, noise: MeanSquare | None = None, per: int = 1, *, averages: bool = True
) -> Component:
    """The component (ms − noise) / per, not below zero, with the interval of Williams and Tukey."""
    from scipy import special

    tail = (1 - LEVEL) / 2
    high_chi, low_chi = float(special.chdtri(ms.df, tail)), float(special.chdtri(ms.df, 1 - tail))
    less = noise.value if noise else 0.0
    low_less = high_less = 0.0
    if noise and noise.value > 0:
        low_less = less * float(special.fdtri(ms.df, noise.df, 1 - tail))
        high_less = less * float(special.fdtri(ms.df, noise.df, tail))
    bounds = (ms.value - less, (ms.value - low_less) * ms.df / high_chi, (ms.value - high_less) * ms.df / low_chi)
    sd, low, high = (math.sqrt(max(0.0, bound) / per) for bound in bounds)
    return Component(source, sd, low, high, averages)


def combined(*parts: tuple[float, MeanSquare]) -> MeanSquare:
    """A weighted sum of mean squares with Satterthwaite's degrees of freedom."""
    value = sum(weight * ms.value for weight, ms in parts)
    spread = sum((weight * ms.value) ** 2 / ms.df for weight, ms in parts)
    return MeanSquare(max(0.0, value), max(1.0, value**2 / spread) if spread > 0 else 1.0)


def components(
    crossed: ArrayLike, chaos: ArrayLike, halves: ArrayLike, texts: tuple[float, int] | None, rate: float | None
) -> list[Component]:
    """Estimate the sources of noise.

    `crossed` (L, L) has the differences by initial weights and batch order; `chaos` (L,) those of the perturbed pairs;
    `halves` (L, 2) those on the two halves of the training text; `texts` the sd of a resampled test set and its number
    of clusters; `rate` the sd due to the choice of the learning rate.
    """
    d, levels = np.asarray(crossed, float), len(np.asarray(crossed))
    rows, columns, mean = d.mean(axis=1), d.mean(axis=0), d.mean()
    rest = d - rows[:, None] - columns[None, :] + mean
    ms_i = MeanSquare(float(levels * ((rows - mean) ** 2).sum() / (levels - 1)), levels - 1)
    ms_o = MeanSquare(float(levels * ((columns - mean) ** 2).sum() / (levels - 1)), levels - 1)
    ms_e = MeanSquare(float((rest**2).sum() / (levels - 1) ** 2), (levels - 1) ** 2)
    ms_c = MeanSquare(float(((np.asarray(chaos, float) - np.diag(d)) ** 2).mean() / 2), levels)
    pair = np.asarray(halves, float)
    ms_h = MeanSquare(float(((pair[:, 0] - pair[:, 1]) ** 2).mean() / 4), levels)
    # two runs with new batches differ by O and e; half of that variance is in the mean square of the halves
    batches = combined((0.5 / levels, ms_o), (0.5 * (1 - 1 / levels), ms_e))
    found = [
        component("initial weights", ms_i, ms_e, levels),
        component("batch order", ms_o, ms_e, levels),
        component("weights × order", ms_e, ms_c),
        component("numerical chaos", ms_c),
        component("training text", ms_h, batches, averages=False),
    ]
    if texts is not None:
        sd, clusters = texts
        found.append(component("test texts", MeanSquare(sd**2, max(1, clusters - 1)), averages=False))
    if rate is not None:
        found.append(Component("choice of rate", rate, math.nan, math.nan, averages=False))
    return found


def shared(found: Sequence[Component], pairs: int) -> list[Component]:
    """The components with their shares of the variance of a mean difference over `pairs` pairs."""
    variances = [c.sd**2 / (pairs if c.averages else 1) for c in found]
    total = sum(variances)
    return [dataclasses.replace(c, share=v / total if total else 0.0) for c, v in zip(found, variances, strict=True)]
