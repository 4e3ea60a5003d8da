"""The results of an audit: as values, as JSON and on the screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["proved", "broken", "does not apply"]


@dataclass(frozen=True)
class Outcome:
    """The result of one check, and the evidence for it."""

    status: Status
    evidence: str = ""


def proved(evidence: str = "") -> Outcome:
    return Outcome("proved", evidence)


def broken(evidence: str) -> Outcome:
    return Outcome("broken", evidence)


def does_not_apply(why: str) -> Outcome:
    return Outcome("does not apply", why)


@dataclass(frozen=True)
class Finding:
    """The result of one check on one subject."""

    check: str  # short name, such as "future-tokens"
    title: str  # what is claimed
    status: Status
    evidence: str
    meaning: str  # what follows for results if the claim is broken

    def to_json(self) -> dict[str, str]:
        return {
            "check": self.check,
            "claim": self.title,
            "status": self.status,
            "evidence": self.evidence,
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class Report:
    """All findings about one subject."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.status == "broken")

    def count(self, status: Status) -> int:
        return Counter(f.status for f in self.findings)[status]

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "ok": self.ok, "findings": [f.to_json() for f in self.findings]}

    def summary(self) -> str:
        other = self.count("does not apply")
        rest = "1 does not apply" if other == 1 else f"{other} do not apply"
        return f"{self.subject}: {self.count('proved')} proved, {self.count('broken')} broken, {rest}"

    def show(self, console: Console) -> None:
        """Print each check with its evidence and what it means for results."""
        from rich.padding import Padding
        from rich.text import Text

        styles = {"proved": "green", "broken": "bold red", "does not apply": "dim"}
        console.print(Text(self.subject, style="bold"))
        for f in self.findings:
            line = Text.assemble((f"  {f.status:<15}", styles[f.status]), f"{f.check:<17}{f.title}")
            console.print(line, soft_wrap=True)
            if f.evidence:
                style = "red" if f.status == "broken" else "dim"
                console.print(Padding(Text(f.evidence, style=style), (0, 0, 0, 17)))
            if f.status != "does not apply":
                label, style = ("if broken", "") if f.status == "broken" else ("so this cannot happen", "dim")
                console.print(Padding(Text(f"{label}: {f.meaning}", style=style), (0, 0, 0, 17)))
        console.print(Text(self.summary().partition(": ")[2], style="green" if self.ok else "bold red"))
