"""How much do paired differences vary by chance? From complete pairs of the arm itself, and from other arms.

Other arms of the same control say something about an arm, but less than its own pairs: over 50 arms of 18 stored
studies, the variances of two arms of one study differ by a factor of 2.5 in the middle (sd of the logarithm 0.91).
Therefore, many other arms together count as much as PRIOR_FREE degrees of freedom, and few of them count less. The
variance of an arm is the mean of its own and that of the others, weighted by degrees of freedom (an inverse chi-square
prior).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import optimize, special

from headtohead.errors import InputError
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import store
from headtohead.run.studies import read_study, study_folders
from headtohead.study.execution import folder_of
from headtohead.study.study import Study

PRIOR_FREE = 3.0  # degrees of freedom for which trigamma(free / 2) is the measured variance of the logarithms, 0.83


@dataclass(frozen=True)
class Noise:
    """The standard deviation of paired differences, and how well it is known."""

    sd: float
    free: float  # degrees of freedom
    source: str  # what it was measured on

    def limit(self, share: float) -> float:
        """The value below which the true sd lies with probability `share`."""
        if self.free < 1:
            return self.sd
        return self.sd * math.sqrt(self.free / (2 * float(special.gammaincinv(self.free / 2, 1 - share))))


def noise_of_arms(outcome: Outcome, source: str) -> dict[str, Noise]:
    """The noise of each arm that has two pairs or more. All pairs count, also those after an arm was decided."""
    title, found = outcome.titles[0], {}
    values = {
        name: {row.seed: row.value for row in rows if row.status == "complete"}
        for (of, name), rows in outcome.rows.items()
        if of == title
    }
    control = values.pop(outcome.verdicts.control)
    for name, own in values.items():
        pairs = [own[seed] - control[seed] for seed in own.keys() & control.keys()]
        if len(pairs) >= 2:
            found[name] = Noise(float(np.std(pairs, ddof=1)), len(pairs) - 1, f"{len(pairs)} complete pairs ({source})")
    return found


def earlier_noise(study: Study, home: Path) -> dict[str, list[Noise]]:
    """The noise of arms of earlier studies with the same control and metric, by study."""
    control, own = store.plain(study.control.to_json()), folder_of(study, home)
    found: dict[str, list[Noise]] = {}
    for folder in study_folders(home):
        try:
            record = read_study(folder)
        except InputError:
            continue
        if folder != own and record.metric == study.measured and record.tables[0].control.spec == control:
            found[folder.name] = list(noise_of_arms(load_outcome(folder), f"study {folder.name}").values())
    return {name: arms for name, arms in found.items() if arms}


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
