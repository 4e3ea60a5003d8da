"""Does an effect depend on the learning rate? Every arm at every rate of a grid, with a few seeds. This describes; it
gives no verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

from headtohead.display.study import study_screen
from headtohead.display.training_screen import forecast_line
from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import UNITS, better_way, change_text, figure_of, text_of
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.persistence.sizes import forecast
from headtohead.report.text_table import TextTable
from headtohead.run import store
from headtohead.run.events import Note
from headtohead.run.executors.execution import Execution
from headtohead.stats import compare
from headtohead.study.study import LONGEST_NAME, Study
from headtohead.study.workflow import audit_models, train_and_load

RATE = "train.optimizer.lr"
FACTORS = (1 / 4, 1 / 2, 1, 2, 4)  # of the control's rate
SEEDS = 3


@dataclass(frozen=True)
class AtRate:
    """An arm and the control at one learning rate."""

    rate: float
    control: float  # mean over the seeds
    arm: float
    difference: float  # arm − control, mean over the pairs; NaN where no pair is complete
    agree: int  # pairs whose difference has the sign of the mean
    pairs: int
    lost: int  # pairs without a value, because a run diverged, collapsed or failed


@dataclass(frozen=True)
class ArmRates:
    """One arm over the grid."""

    arm: str
    points: tuple[AtRate, ...]
    own: float  # the rate of the grid nearest to the study's
    holds: int  # rates at which the difference has the sign that it has at `own`
    turns: tuple[float, ...]  # rates at which it has the opposite sign
    best: float | None  # the arm's best rate; None where a run was lost at every rate
    control_best: float | None
    difference: float  # arm at its best rate − control at its best rate
    low: float
    high: float
    pairs: int
    edge: tuple[str, ...]  # control or arm, whose best rate is the smallest or largest of the grid


@dataclass(frozen=True)
class Rates:
    """A study over a grid of learning rates. `str()` is what `h2h run --rates` prints."""

    question: str
    metric: str
    control: str
    rates: tuple[float, ...]
    seeds: int
    chosen_by: str  # the metric that chose the best rates
    arms: tuple[ArmRates, ...]
    folder: str

    def __getitem__(self, arm: str) -> ArmRates:
        found = {row.arm: row for row in self.arms}
        if arm not in found:
            raise InputError(f"no arm '{arm}' in this study: {nearest(arm, found)}")
        return found[arm]

    def to_json(self) -> dict[str, Any]:
        return store.plain({"is_verdict": False, **dataclasses.asdict(self)})

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The result as text, in 80 columns."""
        lines = []
        for arm in self.arms:
            lines += [*self._table(arm), *wrap(self._sign(arm), 80), *wrap(self._best(arm), 80), ""]
        edge = dict.fromkeys(who for arm in self.arms for who in arm.edge)
        if edge:
            who = " and ".join(edge) + (" are" if len(edge) > 1 else " is")
            lines += wrap(f"warning: {who} best at the edge of the grid: a better rate may lie beyond", 80)
        about = (
            f"* best rate, by {self.chosen_by} on these {self.seeds} seeds. {self.seeds} pairs a rate describe; this "
            "is not a verdict. For one at each arm's best rate, give the study tune={...}."
        )
        return lines + wrap(about, 80)

    def _table(self, arm: ArmRates) -> list[str]:
        unit = UNITS[figure_of(self.metric)]
        rows = []
        for p in arm.points:
            values = [
                text_of(self.metric, value) + ("*" if p.rate == best else "")
                for value, best in ((p.control, arm.control_best), (p.arm, arm.best))
            ]
            lost = f", {p.lost} lost" if p.lost else ""
            rows.append([_rate(p.rate), *values, change_text(self.metric, p.difference), f"{p.agree}/{p.pairs}{lost}"])
        title = f"{arm.arm} at each learning rate: {self.metric}" + (f", {unit}" if unit else "")
        return TextTable(title, ["rate", self.control, arm.arm, "difference", "agree"], rows).text(80).splitlines()

    def _sign(self, arm: ArmRates) -> str:
        known = sum(math.isfinite(p.difference) for p in arm.points)
        if not known:
            return "No pair was completed at any rate."
        turned = f"; at {', '.join(map(_rate, arm.turns))} the sign turns" if arm.turns else ""
        lost = f"; at {len(arm.points) - known} no pair was completed" if known < len(arm.points) else ""
        return (
            f"The sign of the effect at {_rate(arm.own)} holds at {arm.holds} of {len(arm.points)} rates{turned}{lost}."
        )

    def _best(self, arm: ArmRates) -> str:
        if arm.best is None or arm.control_best is None:
            return "Best against best: unknown, because runs were lost at every rate."
        own = f"{arm.arm} at {_rate(arm.best)}, {self.control} at {_rate(arm.control_best)}"
        return f"Best against best ({own}): {change_text(self.metric, arm.difference)}."


def _rate(rate: float) -> str:
    return f"{rate:.3g}"


# -- the grid ----------------------------------------------------------------------------------------------------------


def grid_of(study: Study, rates: Sequence[float] | Literal["auto"]) -> tuple[float, ...]:
    """The rates in order; `auto`: 1/4, 1/2, 1, 2 and 4 times the rate of the control."""
    if any(variant.arm.get(RATE) != study.control.get(RATE) for variant in study.variants):
        raise InputError("the arms have different learning rates, and --rates gives all arms the same: leave it out")
    if rates == "auto":
        own = float(study.control.get(RATE))
        return tuple(float(f"{own * factor:.6g}") for factor in FACTORS)
    found = sorted({float(f"{rate:.6g}") for rate in rates})  # the digits that names of arms show
    if len(found) < 2 or not all(0 < rate < math.inf for rate in found):
        raise InputError("--rates takes two learning rates or more, above zero, such as 1e-3,2e-3,4e-3, or auto")
    return tuple(found)


def at_rates(study: Study, rates: Sequence[float], seeds: int | Sequence[int]) -> Study:
    """One study of every arm at every rate. Its control is the control at the first rate."""
    arms = {_name(variant.name, rate): variant.arm.set(RATE, rate) for rate in rates for variant in study.variants}
    return dataclasses.replace(
        study,
        control=study.control.set(RATE, rates[0]),
        arms=arms,
        vary=[*study.paths, *([] if _declared(study) else [RATE])],
        seeds=seeds,
        tune={},
        again=False,
        chaos=False,
        margin=None,
        published=None,
        name=f"{study.folder_name[: LONGEST_NAME - 6]}-rates",
        takes="",
        expected="",
    )


def _declared(study: Study) -> bool:
    return any(f"{RATE}.".startswith(f"{path}.") for path in study.paths)


def _name(arm: str, rate: float) -> str:
    return f"{arm}, lr={rate:g}"


def run_rates(
    study: Study,
    rates: Sequence[float] | Literal["auto"] = "auto",
    execution: Execution | None = None,
    *,
    seeds: int | Sequence[int] = SEEDS,
    home: Path | None = None,
    progress: bool = True,
) -> Rates:
    """Train every arm at every rate and say where the sign of the effect holds: what `h2h run --rates` does.

    A call that was stopped continues: finished runs are in the store.
    """
    if len(study.variants) < 2:
        raise InputError("this study compares nothing: --rates needs a study that varies something")
    home, how = home or store.home(), (execution or Execution()).checked()
    grid = grid_of(study, rates)
    made = at_rates(study, grid, seeds)
    with study_screen(study.measured, quiet=not progress) as screen:
        screen.hear(Note(f"rates: {', '.join(map(_rate, grid))}; {len(made.all_seeds)} seeds each"))
        if study.tune:
            screen.hear(Note("the study's tuning is not used here: every arm is trained at every rate"))
        screen.hear(Note(forecast_line(forecast(made, how, home))))
        audit_models(made, home, screen.hear)
        outcome, _ = train_and_load(made, how, home, screen.hear)
    return describe(study, grid, outcome)


# -- the description ---------------------------------------------------------------------------------------------------


def describe(study: Study, grid: Sequence[float], outcome: Outcome) -> Rates:
    """What the runs of `at_rates` say, arm by arm."""
    names = [variant.name for variant in study.variants]
    rows = {(n, r): {row.seed: row for row in outcome.rows["", _name(n, r)]} for n in names for r in grid}
    by = f"validation/{figure_of(study.measured)}"
    if not all(by in row.values for found in rows.values() for row in found.values() if row.status == "complete"):
        by = study.measured  # the data has no validation set
    best = {name: _best_rate(name, grid, rows, by) for name in names}
    own = min(grid, key=lambda rate: abs(math.log(rate / float(study.control.get(RATE)))))
    arms = tuple(_arm(names[0], name, grid, rows, best, own) for name in names[1:])
    seeds = len(outcome.record.seeds)
    return Rates(study.question, study.measured, names[0], tuple(grid), seeds, by, arms, str(outcome.folder))


Rows = dict[tuple[str, float], dict[int, RunRow]]


def _best_rate(name: str, grid: Sequence[float], rows: Rows, by: str) -> float | None:
    """The rate with the best mean. A rate that lost a run is not considered, as in tuning."""
    means = {}
    for rate in grid:
        runs = list(rows[name, rate].values())
        if all(row.status == "complete" for row in runs):
            means[rate] = _mean([float(row.values[by]) if by in row.values else row.value for row in runs])
    sign = -1 if better_way(by) == "higher" else 1
    return min(means, key=lambda rate: sign * means[rate]) if means else None


def _arm(
    control: str, arm: str, grid: Sequence[float], rows: Rows, best: dict[str, float | None], own: float
) -> ArmRates:
    points = tuple(_point(rate, rows[control, rate], rows[arm, rate]) for rate in grid)
    sign = next(_sign(p.difference) for p in points if p.rate == own)
    theirs, ours = best[control], best[arm]
    difference, low, high, pairs = math.nan, -math.inf, math.inf, 0
    if theirs is not None and ours is not None:
        base, mine = rows[control, theirs], rows[arm, ours]
        verdict = compare([row.value for row in base.values()], [mine[seed].value for seed in base])
        difference, low, high, pairs = verdict.difference, verdict.low, verdict.high, verdict.pairs
    edges = (min(grid), max(grid))
    return ArmRates(
        arm=arm,
        points=points,
        own=own,
        holds=sum(_sign(p.difference) == sign != 0 for p in points),
        turns=tuple(p.rate for p in points if sign and _sign(p.difference) == -sign),
        best=ours,
        control_best=theirs,
        difference=difference,
        low=low,
        high=high,
        pairs=pairs,
        edge=tuple(who for who in (control, arm) if best[who] in edges),
    )


def _point(rate: float, base: dict[int, RunRow], mine: dict[int, RunRow]) -> AtRate:
    differences = [mine[seed].value - row.value for seed, row in base.items()]
    known = [d for d in differences if math.isfinite(d)]
    mean = _mean(known)
    return AtRate(
        rate,
        _mean([row.value for row in base.values() if math.isfinite(row.value)]),
        _mean([row.value for row in mine.values() if math.isfinite(row.value)]),
        mean,
        sum(_sign(d) == _sign(mean) != 0 for d in known),
        len(known),
        len(differences) - len(known),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
