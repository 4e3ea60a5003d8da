"""A check: a claim, a way to prove or break it, and what it means for results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headtohead.audit.report import Finding, Outcome, broken
from headtohead.errors import describe

S = TypeVar("S")


@dataclass(frozen=True)
class Check(Generic[S]):
    name: str
    title: str
    meaning: str
    run: Callable[[S], Outcome]

    def __call__(self, subject: S) -> Finding:
        try:
            outcome = self.run(subject)
        except Exception as error:  # a subject that raises on legal input is a finding, not a crash of the audit
            outcome = broken(f"it raised {describe(error)}")
        return Finding(self.name, self.title, outcome.status, outcome.evidence, self.meaning)


def check(name: str, title: str, meaning: str) -> Callable[[Callable[[S], Outcome]], Check[S]]:
    def wrap(run: Callable[[S], Outcome]) -> Check[S]:
        return Check(name, title, meaning, run)

    return wrap
