"""The noise of a study's arms, read from its runs. Imports no torch."""

from __future__ import annotations

import numpy as np

from headtohead.outcome.outcome import Outcome
from headtohead.stats.noise import Noise


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
