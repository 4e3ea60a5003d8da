"""Which noise a claim is compared with: given by the user, written in the claim, of the store, or of this package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headtohead.claimcheck.claim import Asked, Claim
from headtohead.claimcheck.scale import SHARES, check_size
from headtohead.claimcheck.setups import Measured, Setup, shipped_setups, stored_setups
from headtohead.errors import InputError, nearest
from headtohead.stats.noise import Noise, elsewhere, expected, moderated, summed

MOST_NAMED = 3  # studies in a sentence
Kind = Literal["given", "claim", "store", "shipped"]


@dataclass(frozen=True)
class Source:
    """The noise of single runs of each arm, and of pairs."""

    kind: Kind
    said: str  # what it was measured on
    variant: Noise | None  # None: only the noise of pairs is known
    control: Noise | None
    pairs: Noise
    pairs_known: bool  # False: computed from single runs, as if pairs shared nothing
    setups: tuple[Setup, ...] = ()
    same_setup: bool = True  # False: the noise is of other setups than the claim's

    @property
    def control_mean(self) -> float | None:
        """The control's mean, where the noise is of one setup."""
        means = [s.control_mean for s in self.setups if math.isfinite(s.control_mean)]
        return means[0] if self.same_setup and means else None

    @property
    def seconds(self) -> float | None:
        """The time of a run on this machine."""
        known = [s.seconds for s in self.setups if s.seconds]
        return max(known) if known and self.kind == "store" else None


def source_of(claim: Claim, asked: Asked, study: str | None, home: Path) -> Source:
    """The first of: --sd, the spread in the claim, studies in the store, studies that ship with the package."""
    if asked.sd is not None:
        return _given(claim, asked)
    if asked.sd_runs is not None:
        raise InputError("--sd-runs says how many runs --sd is from: give --sd too, or leave it out")
    if claim.pair_sd is not None:
        said = f"the claim: {claim.runs} pairs"
        noise = Noise(claim.pair_sd, claim.runs - 1, said)
        return Source("claim", said, None, None, noise, True)
    if any(claim.spreads):
        return _written(claim)
    stored = list(stored_setups(claim, home))
    shipped = shipped_setups(claim)
    if study is not None:
        named = [s for s in (*stored, *shipped) if s.name == study]
        if not named:
            known = dict.fromkeys(s.name for s in (*stored, *shipped))
            raise InputError(f"no study '{study}' with {claim.figure} of a {_task(claim)}: {nearest(study, known)}")
        kind: Kind = "store" if named[0] in stored else "shipped"
        return _of_setups(claim, named[:1], kind, same=True)
    if stored:
        return _of_setups(claim, _closest(claim, stored), "store", same=True)
    if not shipped:
        raise InputError(f"no noise of {claim.figure} is known for a {_task(claim)}: give it, such as --sd 0.8")
    return _of_setups(claim, shipped, "shipped", same=False)


def measured(claim: Claim, home: Path) -> list[Measured]:
    """Verdicts on the arms of the claim, in the store and in what ships with the package."""
    found = []
    if claim.variant and claim.control:
        for setup in (*stored_setups(claim, home), *shipped_setups(claim)):
            verdict = setup.measured(setup.arm(claim.variant), setup.arm(claim.control))
            found += [verdict] if verdict is not None else []
    return list({(m.study, m.difference): m for m in found}.values())


def _task(claim: Claim) -> str:
    return "language model" if claim.task == "lm" else "classifier"


def _given(claim: Claim, asked: Asked) -> Source:
    assert asked.sd is not None
    if not asked.sd > 0:
        raise InputError(f"--sd is a number above zero, not {asked.sd}")
    check_size("an sd", asked.sd)
    if claim.figure in SHARES and asked.sd * claim.unit > 0.5:
        points = f"{100 * asked.sd * claim.unit:g} points"
        raise InputError(
            f"--sd {asked.sd:g} is {points}, too much for {claim.figure}: give it in the difference's unit"
        )
    if asked.sd_runs is not None and asked.sd_runs < 2:
        raise InputError(f"--sd-runs is 2 or more, not {asked.sd_runs}: one run has no spread")
    free = math.inf if asked.sd_runs is None else asked.sd_runs - 1
    what = "pairs" if claim.paired else "runs"
    known = (
        "taken as exact (--sd-runs says how many it is from)"
        if asked.sd_runs is None
        else f"from {asked.sd_runs} {what}"
    )
    said = f"given with --sd, {known}"
    noise = Noise(asked.sd * claim.unit, free, said)
    if claim.paired:
        return Source("given", said, None, None, noise, True)
    return Source("given", said, noise, noise, _unpaired(noise, noise), False)


def _written(claim: Claim) -> Source:
    """The spread that the claim gives for both arms, or for one."""
    first, second = (
        None if sd is None else Noise(sd, n - 1, f"{n} runs")
        for sd, n in zip(claim.spreads, (claim.runs, claim.control_runs), strict=True)
    )
    variant, control = first or second, second or first
    assert variant is not None
    assert control is not None
    said = (
        f"the claim: {claim.runs} and {claim.control_runs} runs" if first and second else f"the claim: {variant.source}"
    )
    return Source("claim", said, variant, control, _unpaired(variant, control), False)


def _unpaired(variant: Noise, control: Noise) -> Noise:
    """The noise of a difference between two runs that share nothing."""
    return variant.times(math.sqrt(2)) if variant is control else summed(variant, control)


def _closest(claim: Claim, setups: Sequence[Setup]) -> list[Setup]:
    """The setups that have both arms of the claim; else those with one of them; else all."""
    counts = [sum(bool(name and s.arm(name)) for name in (claim.variant, claim.control)) for s in setups]
    return [s for s, count in zip(setups, counts, strict=True) if count == max(counts)]


def _of_setups(claim: Claim, setups: Sequence[Setup], kind: Kind, same: bool) -> Source:
    keys = {s.key for s in setups}
    if not same or len(keys) > 1:
        return _of_several(setups, kind)
    variant, control, pairs, named = _of_one(claim, setups)
    if variant is None or control is None:
        raise InputError(f"study {setups[0].name} has no arm with two complete runs of {claim.figure}: give --sd")
    known = pairs is not None
    arms = {arm: noise for setup in setups for arm, noise in setup.runs.items()}
    runs = f"{round(sum(n.free + 1 for n in arms.values()))} runs of {len(arms)} arms"
    which = f", {' and '.join(named)} foremost" if named else ""
    said = f"{runs} of {_named(setups, kind)}{which}"
    return Source(kind, said, variant, control, pairs or _unpaired(variant, control), known, tuple(setups))


def _of_one(claim: Claim, setups: Sequence[Setup]) -> tuple[Noise | None, Noise | None, Noise | None, tuple[str, ...]]:
    """The noise of the claim's arms in one setup, moderated by other arms; or what other arms tell."""
    runs = {(n, arm): noise for n, s in enumerate(setups) for arm, noise in s.runs.items()}
    pairs = {(n, arm): noise for n, s in enumerate(setups) for arm, noise in s.pairs.items()}
    for n, setup in enumerate(setups):
        variant, control = (setup.arm(name) if name else "" for name in (claim.variant, claim.control))
        if not (variant and control and variant != control):
            continue
        own = [
            moderated(runs[n, arm], [noise for at, noise in runs.items() if at != (n, arm)])
            for arm in (variant, control)
        ]
        pair = setup.pair_noise(variant, control)
        others = [noise for (m, arm), noise in pairs.items() if (m, arm) not in ((n, variant), (n, control))]
        pair = moderated(pair, others) if pair is not None else expected(pairs.values())
        return own[0], own[1], pair, (variant, control)
    common = expected(runs.values())
    return common, common, expected(pairs.values()), ()


def _of_several(setups: Sequence[Setup], kind: Kind) -> Source:
    """What several setups say about another one."""
    by_key: dict[str, list[Setup]] = {}
    for setup in setups:
        by_key.setdefault(setup.key, []).append(setup)
    runs = elsewhere([noise for s in group for noise in s.runs.values()] for group in by_key.values())
    pairs = elsewhere([noise for s in group for noise in s.pairs.values()] for group in by_key.values())
    if runs is None:
        raise InputError("no arm of these studies has two complete runs: give the noise, such as --sd 0.8")
    count = round(sum(noise.free + 1 for s in setups for noise in s.runs.values()))
    several = f"{len(by_key)} setup{'s' * (len(by_key) > 1)}"
    said = f"{count:,} runs in {several} of {_named(setups, kind)}"
    known = pairs is not None
    return Source(kind, said, runs, runs, pairs or _unpaired(runs, runs), known, tuple(setups), same_setup=False)


def _named(setups: Sequence[Setup], kind: Kind) -> str:
    names = list(dict.fromkeys(s.name for s in setups))
    where = "in the store" if kind == "store" else "published with headtohead"
    if len(names) > MOST_NAMED:
        return f"{len(names)} studies {where}"
    return f"{'studies' if len(names) > 1 else 'study'} {', '.join(names)}" + (
        f" ({where})" if kind == "shipped" else ""
    )
