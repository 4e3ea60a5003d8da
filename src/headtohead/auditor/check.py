"""A check: a claim, a function that proves or breaks it, and what follows for results if it is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headtohead.auditor.report import Finding, Outcome, broken
from headtohead.errors import failure

S = TypeVar("S")


@dataclass(frozen=True)
class Check(Generic[S]):
    """One check of an audit; call it with a subject."""

    name: str
    title: str  # what is claimed
    meaning: str  # what follows for results if the claim is broken
    run: Callable[[S], Outcome]

    def __call__(self, subject: S) -> Finding:
        try:
            outcome = self.run(subject)
        except Exception as error:  # an exception on valid input is a finding about the subject
            outcome = broken(f"it raised {failure(error).splitlines()[0]}")
        return Finding(self.name, self.title, outcome.status, outcome.evidence, self.meaning)


def check(name: str, title: str, meaning: str) -> Callable[[Callable[[S], Outcome]], Check[S]]:
    """Turn a function into a check."""

    def wrap(run: Callable[[S], Outcome]) -> Check[S]:
        return Check(name, title, meaning, run)

    return wrap
