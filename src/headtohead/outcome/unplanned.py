"""What it costs to analyse a study now, before it is done. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headtohead.outcome.history import note_shown
from headtohead.outcome.outcome import Outcome
from headtohead.outcome.plans import design_text
from headtohead.stats import LEAST_PAIRS, Design
from headtohead.stats.anytime import capital
from headtohead.stats.paired import parts_of_reserve

MOST_PAIRS = 1000


@dataclass(frozen=True)
class AnalysisCost:
    """An analysis that is possible now. Errors are shares: 0.05 is 5 %."""

    pairs: int  # that are complete; 0: nothing can be analysed
    number: int  # of the planned analysis; 0: it is not planned
    of: int  # planned analyses
    next_pairs: int | None  # of the next planned analysis
    planned_error: float  # of all planned analyses together
    reserve: float  # of all unplanned analyses together
    share: float  # of the reserve that the test of an undecided arm may use; the smallest, if they differ
    least_pairs: int | None  # with which an unplanned analysis can decide an arm; None: never
    undecided: tuple[str, ...]
    shown: int  # times that verdicts were shown
    says: tuple[str, ...]  # the same in sentences


def analysis_cost(outcome: Outcome) -> AnalysisCost:
    """What an analysis of the pairs that are complete now would spend, and what it could decide."""
    record, rows = outcome.record, [row for row in outcome.verdicts if not row.dropped]
    design = record.planned
    pairs = max((row.verdict.pairs for row in rows), default=0)
    made = max((row.verdict.analysis for row in rows), default=0)
    number = made if made and pairs <= design.analyses[made - 1] else 0
    undecided = tuple(row.arm for row in rows if row.verdict.verdict == "unresolved")
    parts = parts_of_reserve({row.arm: row.verdict.pairs > 0 for row in outcome.verdicts}, record.later)
    most = max((parts[arm] for arm in undecided), default=1)
    reserve = design.alpha * design.reserve
    found = AnalysisCost(
        pairs=pairs,
        number=number,
        of=len(design.analyses),
        next_pairs=next((n for n in design.analyses if n > pairs), None),
        planned_error=design.planned,
        reserve=reserve,
        share=reserve / most,
        least_pairs=least_pairs(reserve / most),
        undecided=undecided,
        shown=len(record.history),
        says=(),
    )
    return AnalysisCost(**{**vars(found), "says": tuple(_says(found, design))})


def least_pairs(error: float) -> int | None:
    """The number of pairs with which the test for unplanned analyses can decide, if all of them agree."""
    if not error > 0:
        return None
    needed = math.log(1 / error)
    return next((n for n in range(LEAST_PAIRS, MOST_PAIRS) if capital(np.ones(n)) >= needed), None)


def analyse_now(outcome: Outcome) -> AnalysisCost:
    """Record that the verdicts of the complete pairs were shown, as `h2h report` does; return what it cost."""
    cost = analysis_cost(outcome)
    note_shown(outcome, cost.number)
    return cost


def _says(cost: AnalysisCost, design: Design) -> list[str]:
    if not cost.pairs:
        return ["No pair is complete yet: there is nothing to analyse."]
    have = f"{cost.pairs} pair{'s are' if cost.pairs > 1 else ' is'} complete."
    if cost.number:
        told = [f"This is the planned analysis {cost.number} of {cost.of}: {have} It spends nothing beyond the plan."]
    else:
        told = [f"This analysis is not planned. {design_text(design)} {have}"]
        told += _unplanned(cost)
    if cost.shown:
        times = "once" if cost.shown == 1 else f"{cost.shown} times"
        return [*told, f"Verdicts were shown {times} before: the plan is fixed already."]
    return [
        *told,
        "Verdicts were not shown before: the plan is fixed from now on. Arms that are added later are judged by the "
        "test for unplanned analyses alone, and a change of the margin is reported.",
    ]


def _unplanned(cost: AnalysisCost) -> list[str]:
    if not cost.reserve:
        return ["The plan keeps no error for unplanned analyses: this one cannot decide anything."]
    told = [
        f"It uses the reserve: {_percent(cost.reserve)} of error for all unplanned analyses together, however many "
        f"there are. The planned analyses keep their {_percent(cost.planned_error)}."
    ]
    if cost.undecided and cost.least_pairs is not None:
        can = "It can decide an arm" if cost.pairs >= cost.least_pairs else "It cannot decide an arm yet"
        told.append(
            f"{can}: the share of an arm is {_percent(cost.share)}, which needs at least {cost.least_pairs} pairs."
        )
    return told


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
