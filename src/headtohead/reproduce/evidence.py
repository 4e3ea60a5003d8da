"""Claims and what decides them. Every kind of evidence is a paired comparison over the seeds of stored runs, and ends
in one of three words: it holds, it does not, or the runs cannot tell. Imports no torch until an audit is asked for."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headtohead import stats
from headtohead.errors import InputError, nearest
from headtohead.metrics import absolute, better_way, figure_of, text_of, value_of
from headtohead.outcome import Outcome, RunRow, not_by_survivors
from headtohead.store import Record
from headtohead.study import Study
from headtohead.wording import interval_text

Word = Literal["holds", "does not hold", "unresolved"]
KNOWN = ("accuracy", "macro_f1", "loss", "perplexity", "bits_per_byte")

Outcomes = Callable[[Study], Outcome]


@dataclass(frozen=True)
class Finding:
    """What the runs say of one comparison."""

    says: str  # what was compared
    word: Word
    effect: str  # the difference with its interval, as people read it
    verdict: stats.Verdict | None
    study: str  # whose runs it rests on
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
        """The effect, and how many pairs it is the mean of."""
        return f"{self.effect}, {self.verdict.pairs} pairs" if self.verdict else self.effect

    @property
    def line(self) -> str:
        return f"{self.says}: {self.measured}" if self.effect else self.says

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("says", "word", "effect", "design", "study")}
        return said | {"runs": list(self.runs)}


class Evidence(abc.ABC):
    """Something that runs can confirm."""

    @abc.abstractmethod
    def judge(self, outcomes: Outcomes) -> Finding: ...


@dataclass(frozen=True)
class Claim:
    """A claim of a report: it holds if all its evidence does, and does not hold if some of it fails."""

    id: str  # the report and the claim's place in its list: 001.2
    evidence: tuple[Evidence, ...]
    also: tuple[Evidence, ...]
    because: str
    picture: str  # of the gallery

    def __init__(
        self, id: str, *evidence: Evidence, also: Sequence[Evidence] = (), because: str = "", picture: str = ""
    ) -> None:
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "evidence", evidence)
        object.__setattr__(self, "also", tuple(also))
        object.__setattr__(self, "because", because)
        object.__setattr__(self, "picture", picture)

    def judged(self, outcomes: Outcomes) -> tuple[Word, list[Finding], list[Finding]]:
        found = _once([e.judge(outcomes) for e in self.evidence])
        words = [f.word for f in found]
        word: Word = (
            "does not hold"
            if "does not hold" in words
            else "holds"
            if all(w == "holds" for w in words)
            else "unresolved"
        )
        return word, found, [e.judge(outcomes) for e in self.also]


def _once(findings: list[Finding]) -> list[Finding]:
    """Arms whose own best rate is the shared one are the same runs twice."""
    return list({(f.runs, f.metric, f.effect) if f.runs else f.says: f for f in reversed(findings)}.values())[::-1]


# -- values of stored runs ---------------------------------------------------------------------------------------------


def rows_of(outcome: Outcome, arm: str, table: str | None) -> list[RunRow]:
    """The runs of an arm; `control` is the control, whatever its name."""
    title = _title(outcome, table)
    names = [name for t, name in outcome.rows if t == title]
    arm = names[0] if arm == "control" else arm
    if arm not in names:
        raise InputError(f"study {outcome.said['name']} has no arm '{arm}': {nearest(arm, names)}")
    return outcome.rows[title, arm]


def _title(outcome: Outcome, table: str | None) -> str:
    """Of the table asked for; a study that was not tuned has but one."""
    return table if table in outcome.titles else outcome.titles[0]


def _which(outcome: Outcome, table: str | None) -> str:
    title = _title(outcome, table)
    said = {"": "", "own best": ", each at its own best rate", "shared": ", at the control's rate"}
    return said.get(title, f", {title}")


def value_in(outcome: Outcome, row: RunRow, name: str) -> float:
    """A figure of a run: of its result, or one that was measured of its weights. Not a number where it has none."""
    record = Record(outcome.home / "runs" / row.run)
    measured = measures_of(record)
    if name in measured:
        found = measured[name]
        return math.nan if found is None else float(found)
    if record.result is None or record.result["status"] != "complete":
        return math.nan
    return value_of(record.result, name)


def measures_of(record: Record) -> dict[str, float]:
    """Those of all recipes."""
    return {name: value for one in record.measures.values() for name, value in one.items()}


def _paired(control: dict[int, float], variant: dict[int, float]) -> tuple[list[float], list[float]]:
    seeds = sorted(control.keys() & variant.keys())
    return [control[s] for s in seeds], [variant[s] for s in seeds]


def _values(outcome: Outcome, rows: list[RunRow], name: str, *, collapsed: bool = False) -> dict[int, float]:
    """By seed, of the runs that came to their end; of those that learned nothing, too, where that is the question."""
    good = ("complete", "collapsed") if collapsed else ("complete",)
    return {row.seed: value_in(outcome, row, name) for row in rows if row.status in good}


def _effect(name: str, v: stats.Verdict) -> str:
    """−0.0123 (−0.0200 … −0.0046)."""
    if not math.isfinite(v.difference):
        return "no pairs"
    metric = name if figure_of(name) in KNOWN else "x/value"
    interval = f" ({interval_text(metric, v.low, v.high)})" if math.isfinite(v.low) else ""
    return f"{text_of(metric, v.difference, True)}{interval}"


def _word(v: stats.Verdict, wanted: Sequence[str]) -> Word:
    if v.verdict in wanted:
        return "holds"
    return "unresolved" if v.verdict == "unresolved" else "does not hold"


def _within(v: stats.Verdict, margin: float) -> Word:
    """Whether a difference is surely smaller than the margin. It may be certain and still be small."""
    if v.descriptive:
        return "unresolved"
    if -margin < v.low and v.high < margin:
        return "holds"
    return "does not hold" if v.low > margin or v.high < -margin else "unresolved"


def _found(
    outcome: Outcome, says: str, word: Word, name: str, v: stats.Verdict | None, *rows: list[RunRow], effect: str = ""
) -> Finding:
    runs = tuple(dict.fromkeys(row.run for one in rows for row in one))
    effect = effect or ("" if v is None else _effect(name, v))
    return Finding(says, word, effect, v, outcome.said["name"], runs, name)


# -- kinds of evidence -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Better(Evidence):
    """An arm is better than the control, or than another arm."""

    study: Study
    arm: str
    than: str = "control"
    value: str = ""  # the study's metric by default
    table: str | None = None  # of a tuned study: "own best", which is the default, or "shared"

    wanted = ("better",)

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        name = self.value or outcome.metric
        control, variant = rows_of(outcome, self.than, self.table), rows_of(outcome, self.arm, self.table)
        said = f"{self.arm} against {control[0].arm}, {name}" + _which(outcome, self.table)
        if name == outcome.metric and self._family(outcome):
            row = outcome.verdicts(_title(outcome, self.table))[self.arm]  # corrected for every arm of the study
            v = row.verdict
        else:
            a, b = (_values(outcome, rows, name) for rows in (control, variant))
            v = stats.compare(*_paired(a, b), self._margin(outcome, a), better=better_way(name))
            v = not_by_survivors(v, control, variant)
        return _found(outcome, said, _word(v, self.wanted), name, v, control, variant)

    def _family(self, outcome: Outcome) -> bool:
        title = _title(outcome, self.table)
        control = outcome.verdicts(title).control
        return self.than in ("control", control) and self.arm not in ("control", control)

    def _margin(self, outcome: Outcome, control: dict[int, float]) -> float | None:
        asked = outcome.said["margin"]
        finite = [x for x in control.values() if math.isfinite(x)]
        return absolute(asked, sum(finite) / len(finite)) if asked is not None and finite else None


@dataclass(frozen=True)
class Alike(Better):
    """An arm is as good as the control, within the study's margin."""

    wanted = ("equivalent",)

    def judge(self, outcomes: Outcomes) -> Finding:
        found = super().judge(outcomes)
        v = found.verdict
        if v is not None and v.margin is not None and found.word == "does not hold":
            return dataclasses.replace(found, word=_within(v, v.margin))
        return found


@dataclass(frozen=True)
class Moves(Evidence):
    """Of the same runs one figure is lower than another."""

    study: Study
    arm: str
    before: str
    after: str

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, None)
        a, b = _values(outcome, rows, self.before), _values(outcome, rows, self.after)
        v = stats.compare(*_paired(a, b))
        means = [
            float(np.nanmean(list(x.values()))) if any(map(math.isfinite, x.values())) else math.nan for x in (a, b)
        ]
        said = f"{rows[0].arm}: {self.before} {means[0]:.4g}, {self.after} {means[1]:.4g}"
        return _found(outcome, said, _word(v, ("better",)), self.after, v, rows)


@dataclass(frozen=True)
class Closer(Evidence):
    """An arm brings one figure closer to another than a second arm does: of own − other, the arm less the second."""

    study: Study
    arm: str
    than: str
    own: str
    other: str

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        both = [rows_of(outcome, arm, None) for arm in (self.than, self.arm)]
        gaps = [self._gaps(outcome, rows) for rows in both]
        v = stats.compare(*_paired(*gaps))
        each = "; ".join(f"{rows[0].arm} {np.mean(list(g.values())):+.3f}" for rows, g in zip(both, gaps, strict=True))
        said = f"{self.own} − {self.other}: {each}"
        return _found(outcome, said, _word(v, ("better",)), self.own, v, *both)

    def _gaps(self, outcome: Outcome, rows: list[RunRow]) -> dict[int, float]:
        a, b = (_values(outcome, rows, name) for name in (self.own, self.other))
        return {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()}


@dataclass(frozen=True)
class Not(Evidence):
    """The other way round: it holds where the evidence does not."""

    evidence: Evidence
    says: str

    def judge(self, outcomes: Outcomes) -> Finding:
        found = self.evidence.judge(outcomes)
        opposite: dict[Word, Word] = {"holds": "does not hold", "does not hold": "holds", "unresolved": "unresolved"}
        return dataclasses.replace(found, word=opposite[found.word], says=f"{self.says}: {found.says}")

    @property
    def study(self) -> Study | None:
        return getattr(self.evidence, "study", None)


@dataclass(frozen=True)
class NotBetter(Evidence):
    """Of the same runs the study's metric is no better than another figure, or better by less than the margin."""

    study: Study
    arm: str
    than: str
    margin: float

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, None)
        base, own = (_values(outcome, rows, name, collapsed=True) for name in (self.than, outcome.metric))
        diverged = [row.seed for row in rows if row.status == "diverged"]
        said = f"{rows[0].arm} against {self.than}, {outcome.metric}"
        for seed in diverged:  # it gained nothing
            base[seed] = own[seed] = 0.0
        v = stats.compare(*_paired(base, own), better=better_way(outcome.metric))
        sign = 1 if better_way(outcome.metric) == "lower" else -1
        worst, best = sorted((-sign * v.low, -sign * v.high))  # gains over the other figure, with the interval's ends
        word: Word = "holds" if best < self.margin else "does not hold" if worst > self.margin else "unresolved"
        word = "unresolved" if v.descriptive else word
        note = f"; {len(diverged)} of {len(rows)} runs diverged" if diverged else ""
        v = dataclasses.replace(v, margin=self.margin)
        return _found(outcome, said, word, outcome.metric, v, rows, effect=_effect(outcome.metric, v) + note)


@dataclass(frozen=True)
class Near(Evidence):
    """A figure of an arm lies near a number, in all its runs together; runs that learned nothing count."""

    study: Study
    arm: str
    value: str
    number: float
    within: float
    table: str | None = None

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, self.table)
        values = list(_values(outcome, rows, self.value, collapsed=True).values())
        v = stats.compare([self.number] * len(values), values, self.within, better=better_way(self.value))
        mean = text_of(self.value, self.number + v.difference)
        said = f"{self.arm}{', at the shared rate' if self.table == 'shared' else ''}: {self.value} {mean}"
        effect = f"from {text_of(self.value, self.number)}: {_effect(self.value, v)}"
        return _found(outcome, said, _within(v, self.within), self.value, v, rows, effect=effect)


@dataclass(frozen=True)
class Sooner(Evidence):
    """An arm converges sooner than the control: fewer steps to nine tenths of the way from its own first look to its
    own last. How good that last look is does not matter here."""

    study: Study
    arm: str
    value: str  # measured along the way
    table: str | None = None

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        both = [rows_of(outcome, arm, self.table) for arm in ("control", self.arm)]
        a, b = ({row.seed: self._steps(outcome, row) for row in rows if row.status == "complete"} for rows in both)
        v = stats.compare(*_paired(a, b))
        said = f"{self.arm} against {both[0][0].arm}, steps to nine tenths of the way of {self.value}"
        return _found(outcome, said + _which(outcome, self.table), _word(v, ("better",)), "way/steps", v, *both)

    def _steps(self, outcome: Outcome, row: RunRow) -> float:
        looks = Record(outcome.home / "runs" / row.run).metrics
        way = [(x["step"], x[self.value]) for x in looks if x.get(self.value) is not None]
        return steps_to(way, 0.9)


def steps_to(way: list[tuple[int, float]], share: float) -> float:
    """Where a curve of (step, value) first crosses a share of the way from its first value to its last."""
    if len(way) < 2 or way[0][1] == way[-1][1]:
        return math.nan
    first, last = way[0][1], way[-1][1]
    done = [(step, (value - first) / (last - first)) for step, value in way]
    for (step, x), (then, y) in itertools.pairwise(done):
        if y >= share:
            return step + (then - step) * (share - x) / (y - x)
    return float(way[-1][0])


@dataclass(frozen=True)
class Interaction(Evidence):
    """A change is worth more in one setting than in another: (control, variant) of the first, then of the second."""

    says: str
    study: Study
    one: tuple[str, str]
    other: tuple[str, str]
    value: str = ""  # the study's metric by default
    table: str | None = None
    because: str = ""

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        name = self.value or outcome.metric
        arms = [[rows_of(outcome, arm, self.table) for arm in pair] for pair in (self.one, self.other)]
        one, other = (self._differences(outcome, name, *both) for both in arms)
        v = stats.compare(*_paired(other, one), better=better_way(name))
        each = [
            f"{variant} − {control} {text_of(name, float(np.mean(list(d.values()))), True)}"
            for (control, variant), d in zip((self.one, self.other), (one, other), strict=True)
            if d
        ]
        said = f"{self.says}, {name}: {'; '.join(each)}"
        return _found(outcome, said, _word(v, ("better",)), name, v, *arms[0], *arms[1])

    def _differences(
        self, outcome: Outcome, name: str, control: list[RunRow], variant: list[RunRow]
    ) -> dict[int, float]:
        a, b = (_values(outcome, rows, name) for rows in (control, variant))
        return {seed: b[seed] - a[seed] for seed in a.keys() & b.keys()}


@dataclass(frozen=True)
class Audited(Evidence):
    """What the audit says of a model: `holds` where it finds nothing wrong."""

    path: str  # of the field that is changed
    part: Any
    arm: Any

    def judge(self, outcomes: Outcomes) -> Finding:
        from headtohead.audit.kept import audit_once

        arm = self.arm.set(self.path, self.part)
        report = audit_once(arm.model, str(self.part), causal=arm.task == "lm")
        wrong = [f"{found.check} broken, {found.evidence}" for found in report.broken]
        said = f"audit of {self.part}: {'; '.join(wrong) if wrong else 'nothing wrong found'}"
        return Finding(said, "does not hold" if wrong else "holds", "", None, "")
