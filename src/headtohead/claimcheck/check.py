"""Checks a claim: what `h2h check-claim` and `headtohead.check_claim` call."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headtohead.claimcheck.answer import Need, Reading, needs_of, reading_of, study_seconds
from headtohead.claimcheck.claim import Asked, Claim, understand
from headtohead.claimcheck.commands import commands_for
from headtohead.claimcheck.setups import Measured
from headtohead.claimcheck.sources import Source, measured, source_of
from headtohead.errors import InputError
from headtohead.run import store
from headtohead.stats import ALPHA, sequential_design
from headtohead.stats.noise import Noise

SHOWN = (
    "variant",
    "control",
    "task",
    "metric",
    "better",
    "difference",
    "control_mean",
    "runs",
    "control_runs",
    "tried",
)


@dataclass(frozen=True)
class ClaimCheck:
    """What a claim is worth. `print(check)` shows what was understood, the noise and the answer."""

    claim: Claim
    source: Source
    reading: Reading
    other: Reading | None  # paired if `reading` is not, and the other way round
    needs: tuple[Need, ...]
    seconds: float | None  # of the study with 80 % power, on this machine
    jobs: int
    measured: tuple[Measured, ...]  # verdicts on the same arms that exist already
    commands: tuple[str, ...]  # that would test the claim

    @property
    def decides(self) -> bool:
        """Whether chance is an unlikely explanation: the 95 % interval excludes zero, also for the best of several."""
        best = self.reading.best_of
        return self.reading.decides and (best is None or best <= ALPHA / 2)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON types, on the scale of `claim`; numbers that are not finite are null."""
        claim = {name: getattr(self.claim, name) for name in SHOWN}
        scale = {"perplexity": "log perplexity"}.get(self.claim.figure, self.claim.figure)
        noise = {
            "kind": self.source.kind,
            "source": self.source.said,
            "same_setup": self.source.same_setup,
            "sd_variant": _noise(self.source.variant),
            "sd_control": _noise(self.source.control),
            "sd_pairs": _noise(self.source.pairs),
            "pairs_measured": self.source.pairs_known,
            "studies": [s.name for s in self.source.setups],
        }
        return store.plain(
            {
                "claim": claim | {"scale": scale, "read": list(self.claim.read)},
                "noise": noise,
                "answer": self.reading.to_json(),
                "other_reading": self.other and self.other.to_json(),
                "needs": [need.to_json() for need in self.needs],
                "alpha": ALPHA,
                "decides": self.decides,
                "seconds": self.seconds,
                "jobs": self.jobs,
                "measured": [dataclasses.asdict(m) for m in self.measured],
                "commands": list(self.commands),
            }
        )

    def __str__(self) -> str:
        from headtohead.claimcheck.wording import text_of

        return text_of(self)


def check_claim(
    claim: str = "",
    *,
    difference: float | str | None = None,
    runs: int | None = None,
    control_runs: int | None = None,
    metric: str | None = None,
    task: Literal["lm", "classifier"] | None = None,
    variant: str | None = None,
    control: str | None = None,
    control_mean: float | None = None,
    spread: float | None = None,
    spread_is: Literal["sd", "se"] | None = None,
    sd: float | None = None,
    sd_runs: int | None = None,
    paired: bool = False,
    tried: int = 1,
    study: str | None = None,
    home: str | Path | None = None,
) -> ClaimCheck:
    """What a claimed difference is worth, by the noise between runs: what `h2h check-claim` does.

    The claim is a sentence, such as "Rope beats Learned by 1.2 points, one run each", or `difference` (variant −
    control), `runs` and `metric`; what is given by name replaces what the sentence says. The noise is `sd`, else the
    spread in the claim, else that of the store, else that of the studies published with headtohead. Nothing is trained.
    """
    asked = Asked(
        claim,
        difference,
        runs,
        control_runs,
        metric,
        task,
        variant,
        control,
        control_mean,
        spread,
        spread_is,
        sd,
        sd_runs,
        paired,
        tried,
    )
    place = store.home() if home is None else Path(home)
    understood = understand(asked)
    if sd is not None:
        understood = understood.at_level(None)
    source = source_of(understood, asked, study, place)
    understood = understood.at_level(_level(understood, source))
    reading = reading_of(understood, source, understood.paired)
    if reading is None:
        raise InputError(
            "the noise of pairs is not known here: give the sd of their differences with --sd, or leave out --paired"
        )
    design = sequential_design()
    needs, jobs = needs_of(understood, source, design), os.cpu_count() or 1
    return ClaimCheck(
        claim=understood,
        source=source,
        reading=reading,
        other=reading_of(understood, source, not understood.paired),
        needs=tuple(needs),
        seconds=study_seconds(needs[0], source, jobs) if needs else None,
        jobs=jobs,
        measured=tuple(measured(understood, place)),
        commands=tuple(commands_for(understood, source, needs, design)),
    )


def _level(claim: Claim, source: Source) -> float | None:
    """The control's mean where the noise is from, in the unit of the claim."""
    mean = source.control_mean
    if mean is None or claim.figure != "perplexity":
        return mean
    return math.exp(min(mean, 700.0))


def _noise(noise: Noise | None) -> dict[str, Any] | None:
    if noise is None:
        return None
    likely = {"low": noise.limit(0.1), "high": noise.limit(0.9)}
    return {"sd": noise.sd, "degrees_of_freedom": noise.free, **likely}
