"""Does an effect grow or shrink with scale? One study at several scales, compared seed by seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

from headtohead.display.study import study_screen
from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import UNITS, change_text, figure_of
from headtohead.outcome.outcome import Outcome, came_to_nothing
from headtohead.outcome.wording import interval_text
from headtohead.persistence.sizes import RULE, Size, forecast, scaled, size_of, size_table
from headtohead.report.text_table import TextTable
from headtohead.run import store
from headtohead.run.events import Note
from headtohead.run.executors.execution import Execution
from headtohead.stats import compare_all
from headtohead.study.study import Study
from headtohead.study.workflow import run_study

Change = Literal["grows", "shrinks", "unresolved"]


@dataclass(frozen=True)
class Effect:
    """An arm against the control at one scale."""

    scale: float
    difference: float
    low: float
    high: float
    p: float
    verdict: str
    pairs: int


@dataclass(frozen=True)
class Trend:
    """How an arm's effect changes from the smallest to the largest scale, paired by seed."""

    arm: str
    effects: tuple[Effect, ...]  # smallest scale first
    word: Change
    difference: float  # effect at the largest scale − effect at the smallest, mean over seeds
    low: float
    high: float
    p: float  # sign-flip test, corrected for the number of arms
    pairs: int
    turns: bool  # the effect is resolved at both scales, with opposite signs
    note: str = ""


@dataclass(frozen=True)
class Scales:
    """A study at several scales. `str()` is what `h2h run --scales` prints."""

    question: str
    metric: str
    sizes: tuple[Size, ...]
    trends: tuple[Trend, ...]
    folders: tuple[str, ...]
    tuned: bool = False  # each arm has its own best settings at each scale
    rule: str = RULE

    def __getitem__(self, arm: str) -> Trend:
        found = {trend.arm: trend for trend in self.trends}
        if arm not in found:
            raise InputError(f"no arm '{arm}' in this study: {nearest(arm, found)}")
        return found[arm]

    def to_json(self) -> dict[str, Any]:
        return store.plain(dataclasses.asdict(self))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The result as text, in 80 columns."""
        lines = []
        for trend in self.trends:
            lines += [*self._table(trend), *wrap(self._sentence(trend), 80), ""]
        first, last = self.sizes[0].scale, self.sizes[-1].scale
        about = [
            f"Change: effect at scale {last:g} − effect at scale {first:g}, paired by seed; p is corrected for the "
            "number of arms."
        ]
        if not self.tuned:
            about.append("All scales have the same learning rate: h2h run RECIPE --rates auto varies it.")
        return lines + [line for sentence in about for line in wrap(sentence, 80)]

    def _table(self, trend: Trend) -> list[str]:
        unit = UNITS[figure_of(self.metric)]
        rows = [[f"× {e.scale:g}", *_numbers(self.metric, e), e.verdict, str(e.pairs)] for e in trend.effects]
        rows.append(["change", *_numbers(self.metric, trend), trend.word, str(trend.pairs)])
        title = f"{trend.arm}: difference from the control in {self.metric}" + (f", {unit}" if unit else "")
        head = ["scale", "difference", "95 % interval", "p", "verdict", "pairs"]
        return TextTable(title, head, rows).text(80).splitlines()

    def _sentence(self, trend: Trend) -> str:
        first, last = trend.effects[0], trend.effects[-1]
        what = f"from scale {first.scale:g} to {last.scale:g}"
        if trend.note:
            return f"{trend.arm}: unresolved; {trend.note}."
        if trend.word == "unresolved":
            return f"{trend.arm}: unresolved; {trend.pairs} pairs do not show that the effect changes {what}."
        return f"{trend.arm}: the effect {trend.word} {what}" + (", and its sign turns." if trend.turns else ".")


def _numbers(metric: str, what: Effect | Trend) -> list[str]:
    p = "–" if not what.pairs else "<0.001" if what.p < 0.001 else f"{what.p:.3f}"
    return [change_text(metric, what.difference), interval_text(metric, what.low, what.high), p]


def changes(
    small: dict[str, dict[int, float]], large: dict[str, dict[int, float]], effects: dict[str, tuple[Effect, ...]]
) -> list[Trend]:
    """Compare each arm's differences from the control at two scales, seed by seed. p is corrected for the arms."""
    seeds = sorted({seed for found in (*small.values(), *large.values()) for seed in found})
    per_seed = {
        arm: [large[arm].get(seed, math.nan) - small[arm].get(seed, math.nan) for seed in seeds] for arm in effects
    }
    judged = compare_all([0.0] * len(seeds), per_seed)
    trends = []
    for arm, verdict in judged.items():
        resolved = verdict.verdict in ("better", "worse")
        word, turns = _word(effects[arm][0], effects[arm][-1]) if resolved else ("unresolved", False)
        trends.append(
            Trend(
                arm, effects[arm], word, verdict.difference, verdict.low, verdict.high, verdict.p, verdict.pairs, turns
            )
        )
    return trends


def _word(small: Effect, large: Effect) -> tuple[Change, bool]:
    """Which way a resolved change goes. An effect that is resolved at both scales with opposite signs has shrunk and
    turned. If one of them is not resolved, its sign says nothing and only sizes count."""
    decided = all(effect.low > 0 or effect.high < 0 for effect in (small, large))
    turns = decided and small.difference * large.difference < 0
    grows = abs(large.difference) > abs(small.difference) and not turns
    return ("grows" if grows else "shrinks"), turns


def run_scales(
    study: Study,
    scales: Sequence[float] = (1, 4),
    execution: Execution | None = None,
    *,
    home: Path | None = None,
    progress: bool = True,
) -> Scales:
    """Run a study at each scale and compare its effects: what `h2h run --scales` does.

    Sizes and a forecast of the time are shown before training. A call that was stopped continues: finished runs are in
    the store.
    """
    if len(study.variants) < 2:
        raise InputError("this study compares nothing: --scales needs a study that varies something")
    if len(set(scales)) < 2:
        raise InputError("give two scales or more, such as --scales 1,4")
    home, how = home or store.home(), (execution or Execution()).checked()
    made = {scale: scaled(study, scale) for scale in sorted(scales)}
    with study_screen(study.measured, quiet=not progress) as screen:
        sizes = [size_of(made[scale], scale) for scale in made]
        forecasts = [forecast(made[scale], how, home) for scale in made]
        for line in [*wrap(RULE, 80), *size_table(sizes, forecasts)]:
            screen.hear(Note(line))
        outcomes = {scale: run_study(made[scale], how, home=home, listen=screen.hear) for scale in made}
    return judge_scales(study, sizes, list(outcomes.values()))


def judge_scales(study: Study, sizes: Sequence[Size], outcomes: Sequence[Outcome]) -> Scales:
    """Compare the outcomes of a study at several scales, smallest first."""
    arms = [variant.name for variant in study.variants[1:]]
    effects = {
        arm: tuple(_effect(size.scale, outcome, arm) for size, outcome in zip(sizes, outcomes, strict=True))
        for arm in arms
    }
    small, large = (outcome.differences(outcome.titles[0]) for outcome in (outcomes[0], outcomes[-1]))
    trends = [_without_survivors(trend, outcomes) for trend in changes(small, large, effects)]
    folders = tuple(str(outcome.folder) for outcome in outcomes)
    return Scales(study.question, study.measured, tuple(sizes), tuple(trends), folders, bool(study.tune))


def _effect(scale: float, outcome: Outcome, arm: str) -> Effect:
    v = outcome.verdicts[arm].verdict
    return Effect(scale, v.difference, v.low, v.high, v.p, v.verdict, v.pairs)


def _without_survivors(trend: Trend, outcomes: Sequence[Outcome]) -> Trend:
    """The trend, unresolved where a run diverged or collapsed: the seeds that are left may not be typical."""
    for outcome in (outcomes[0], outcomes[-1]):
        title = outcome.titles[0]
        lost = came_to_nothing(outcome.rows[title, trend.arm]) | came_to_nothing(
            outcome.rows[title, outcome.verdicts.control]
        )
        if lost:
            note = f"{len(lost)} seed{'s' * (len(lost) > 1)} of {outcome.folder.name} diverged or collapsed"
            return dataclasses.replace(trend, word="unresolved", turns=False, note=note)
    return trend
