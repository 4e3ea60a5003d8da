"""What a claimed difference is worth: how often chance gives it, what the true one may be, how many pairs decide.

D = mean of the variant's runs − mean of the control's         sd² known from `free` degrees of freedom
unpaired:  se² = sd²/n + sd²/m          paired:  se² = sd² of the differences / n
D − δ over se is Student's t, or normal with an uncertain sd where the noise is of other setups
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from headtohead.claimcheck.claim import Claim
from headtohead.claimcheck.sources import Source
from headtohead.stats import LEAST_PAIRS, MOST_PAIRS, Design
from headtohead.stats.noise import Noise, pairs_range, summed

LIKELY = 0.8  # certainty of ranges
SHARES = 200  # points of an integral


@dataclass(frozen=True)
class Reading:
    """The evidence, read as runs that share nothing or as pairs. Differences are variant − control."""

    paired: bool
    noise: Noise  # of the claimed difference, its standard error
    chance: float  # of a difference of at least this size between two equal models, two-sided
    chance_low: float  # over the likely range of the noise
    chance_high: float
    low: float  # 95 % interval of the true difference
    high: float
    wrong_sign: float  # if all true differences were equally likely before
    best_of: float | None  # chance that the best of several equal variants shows at least this

    @property
    def decides(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, Any]:
        return {
            "paired": self.paired,
            "standard_error": self.noise.sd,
            "chance": self.chance,
            "chance_low": self.chance_low,
            "chance_high": self.chance_high,
            "low": self.low,
            "high": self.high,
            "wrong_sign": self.wrong_sign,
            "best_of": self.best_of,
            "excludes_zero": self.decides,
        }


@dataclass(frozen=True)
class Need:
    """How many pairs a study needs for a true difference; None: more than MOST_PAIRS."""

    difference: float
    power: float
    pairs: int | None
    pairs_low: int | None
    pairs_high: int | None

    @property
    def text(self) -> str:
        """14 pairs (likely 9 to 24)."""
        many = f"more than {MOST_PAIRS:,}"
        if self.pairs is None:
            return f"{many} pairs"
        low, high = (many if n is None else f"{n:,}" for n in (self.pairs_low, self.pairs_high))
        return f"{self.pairs:,} pairs" + ("" if low == high else f" (likely {low} to {high})")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def reading_of(claim: Claim, source: Source, paired: bool) -> Reading | None:
    """The evidence as pairs or as unrelated runs; None where the noise for that is not known."""
    noise = _error(claim, source, paired)
    if noise is None or claim.difference is None:
        return None
    size = abs(claim.difference)
    chance, reach = noise.beyond(size), noise.reach()
    ends = [_normal_beyond(size, noise.limit(share)) for share in ((1 - LIKELY) / 2, (1 + LIKELY) / 2)]
    return Reading(
        paired=paired,
        noise=noise,
        chance=chance,
        chance_low=ends[0],
        chance_high=ends[1],
        low=claim.difference - reach,
        high=claim.difference + reach,
        wrong_sign=chance / 2,
        best_of=best_of(noise, size, claim.tried) if claim.tried > 1 else None,
    )


def _error(claim: Claim, source: Source, paired: bool) -> Noise | None:
    """The standard error of the claimed difference."""
    if paired:
        known = source.pairs_known and claim.runs == claim.control_runs
        return source.pairs.times(1 / math.sqrt(claim.runs)) if known else None
    one, two = source.variant, source.control
    if one is None or two is None:
        return None
    if one is two:  # the same sd, so its errors do not cancel
        return one.times(math.sqrt(1 / claim.runs + 1 / claim.control_runs))
    return summed(one.times(1 / math.sqrt(claim.runs)), two.times(1 / math.sqrt(claim.control_runs)))


def _normal_beyond(size: float, sd: float) -> float:
    return float(2 * special.ndtr(-size / sd)) if sd > 0 else float(size <= 0)


def best_of(noise: Noise, size: float, tried: int) -> float:
    """The chance that the best of several equal variants is ahead of their common control by at least `size`.
    Differences that share a control have a correlation of 0.5."""
    if noise.sd == 0:
        return float(size <= 0)
    shared = special.ndtri((np.arange(SHARES) + 0.5) / SHARES)  # the control's part, in standard errors
    shares = (np.arange(SHARES) + 0.5) / SHARES
    sds = np.array([noise.limit(share) for share in shares])
    each = special.ndtr((size / sds[:, None] - math.sqrt(0.5) * shared) / math.sqrt(0.5))
    return float(1 - (each**tried).mean())


def needs_of(claim: Claim, source: Source, design: Design) -> list[Need]:
    """Pairs for the claimed difference with 80 % and 90 % power, and for half of it with 80 %."""
    size = abs(claim.difference or 0.0)
    if size == 0:
        return []
    found = []
    for share, power in ((1.0, 0.8), (1.0, 0.9), (0.5, 0.8)):
        pairs = pairs_range(source.pairs, share * size, chance=power, alpha=design.planned, likely=LIKELY)
        found.append(Need(share * size, power, *pairs))
    return found


def study_seconds(need: Need, source: Source, jobs: int) -> float | None:
    """How long the pairs take on this machine, if the store tells what a run costs."""
    if need.pairs is None or source.seconds is None:
        return None
    return 2 * max(need.pairs, LEAST_PAIRS) * source.seconds / jobs
