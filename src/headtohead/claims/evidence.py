"""Claims and their evidence. Each kind of evidence (comparisons.py) compares stored runs in pairs over the seeds and
ends in one of three words: holds, does not hold, unresolved."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headtohead import stats
from headtohead.errors import InputError, nearest
from headtohead.outcome import metrics
from headtohead.outcome.metrics import change_text, value_of
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.run.store import Record
from headtohead.study.study import Study

Word = Literal["holds", "does not hold", "unresolved"]
ClaimWord = Literal["holds", "holds in part", "does not hold", "unresolved"]

Outcomes = Callable[[Study], Outcome]


@dataclass(frozen=True)
class Finding:
    """The result of one comparison."""

    says: str  # what was compared
    word: Word
    effect: str  # the difference with its interval, as text
    verdict: stats.Verdict | None
    study: str  # the study of its runs
    runs: tuple[str, ...] = ()
    metric: str = ""

    @property
    def design(self) -> str:
        """10 pairs, test/loss, margin 0.02."""
        if self.verdict is None:
            return self.metric
        margin = "" if self.verdict.margin is None else f", margin {self.verdict.margin:.3g}"
        return f"{self.verdict.pairs} pairs, {self.metric}{margin}"

    @property
    def measured(self) -> str:
        """The effect and its number of pairs."""
        return f"{self.effect}, {self.verdict.pairs} pairs" if self.verdict else self.effect

    @property
    def line(self) -> str:
        return f"{self.says}: {self.measured}" if self.effect else self.says

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("says", "word", "effect", "design", "study", "metric")}
        v = self.verdict
        of = ("difference", "low", "high", "alone_low", "alone_high", "margin", "pairs", "p")
        numbers = None if v is None else {name: getattr(v, name) for name in of}
        return values | {"numbers": numbers, "runs": list(self.runs)}


class Evidence(abc.ABC):
    """A statement that runs can confirm or refute."""

    @abc.abstractmethod
    def judge(self, outcomes: Outcomes) -> Finding: ...


@dataclass(frozen=True)
class Claim:
    """A claim of a report: it holds if all its evidence does, and does not hold if some of it fails. A claim with
    `parts` is judged part by part; if some hold and others fail, it holds in part."""

    id: str  # the report, and the place of the claim in its list: 001.2
    evidence: tuple[Evidence, ...]
    also: tuple[Evidence, ...]
    because: str
    only: str  # the limits of its verdict: "in 250 steps"
    picture: str  # its name in tools/gallery.py
    revised: str  # what was changed in its design after results had been seen
    parts: dict[str, tuple[Evidence, ...]]  # by name; one part without a name unless given

    def __init__(
        self,
        id: str,
        *evidence: Evidence,
        also: Sequence[Evidence] = (),
        because: str = "",
        only: str = "",
        picture: str = "",
        revised: str = "",
        parts: Mapping[str, Sequence[Evidence]] | None = None,
    ) -> None:
        named = {name: tuple(one) for name, one in (parts or {"": evidence}).items()}
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "parts", named)
        object.__setattr__(self, "evidence", tuple(e for one in named.values() for e in one))
        object.__setattr__(self, "also", tuple(also))
        object.__setattr__(self, "because", because)
        object.__setattr__(self, "only", only)
        object.__setattr__(self, "picture", picture)
        object.__setattr__(self, "revised", revised)

    def judged(self, outcomes: Outcomes) -> tuple[ClaimWord, list[Finding], list[Finding]]:
        by_part = {name: _once([e.judge(outcomes) for e in evidence]) for name, evidence in self.parts.items()}
        among = sum(map(len, by_part.values()))
        words = {name: _word(found, among) for name, found in by_part.items()}
        word: ClaimWord = "unresolved"
        if set(words.values()) == {"holds", "does not hold"}:
            word = "holds in part"
        elif "does not hold" in words.values():
            word = "does not hold"
        elif set(words.values()) == {"holds"}:
            word = "holds"
        named = [
            dataclasses.replace(f, says=f"{name}: {f.says}" if name else f.says)
            for name, found in by_part.items()
            for f in found
        ]
        return word, named, _once([e.judge(outcomes) for e in self.also])


def _word(found: list[Finding], among: int) -> Word:
    """What one part of a claim comes to; `among` is the number of comparisons of the whole claim."""
    if any(_refutes(f, among) for f in found):
        return "does not hold"
    return "holds" if all(f.word == "holds" for f in found) else "unresolved"


def _refutes(found: Finding, among: int) -> bool:
    """Whether a finding refutes the claim. One of several comparisons may fail by chance, so p is corrected for their
    number."""
    v = found.verdict
    decided = v is None or v.verdict == "equivalent" or v.p * among <= stats.ALPHA
    return found.word == "does not hold" and decided


def _once(findings: list[Finding]) -> list[Finding]:
    """Drop repeated findings: an arm whose own best rate is the shared one has the same runs in both tables."""
    unique = {(f.runs, f.metric, f.effect, f.word) if f.runs else f.says: f for f in reversed(findings)}
    return list(unique.values())[::-1]


# -- values of stored runs ---------------------------------------------------------------------------------------------


def rows_of(outcome: Outcome, arm: str, table: str | None) -> list[RunRow]:
    """The runs of an arm. The name `control` always means the control."""
    title = title_of(outcome, table)
    names = [name for t, name in outcome.rows if t == title]
    arm = names[0] if arm == "control" else arm
    if arm not in names:
        raise InputError(f"study {outcome.record.name} has no arm '{arm}': {nearest(arm, names)}")
    return outcome.rows[title, arm]


def title_of(outcome: Outcome, table: str | None) -> str:
    """Of the table asked for; a study that was not tuned has but one."""
    if table is not None and len(outcome.titles) > 1 and table not in outcome.titles:
        raise InputError(f"study {outcome.record.name} has no table '{table}': {nearest(table, outcome.titles)}")
    return table if table in outcome.titles else outcome.titles[0]


def which(outcome: Outcome, table: str | None) -> str:
    title = title_of(outcome, table)
    texts = {"": "", "own best": ", each at its own best rate", "shared": ", at the control's rate"}
    return texts.get(title, f", {title}")


def value_in(outcome: Outcome, row: RunRow, name: str) -> float:
    """A figure of a run: of its result, or one that was measured of its weights. Not a number where it has none."""
    record = Record.at(outcome.home, row.run)
    measured = measures_of(record)
    if name in measured:
        found = measured[name]
        return math.nan if found is None else float(found)
    if record.result is None or not record.result.is_complete:
        return math.nan
    return value_of(record.result, name)


def measures_of(record: Record) -> dict[str, float]:
    """Those of all recipes."""
    return {name: value for one in record.measures.values() for name, value in one.items()}


def paired(control: dict[int, float], variant: dict[int, float]) -> tuple[list[float], list[float]]:
    seeds = sorted(control.keys() & variant.keys())
    return [control[s] for s in seeds], [variant[s] for s in seeds]


def values_of(outcome: Outcome, rows: list[RunRow], name: str, *, collapsed: bool = False) -> dict[int, float]:
    """By seed, of the runs that came to their end; of those that learned nothing, too, where that is the question."""
    good = ("complete", "collapsed") if collapsed else ("complete",)
    return {row.seed: value_in(outcome, row, name) for row in rows if row.status in good}


def effect_text(name: str, v: stats.Verdict) -> str:
    """−0.0123 (−0.0200 … −0.0046)."""
    if not math.isfinite(v.difference):
        return "no pairs"
    if not math.isfinite(v.low):
        return change_text(name, v.difference)
    return metrics.effect_text(name, v.difference, v.low, v.high)


def improved(v: stats.Verdict, way: stats.Way) -> Word:
    """Whether the variant is better. A certain gain counts even within the margin; any other equivalence does not."""
    if v.verdict == "equivalent":
        sure = v.p <= stats.ALPHA and (v.low > 0 or v.high < 0)
        return "holds" if sure and (v.difference < 0) == (way == "lower") else "does not hold"
    return "holds" if v.verdict == "better" else "does not hold" if v.verdict == "worse" else "unresolved"


def unless_lost(word: Word, *rows: Sequence[RunRow], collapsed: bool = True) -> Word:
    """The word, or `unresolved` if runs diverged or collapsed: the mean of the remaining runs is not theirs."""
    bad = ("diverged", "collapsed") if collapsed else ("diverged",)
    return "unresolved" if any(row.status in bad for one in rows for row in one) else word


def within_margin(v: stats.Verdict, margin: float) -> Word:
    """Whether the interval of a difference lies within the margin."""
    if v.descriptive:
        return "unresolved"
    if -margin < v.low and v.high < margin:
        return "holds"
    return "does not hold" if v.low > margin or v.high < -margin else "unresolved"


def finding(
    outcome: Outcome, says: str, word: Word, name: str, v: stats.Verdict | None, *rows: list[RunRow], effect: str = ""
) -> Finding:
    runs = tuple(dict.fromkeys(row.run for one in rows for row in one))
    effect = effect or ("" if v is None else effect_text(name, v))
    return Finding(says, word, effect, v, outcome.record.name, runs, name)
