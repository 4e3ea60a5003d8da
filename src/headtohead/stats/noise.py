"""How much do paired differences vary by chance? From complete pairs of the arm itself, and from other arms.

Other arms of the same control say something about an arm, but less than its own pairs: over 50 arms of 18 stored
studies, the variances of two arms of one study differ by a factor of 2.5 in the middle (sd of the logarithm 0.91).
Therefore, many other arms together count as much as PRIOR_FREE degrees of freedom, and few of them count less. The
variance of an arm is the mean of its own and that of the others, weighted by degrees of freedom (an inverse chi-square
prior).

Other setups (another corpus, model or length) say even less: between the stored recipes, the variance of the logarithm
of the variances is SETUPS_DIFFER. Their noise is log-normal, because inverse chi-square has too heavy a tail for so
large a spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize, special

from headtohead.stats.design import ALPHA, LEAST_PAIRS
from headtohead.stats.power import pairs_for

PRIOR_FREE = 3.0  # degrees of freedom for which trigamma(free / 2) is the measured variance of the logarithms, 0.83


SETUPS_DIFFER = 1.6  # measured by tools/noise_table.py: losses of language models, 11 recipes single and 9 paired
QUANTILES = 400  # that stand for an uncertain standard deviation


@dataclass(frozen=True)
class Noise:
    """A standard deviation, such as that of paired differences, and how well it is known."""

    sd: float
    free: float  # degrees of freedom; inf: known
    source: str  # what it was measured on
    spread: float = 0.0  # variance of the logarithm of the variance between the setups it was measured in and this one

    def limit(self, share: float) -> float:
        """The value below which the true sd lies with probability `share`."""
        if self.spread:
            return float(np.quantile(self._likely, share))
        if self.free < 1 or math.isinf(self.free):
            return self.sd
        return self.sd * math.sqrt(self.free / (2 * float(special.gammaincinv(self.free / 2, 1 - share))))

    def times(self, factor: float) -> Noise:
        return replace(self, sd=factor * self.sd)

    def beyond(self, size: float) -> float:
        """How often a normal value with this noise is farther from zero than `size`."""
        if self.sd == 0:
            return float(size <= 0)
        if not self.spread:
            return float(2 * special.stdtr(self.free, -abs(size) / self.sd))
        return float(2 * special.ndtr(-abs(size) / self._likely).mean())

    def reach(self, level: float = 0.95) -> float:
        """The size that a share `level` of such values does not exceed."""
        if self.sd == 0:
            return 0.0
        if not self.spread:
            return self.sd * float(special.stdtrit(self.free, (1 + level) / 2))
        return float(optimize.brentq(lambda size: self.beyond(size) - (1 - level), 0.0, 1e6 * self.sd))

    @cached_property
    def _likely(self) -> np.ndarray:
        """Values of the sd, equally likely."""
        shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
        between = np.exp(math.sqrt(self.spread) * special.ndtri(shares) / 2)
        if math.isinf(self.free):
            return self.sd * between
        within = np.sqrt(self.free / (2 * special.gammaincinv(self.free / 2, shares)))
        return self.sd * np.outer(between, within).ravel()


def summed(one: Noise, other: Noise, source: str = "") -> Noise:
    """The noise of the difference of two independent values (Satterthwaite's degrees of freedom)."""
    a, b = one.sd**2, other.sd**2
    parts = a**2 / one.free + b**2 / other.free
    free = (a + b) ** 2 / parts if parts > 0 else math.inf
    return Noise(math.sqrt(a + b), free, source or one.source, max(one.spread, other.spread))


def pairs_range(
    noise: Noise, effect: float, arms: int = 1, *, chance: float = 0.8, alpha: float = ALPHA, likely: float = 0.8
) -> tuple[int | None, int | None, int | None]:
    """The number of pairs that detect an effect, and its range with probability `likely`; None: above MOST_PAIRS."""

    def pairs(sd: float) -> int | None:
        return pairs_for(effect / sd, arms, chance, alpha) if sd > 0 else LEAST_PAIRS

    return pairs(noise.sd), pairs(noise.limit((1 - likely) / 2)), pairs(noise.limit((1 + likely) / 2))


def elsewhere(setups: Iterable[Sequence[Noise]], source: str = "other setups") -> Noise | None:
    """What the noise of arms in other setups says about an arm of a new one. Each setup counts once."""
    known = [[n for n in arms if n.sd > 0 and n.free >= 1] for arms in setups]
    known = [arms for arms in known if arms]
    if not known:
        return None
    within = _log_variance(PRIOR_FREE)
    centres = [sum(2 * math.log(n.sd) - _expected_log(n.free) for n in arms) / len(arms) for arms in known]
    errors = [sum(within + _log_variance(n.free) for n in arms) / len(arms) ** 2 for arms in known]
    m = len(known)
    spread = within + SETUPS_DIFFER * (1 + 1 / m) + sum(errors) / m**2
    return Noise(math.exp(sum(centres) / m / 2), math.inf, source, spread)


def expected(others: Iterable[Noise], source: str = "other arms") -> Noise | None:
    """What the noise of other arms says about an arm without pairs of its own. Arms without any noise tell nothing."""
    known = [noise for noise in others if noise.sd > 0 and noise.free >= 1]
    if not known:
        return None
    logs = [2 * math.log(n.sd) - _expected_log(n.free) for n in known]
    spread = _log_variance(PRIOR_FREE) + sum(_log_variance(n.free) for n in known) / len(known)
    free = _free_for(_log_variance(PRIOR_FREE) + spread / len(known))  # a few arms tell less than many
    return Noise(math.sqrt(math.exp(sum(logs) / len(logs) + _expected_log(free))), free, source)


def moderated(own: Noise, others: Iterable[Noise], said: str = "other arms") -> Noise:
    """The noise of an arm, from its own pairs and from other arms."""
    prior = expected(others)
    if prior is None or not own.sd > 0:
        return own
    free = own.free + prior.free
    sd = math.sqrt((own.free * own.sd**2 + prior.free * prior.sd**2) / free)
    return Noise(sd, free, f"{own.source} and {said}")


def _log_variance(free: float) -> float:
    """The variance of the logarithm of a sample variance."""
    return float(special.polygamma(1, free / 2))


def _free_for(variance: float) -> float:
    """The degrees of freedom for which `_log_variance` is this."""
    return float(optimize.brentq(lambda free: _log_variance(free) - variance, 1e-3, 1e6))


def _expected_log(free: float) -> float:
    """The expected logarithm of a sample variance whose true value is 1."""
    return float(special.digamma(free / 2)) - math.log(free / 2)
