"""Differences as text, and limits of figures. Differences of shares, such as accuracies, are in percentage points,
because a percentage could be read as relative."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headtohead.outcome.metrics import UNITS, figure_of, text_of
from headtohead.outcome.metrics import is_share as is_share
from headtohead.outcome.wording import is_to_come

FAR = 100  # an arm this many times as far as all others is not drawn to scale


def unit_of(metric: str) -> str:
    """The unit of a difference."""
    return "points" if is_share(metric) else UNITS[figure_of(metric)]


def difference_text(metric: str, value: float, signed: bool = True) -> str:
    """A difference without its unit. Large ones have no decimals."""
    if 1000 <= abs(value) < 1e7 and not is_share(metric):
        return f"{value:{'+' if signed else ''},.1f}".replace("-", "−")
    return text_of(metric, value, signed).removesuffix(" %")


def between(metric: str, low: float, high: float) -> str:
    """An interval of differences, without the unit."""
    return (
        f"{difference_text(metric, low)} … {difference_text(metric, high)}"
        if math.isfinite(low) and math.isfinite(high)
        else "–"
    )


def amount(metric: str, value: float, signed: bool = True) -> str:
    """A difference with its unit."""
    return f"{difference_text(metric, value, signed)} {unit_of(metric)}".rstrip()


def short(value: float, sign: str = "") -> str:
    """A number in a few characters: 12.3, 1,230, 1.2e+15."""
    size = abs(value)
    text = f"{value:{sign}.2g}" if size >= 1e7 else f"{value:{sign},.0f}" if size >= 100 else f"{value:{sign}.3g}"
    return text.replace("-", "−")


# -- runs without a value ----------------------------------------------------------------------------------------------


UNFINISHED = "runs that are not finished"


def cause(why: str) -> str:
    """Why a run has no value."""
    if why.startswith("diverged") or "too large" in why:
        return "divergence"
    if why.startswith("collapsed"):
        return "collapse"
    return UNFINISHED if is_to_come(why) else "failure"


def joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


# -- what lies beyond the edge -----------------------------------------------------------------------------------------


def far_off(reaches: Mapping[str, float], size: float) -> set[str]:
    """Arms that are so far off that they would hide all others if drawn to scale. `size` is that of the metric: if the
    others do not differ, a share of it is their range."""
    ordered = sorted((reach, name) for name, reach in reaches.items() if math.isfinite(reach))
    for n in range(1, len(ordered)):
        near = ordered[n - 1][0]
        if ordered[n][0] > FAR * (near if near > 1e-6 * size else 0.01 * size):
            return {name for _, name in ordered[n:]}
    return set()
