"""Checks and their results: as values, as JSON and on the screen.

A check returns its evidence if it proves the claim. Otherwise it raises Broken, Advice or DoesNotApply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from headtohead.errors import failure

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["proved", "broken", "advice", "does not apply"]


S = TypeVar("S")
Pairs = tuple[tuple[int, int], ...]  # (i, j): output i depends on token j
Hear = Callable[[str], object]  # is told the name of each check before it runs


class Broken(Exception):  # noqa: N818
    """The claim is broken; the message is the evidence. `pairs` are the positions that it is about, for a picture:
    each of them breaks the claim or, with `among`, at least one of them."""

    def __init__(self, message: str, pairs: Iterable[tuple[int, int]] = (), *, among: bool = False) -> None:
        super().__init__(message)
        self.pairs: Pairs = tuple(pairs)
        self.among = among


class Advice(Exception):  # noqa: N818
    """No claim is broken, but something is unusual and worth a look; the message says what."""


class DoesNotApply(Exception):  # noqa: N818
    """The check does not apply to the subject; the message is the reason."""


@dataclass(frozen=True)
class Finding:
    """The result of one check on one subject."""

    check: str  # short name, such as "future-tokens"
    title: str  # what is claimed
    status: Status
    evidence: str
    meaning: str  # what follows for results if the claim is broken
    pairs: Pairs = ()  # the positions that the evidence is about, if any
    among: bool = False  # not each of the pairs breaks the claim, but at least one does

    def to_json(self) -> dict[str, Any]:
        values = {"claim" if name == "title" else name: value for name, value in vars(self).items()}
        return values if self.pairs else {k: v for k, v in values.items() if k not in ("pairs", "among")}


def finding(row: dict[str, Any]) -> Finding:
    """The finding that `Finding.to_json` wrote."""
    values = {"title" if name == "claim" else name: value for name, value in row.items()}
    texts = [value for name, value in values.items() if name not in ("pairs", "among")]
    if not all(isinstance(text, str) for text in texts) or values["status"] not in get_args(Status):
        raise ValueError("it is no finding")
    return Finding(**{**values, "pairs": tuple((int(i), int(j)) for i, j in values.get("pairs", ()))})


@dataclass(frozen=True)
class Check(Generic[S]):
    """One check of an audit; call it with a subject."""

    name: str
    title: str
    meaning: str
    run: Callable[[S], str]

    def __call__(self, subject: S) -> Finding:
        status: Status = "broken"
        pairs: Pairs = ()
        among = False
        try:
            status, evidence = "proved", self.run(subject)
        except DoesNotApply as reason:
            status, evidence = "does not apply", str(reason)
        except Advice as unusual:
            status, evidence = "advice", str(unusual)
        except Broken as found:
            evidence, pairs, among = str(found), found.pairs, found.among
        except Exception as error:  # an exception on valid input is a finding about the subject
            evidence = f"it raised {failure(error).splitlines()[0]}"
        return Finding(self.name, self.title, status, evidence, self.meaning, pairs, among)


def check(name: str, title: str, meaning: str) -> Callable[[Callable[[S], str]], Check[S]]:
    """Turn a function into a check."""
    return lambda run: Check(name, title, meaning, run)


@dataclass(frozen=True)
class Report:
    """All findings about one subject. `print(report)` shows them."""

    subject: str  # what was audited
    findings: tuple[Finding, ...]  # one for each check

    @property
    def ok(self) -> bool:
        """Whether no check is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that show an error."""
        return tuple(f for f in self.findings if f.status == "broken")

    @property
    def advice(self) -> tuple[Finding, ...]:
        """What is unusual and no failure."""
        return tuple(f for f in self.findings if f.status == "advice")

    def count(self, status: Status) -> int:
        return sum(f.status == status for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "ok": self.ok, "findings": [f.to_json() for f in self.findings]}

    def summary(self) -> str:
        """One line: how many checks are proved, broken, or do not apply."""
        other = self.count("does not apply")
        rest = "1 does not apply" if other == 1 else f"{other} do not apply"
        advice = f", {len(self.advice)} advice" if self.advice else ""
        return f"{self.subject}: {self.count('proved')} proved, {self.count('broken')} broken{advice}, {rest}"

    def __str__(self) -> str:
        """What `h2h audit` prints."""
        import io

        try:
            from rich.console import Console
        except ModuleNotFoundError:  # an audit needs torch, numpy and scipy alone
            lines = [f"  {f.status:<15}{f.check:<17}{f.title}\n{'':17}{f.evidence}" for f in self.findings]
            return "\n".join([self.subject, *lines, self.summary().partition(": ")[2], ""])
        out = io.StringIO()
        self.show(Console(file=out, width=100))
        return out.getvalue()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def show(self, console: Console) -> None:
        """Print each check with its evidence and what it means for results."""
        from rich.padding import Padding
        from rich.text import Text

        styles = {"proved": "green", "broken": "bold red", "advice": "yellow", "does not apply": "dim"}
        labels = {"proved": "so this cannot happen", "broken": "if broken", "advice": "what can happen"}
        console.print(Text(self.subject, style="bold"))
        for f in self.findings:
            line = Text.assemble((f"  {f.status:<15}", styles[f.status]), f"{f.check:<17}{f.title}")
            console.print(line, soft_wrap=True)
            if f.evidence:
                style = {"broken": "red", "advice": "yellow"}.get(f.status, "dim")
                console.print(Padding(Text(f.evidence, style=style), (0, 0, 0, 17)))
            if f.status in labels:
                style = "dim" if f.status == "proved" else ""
                console.print(Padding(Text(f"{labels[f.status]}: {f.meaning}", style=style), (0, 0, 0, 17)))
        console.print(Text(self.summary().partition(": ")[2], style="green" if self.ok else "bold red"))
