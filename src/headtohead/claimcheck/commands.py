"""The commands that would test a claim: a study of our parts, and a comparison of runs made elsewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from headtohead.claimcheck.answer import Need
from headtohead.claimcheck.claim import Claim
from headtohead.claimcheck.sources import Source
from headtohead.stats import Design

USUAL = {"lm": "test/loss", "classifier": "test/accuracy"}  # the metric of a study without --metric
MOST_SENSIBLE = 200  # pairs that a printed command asks for at most


def commands_for(claim: Claim, source: Source, needs: Sequence[Need], design: Design) -> Iterator[str]:
    """First the study, if the names are parts or a study in the store has the arms; then `h2h compare`."""
    pairs = needs[0].pairs if needs else None
    if pairs is not None and pairs <= MOST_SENSIBLE:
        most = [] if pairs <= design.pairs else ["--max-pairs", str(pairs)]
        if own := _own_study(claim, source):
            yield shlex.join([*own, *most])
        elif vary := _vary(claim):
            metric = [] if claim.metric == USUAL[claim.task] else ["--metric", claim.metric]
            yield shlex.join(["h2h", "run", claim.task, "--vary", vary, *metric, *most])
    control = ["--control", claim.control] if claim.control else []
    yield shlex.join(["h2h", "compare", "results.csv", "--metric", claim.figure, *control])


def _own_study(claim: Claim, source: Source) -> list[str]:
    """The command of a study of the claim's setup that has both arms, without its number of pairs."""
    if not source.same_setup or not (claim.variant and claim.control):
        return []
    for setup in source.setups:
        if setup.command and setup.arm(claim.variant) and setup.arm(claim.control):
            words = shlex.split(setup.command)
            for option in ("--seeds", "--max-pairs"):
                while option in words:
                    at = words.index(option)
                    del words[at : at + 2]
            return words
    return []


def _vary(claim: Claim) -> str:
    """model.position=Learned,Rope where both names are parts of one family; the control comes first."""
    if not (claim.variant and claim.control):
        return ""
    from headtohead.display.catalogue import catalogue

    known = catalogue()
    families = {entry.name: entry.family for entry in known.parts}
    control, variant = _part(claim.control, families), _part(claim.variant, families)
    if not control or not variant or control == variant:
        return ""
    family = families[_first(control)]
    if families[_first(variant)] != family:
        return ""
    arm = known.arms[claim.task]
    for of in ("model", "train", "data"):
        if family in arm.get(of, {}):
            return f"{of}.{family}={control},{variant}"
    return ""


def _first(part: str) -> str:
    return re.split(r"\W", part, maxsplit=1)[0]


def _part(name: str, known: dict[str, str]) -> str:
    """The part that a name in a sentence means, in the spelling of its class; empty if it is none of ours."""
    by_lower = {part.lower(): part for part in known}
    knobs = re.fullmatch(r"\s*(\w+)(\(.*\))\s*", name)
    if knobs and knobs[1].lower() in by_lower:
        return by_lower[knobs[1].lower()] + knobs[2]
    words = re.findall(r"\w+", name)
    if re.fullmatch(r"\w+(?:\s*[&|]\s*\w+)+", name.strip()) and all(word.lower() in by_lower for word in words):
        return re.sub(r"\w+", lambda word: by_lower[word[0].lower()], name.strip())
    found = {by_lower[word.lower()] for word in words if word.lower() in by_lower}
    return found.pop() if len(found) == 1 else ""
