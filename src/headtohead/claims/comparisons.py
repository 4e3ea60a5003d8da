"""The kinds of evidence for a claim. Only the audits import torch."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headtohead import stats
from headtohead.claims.evidence import (
    Evidence,
    Finding,
    Outcomes,
    Word,
    effect_text,
    finding,
    improved,
    paired,
    rows_of,
    title_of,
    unless_lost,
    values_of,
    which,
    within_margin,
)
from headtohead.outcome.metrics import absolute, better_way, change_text, text_of
from headtohead.outcome.outcome import Outcome, RunRow, not_by_survivors
from headtohead.run.store import Record
from headtohead.study.study import Study


@dataclass(frozen=True)
class Compared:
    """An arm, and the control or another arm to compare it with."""

    study: Study
    arm: str
    than: str = "control"
    value: str = ""  # the study's metric by default
    table: str | None = None  # of a tuned study: "own best" (default) or "shared"
    published: float | None = None  # the report's difference

    def compared(self, outcomes: Outcomes) -> tuple[stats.Verdict, Callable[[Word], Finding]]:
        outcome = outcomes(self.study)
        name = self.value or outcome.metric
        control, variant = rows_of(outcome, self.than, self.table), rows_of(outcome, self.arm, self.table)
        text = f"{self.arm} against {control[0].arm}, {name}" + which(outcome, self.table)
        if name == outcome.metric and self._family(outcome):
            v = outcome.table(title_of(outcome, self.table))[self.arm].verdict  # corrected for all arms of the study
        else:
            base = values_of(outcome, control, name)
            arms = self._all_arms(outcome) if self._family(outcome) else {self.arm: variant}
            others = {arm: values_of(outcome, rows, name) for arm, rows in arms.items()}
            values = {arm: [own.get(seed, math.nan) for seed in base] for arm, own in others.items()}
            judged = stats.compare_all(
                list(base.values()), values, self._margin(outcome, base), better=better_way(name)
            )
            v = not_by_survivors(judged[self.arm], control, variant)
        effect = effect_text(name, v) + _lost(control, variant)
        if self.published is not None and math.isfinite(v.low):
            said = "compatible" if v.low <= self.published <= v.high else "excluded"
            effect += f"; the published {change_text(name, self.published)} is {said}"
        return v, lambda word: finding(outcome, text, word, name, v, control, variant, effect=effect)

    def _family(self, outcome: Outcome) -> bool:
        title = title_of(outcome, self.table)
        control = outcome.table(title).control
        return self.than in ("control", control) and self.arm not in ("control", control)

    def _all_arms(self, outcome: Outcome) -> dict[str, list[RunRow]]:
        """Every arm but the control. p is corrected for all of them, whichever figure is compared."""
        title = title_of(outcome, self.table)
        names = [name for t, name in outcome.rows if t == title][1:]
        return {name: outcome.rows[title, name] for name in names}

    def _margin(self, outcome: Outcome, control: dict[int, float]) -> float | None:
        asked = outcome.record.margin
        finite = [x for x in control.values() if math.isfinite(x)]
        return absolute(asked, sum(finite) / len(finite)) if asked is not None and finite else None


def _lost(*rows: list[RunRow]) -> str:
    """Runs left out of the means: `; 4 of 10 runs of SGD collapsed`."""
    text = ""
    for one in rows:
        for bad in ("diverged", "collapsed"):
            if count := sum(row.status == bad for row in one):
                text += f"; {count} of {len(one)} runs of {one[0].arm} {bad}"
    return text


@dataclass(frozen=True)
class Better(Compared, Evidence):
    """An arm is better than the control, or than another arm, by any amount."""

    def judge(self, outcomes: Outcomes) -> Finding:
        v, found = self.compared(outcomes)
        return found(improved(v, better_way(self.value or outcomes(self.study).metric)))


@dataclass(frozen=True)
class Alike(Compared, Evidence):
    """An arm is as good as the control, within the study's margin."""

    def judge(self, outcomes: Outcomes) -> Finding:
        v, found = self.compared(outcomes)
        if v.verdict == "equivalent":
            return found("holds")
        if v.margin is None or v.verdict == "unresolved":
            return found("unresolved")
        return found(within_margin(v, v.margin))


@dataclass(frozen=True)
class Moves(Evidence):
    """One figure of an arm's runs is lower than another figure of the same runs."""

    study: Study
    arm: str
    before: str
    after: str

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, None)
        a, b = values_of(outcome, rows, self.before), values_of(outcome, rows, self.after)
        v = stats.compare(*paired(a, b))
        word = unless_lost(improved(v, "lower"), rows)
        means = [
            float(np.nanmean(list(x.values()))) if any(map(math.isfinite, x.values())) else math.nan for x in (a, b)
        ]
        text = f"{rows[0].arm}: {self.before} {means[0]:.4g}, {self.after} {means[1]:.4g}"
        return finding(outcome, text, word, self.after, v, rows)


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
        v = stats.compare(*paired(*gaps))
        means = [change_text(self.own, float(np.mean(list(g.values())))) for g in gaps]
        each = "; ".join(f"{rows[0].arm} {mean}" for rows, mean in zip(both, means, strict=True))
        text = f"{self.own} − {self.other}: {each}"
        return finding(outcome, text, unless_lost(improved(v, "lower"), *both), self.own, v, *both)

    def _gaps(self, outcome: Outcome, rows: list[RunRow]) -> dict[int, float]:
        a, b = (values_of(outcome, rows, name) for name in (self.own, self.other))
        return {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()}


@dataclass(frozen=True)
class Not(Evidence):
    """The opposite of other evidence."""

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
    """The metric of an arm's runs is not better than another figure of the same runs by the margin or more."""

    study: Study
    arm: str
    than: str
    margin: float

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, None)
        base, own = (values_of(outcome, rows, name, collapsed=True) for name in (self.than, outcome.metric))
        diverged = [row.seed for row in rows if row.status == "diverged"]
        text = f"{rows[0].arm} against {self.than}, {outcome.metric}"
        for seed in diverged:  # a diverged run gained nothing
            base[seed] = own[seed] = 0.0
        v = stats.compare(*paired(base, own), better=better_way(outcome.metric))
        sign = 1 if better_way(outcome.metric) == "lower" else -1
        worst, best = sorted((-sign * v.low, -sign * v.high))  # ends of the interval, as gains over the other figure
        word: Word = "holds" if best < self.margin else "does not hold" if worst > self.margin else "unresolved"
        word = "unresolved" if v.descriptive else word
        note = f"; {len(diverged)} of {len(rows)} runs diverged" if diverged else ""
        v = dataclasses.replace(v, margin=self.margin)
        return finding(outcome, text, word, outcome.metric, v, rows, effect=effect_text(outcome.metric, v) + note)


@dataclass(frozen=True)
class Near(Evidence):
    """The mean of a figure over all runs of an arm is near a number. Runs that learned nothing count."""

    study: Study
    arm: str
    value: str
    number: float
    within: float
    table: str | None = None

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        rows = rows_of(outcome, self.arm, self.table)
        values = list(values_of(outcome, rows, self.value, collapsed=True).values())
        v = stats.compare([self.number] * len(values), values, self.within, better=better_way(self.value))
        mean = text_of(self.value, self.number + v.difference)
        text = f"{self.arm}{', at the shared rate' if self.table == 'shared' else ''}: {self.value} {mean}"
        effect = f"from {text_of(self.value, self.number)}: {effect_text(self.value, v)}"
        word = unless_lost(within_margin(v, self.within), rows, collapsed=False)
        return finding(outcome, text, word, self.value, v, rows, effect=effect)


@dataclass(frozen=True)
class Sooner(Evidence):
    """An arm converges sooner than the control: it takes fewer steps to the level at which the control, with the same
    seed, has made nine tenths of its progress. An arm that never reaches the level counts with its last step."""

    study: Study
    arm: str
    value: str  # evaluated during training
    table: str | None = None

    def judge(self, outcomes: Outcomes) -> Finding:
        outcome = outcomes(self.study)
        both = [rows_of(outcome, arm, self.table) for arm in ("control", self.arm)]
        base, own = ({row.seed: self._way(outcome, row) for row in rows if row.status == "complete"} for rows in both)
        levels = {seed: level_at(way, 0.9, better_way(self.value)) for seed, way in base.items()}
        a, b = (
            {seed: steps_to(way, levels.get(seed, math.nan), better_way(self.value)) for seed, way in ways.items()}
            for ways in (base, own)
        )
        v = stats.compare(*paired(a, b))
        text = f"{self.arm} against {both[0][0].arm}, steps to nine tenths of the control's way of {self.value}"
        word = unless_lost(improved(v, "lower"), *both)
        return finding(outcome, text + which(outcome, self.table), word, "way/steps", v, *both)

    def _way(self, outcome: Outcome, row: RunRow) -> list[tuple[int, float]]:
        evaluations = Record.at(outcome.home, row.run).metrics
        return [(x["step"], x[self.value]) for x in evaluations if x.get(self.value) is not None]


def level_at(way: list[tuple[int, float]], share: float, better: stats.Way) -> float:
    """The value at a share of the progress from the first evaluation to the last; NaN without progress."""
    if len(way) < 2:
        return math.nan
    first, last = way[0][1], way[-1][1]
    gained = first - last if better == "lower" else last - first
    return first + share * (last - first) if gained > 0 else math.nan


def steps_to(way: list[tuple[int, float]], level: float, better: stats.Way) -> float:
    """The step at which a curve of (step, value) first reaches a level, interpolated between evaluations."""
    if math.isnan(level) or len(way) < 2:
        return math.nan
    sign = 1 if better == "higher" else -1
    if sign * way[0][1] >= sign * level:
        return float(way[0][0])
    for (step, x), (then, y) in itertools.pairwise(way):
        if sign * y >= sign * level:
            return step + (then - step) * (level - x) / (y - x)
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
        v = stats.compare(*paired(other, one), better=better_way(name))
        each = [
            f"{variant} − {control} {change_text(name, float(np.mean(list(d.values()))))}"
            for (control, variant), d in zip((self.one, self.other), (one, other), strict=True)
            if d
        ]
        text = f"{self.says}, {name}: {'; '.join(each)}"
        word = unless_lost(improved(v, better_way(name)), *arms[0], *arms[1])
        return finding(outcome, text, word, name, v, *arms[0], *arms[1])

    def _differences(
        self, outcome: Outcome, name: str, control: list[RunRow], variant: list[RunRow]
    ) -> dict[int, float]:
        a, b = (values_of(outcome, rows, name) for rows in (control, variant))
        return {seed: b[seed] - a[seed] for seed in a.keys() & b.keys()}


@dataclass(frozen=True)
class Audited(Evidence):
    """The audit of a model finds nothing wrong."""

    path: str  # of the field that is changed
    part: Any
    arm: Any

    def judge(self, outcomes: Outcomes) -> Finding:
        from headtohead.auditor.stored import audit_once

        arm = self.arm.set(self.path, self.part)
        return _audited(audit_once(arm.model, str(self.part), causal=arm.is_causal), str(self.part))


@dataclass(frozen=True)
class AuditedModule(Evidence):
    """One check of the audit on a torch module, as with `h2h audit file.py:Class --only CHECK`."""

    module: Any
    says: str  # what it is
    check: str

    def judge(self, outcomes: Outcomes) -> Finding:
        from headtohead.auditor import audit_module

        return _audited(audit_module(self.module, only=(self.check,)), self.says)


def _audited(report: Any, what: str) -> Finding:
    wrong = [f"{found.check} broken, {found.evidence}" for found in report.broken]
    text = f"audit of {what}: {'; '.join(wrong) if wrong else 'nothing wrong found'}"
    return Finding(text, "does not hold" if wrong else "holds", "", None, "")
