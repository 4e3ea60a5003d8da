"""Differences in words, and what a picture is scaled by. Of shares, such as accuracies, differences are points: a
percent could be taken for a share of a share."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from headtohead.metrics import UNITS, figure_of, text_of
from headtohead.outcome import Verdicts
from headtohead.stats import LEAST_PAIRS

FAR = 100  # times as far as all the others: drawn to scale, the others would be one dot


def is_share(metric: str) -> bool:
    """Whether people read it in percent."""
    return figure_of(metric) in ("accuracy", "macro_f1")


def unit_of(metric: str) -> str:
    """Of a difference."""
    return "points" if is_share(metric) else UNITS[figure_of(metric)]


def difference_text(metric: str, value: float, signed: bool = True) -> str:
    """Without its unit, which the head of a column has. Digits behind the point say nothing of thousands."""
    if 1000 <= abs(value) < 1e7 and not is_share(metric):
        return f"{value:{'+' if signed else ''},.1f}".replace("-", "−")
    return text_of(metric, value, signed).removesuffix(" %")


def between(metric: str, low: float, high: float) -> str:
    """An interval of differences, without the unit."""
    return f"{difference_text(metric, low)} … {difference_text(metric, high)}" if math.isfinite(low) else "–"


def amount(metric: str, value: float, signed: bool = True) -> str:
    """With its unit."""
    return f"{difference_text(metric, value, signed)} {unit_of(metric)}".rstrip()


def in_points(metric: str, line: str) -> str:
    """A line as the screen has it, with its differences in points. Of percents, those of the metric alone have two
    digits behind the point."""
    return re.sub(r"(\d\.\d\d) %", r"\1 points", line) if is_share(metric) else line


def short(value: float, sign: str = "") -> str:
    """For the edge of a picture: 12.3, 1,230, 1.2e+15."""
    size = abs(value)
    text = f"{value:{sign}.2g}" if size >= 1e7 else f"{value:{sign},.0f}" if size >= 100 else f"{value:{sign}.3g}"
    return text.replace("-", "−")


def family(verdicts: Verdicts) -> int:
    """How many arms p was corrected for: those that can get a verdict, as `stats.compare_all` has it."""
    enough = sum(row.verdict.pairs >= LEAST_PAIRS for row in verdicts)
    return enough or len(verdicts)


# -- runs without a value ----------------------------------------------------------------------------------------------


def cause(why: str) -> str:
    """What a run without a value was lost to."""
    if why.startswith("diverged") or "too large" in why:
        return "divergence"
    if why.startswith("collapsed"):
        return "collapse"
    unfinished = why == "not trained yet" or re.fullmatch("its run is (running|stopped)", why)
    return "runs that are not finished" if unfinished else "failure"


def joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


# -- what lies beyond the edge -----------------------------------------------------------------------------------------


def far_off(reaches: Mapping[str, float], size: float) -> set[str]:
    """Arms so far off, by their reach from what they are compared with, that drawn to scale they would hide all others.
    `size` is that of the metric itself: where the others differ by nothing, a share of it stands for their reach."""
    ordered = sorted((reach, name) for name, reach in reaches.items() if math.isfinite(reach))
    for n in range(1, len(ordered)):
        near = ordered[n - 1][0]
        if ordered[n][0] > FAR * (near if near > 1e-6 * size else 0.01 * size):
            return {name for _, name in ordered[n:]}
    return set()
