"""Claims with their verdicts: what was claimed, how it was tested, and the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.claims.evidence import Claim, ClaimWord, Finding, Outcomes
from headtohead.errors import InputError
from headtohead.run.studies import TuningRecord

MARKS = {
    "holds": "**holds**",
    "holds in part": "**holds in part**",
    "does not hold": "**does not hold**",
    "unresolved": "unresolved",
}


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    says: str
    word: ClaimWord
    findings: list[Finding]
    also: list[Finding]
    scopes: dict[str, str]  # by study
    commands: dict[str, str]
    tuned: dict[str, str]  # by tuned study: what each arm chose

    @property
    def verdict(self) -> str:
        """The verdict with its limits: **holds**, with slope 1."""
        return MARKS[self.word] + (f", {self.claim.only}" if self.claim.only else "")

    @property
    def anchor(self) -> str:
        return self.claim.id.replace(".", "")

    def lines(self, mark: str = "**") -> list[str]:
        """The comparisons that decide the claim, each with its word, then further ones."""
        studies = {f.study for f in (*self.findings, *self.also) if f.study}

        def where(f: Finding) -> str:
            return f" (study {f.study})" if f.study and len(studies) > 1 else ""

        own = [f"{f.line}{_margin(f)}{where(f)}: {mark}{f.word}{mark}" for f in self.findings]
        return own + [f"also: {f.line}{where(f)}" for f in self.also]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "claim": self.says,
            "verdict": self.word,
            "only": self.claim.only,
            "because": self.claim.because,
            "revised": self.claim.revised,
            "findings": [f.to_json() for f in (*self.findings, *self.also)],
            "deciding": len(self.findings),  # the first of them decide, the others are further comparisons
            "scopes": self.scopes,
            "commands": self.commands,
            "tuned": self.tuned,
        }


@dataclass(frozen=True, order=True)
class Untested:
    """A claim without results."""

    id: str
    says: str


def says(claim: Claim, figures: dict[str, Any]) -> str:
    """The text of a claim, from figures.toml."""
    report, _, number = claim.id.partition(".")
    try:
        place = int(number) - 1
    except ValueError:
        raise InputError(f"a claim is named by its report and its place in it, as 000.1, not '{claim.id}'") from None
    try:
        if place < 0:
            raise IndexError
        return str(figures[f"doc{report}"]["claims"][place])
    except (KeyError, IndexError, TypeError):
        raise InputError(f"figures.toml has no claim {claim.id}: write it into [doc{report}], claims = [ … ]") from None


def judged(claim: Claim, says: str, outcomes: Outcomes) -> Judged:
    word, findings, also = claim.judged(outcomes)
    scopes, commands, tuned = {}, {}, {}
    for evidence in (*claim.evidence, *claim.also):
        study = getattr(evidence, "study", None)
        if study is not None:
            outcome = outcomes(study)
            scopes[outcome.record.name] = outcome.verdicts.scope
            commands[outcome.record.name] = outcome.record.command
            if outcome.record.tuning:
                tuned[outcome.record.name] = "; ".join(map(_chosen, outcome.record.tuning))
    return Judged(claim, says, word, findings, also, scopes, commands, tuned)


def _chosen(tuned: TuningRecord) -> str:
    """Rope: lr 0.001."""
    best = ", ".join(f"{path.rpartition('.')[2]} {value:g}" for path, value in tuned.best.items())
    return f"{tuned.arm}: {best}{', the edge of the grid' if tuned.edge else ''}"


def summary(claims: Sequence[Judged], untested: Sequence[Untested] = ()) -> str:
    """Of 16 claims 9 hold, 6 do not, 1 is unresolved."""
    count: Counter[str] = Counter(c.word for c in claims)
    good, part, bad, open_ = (count[word] for word in MARKS)
    left = len(untested)
    total = len(claims) + left
    return (
        f"Of {total} claim{'s' * (total != 1)} {good} hold{'s' * (good == 1)}, "
        + (f"{part} hold{'s' * (part == 1)} in part, " if part else "")
        + f"{bad} do{'es' * (bad == 1)} not, "
        f"{open_} {'is' if open_ == 1 else 'are'} unresolved"
        + (f"; {left} {'is' if left == 1 else 'are'} not tested yet." if left else ".")
    )


def _margin(f: Finding) -> str:
    return "" if f.verdict is None or f.verdict.margin is None else f"; margin {f.verdict.margin:.3g}"
