"""Tuning of a study: every arm tries the same grid, on seeds that no verdict uses, and the validation set chooses."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import InputError
from headtohead.outcome.metrics import figure_of
from headtohead.run.events import Cell
from headtohead.run.studies import TuningRecord
from headtohead.search.trials import Trial, at_edge, ranked
from headtohead.study.layout import at_point, by_seed, floors_of, tables_of
from headtohead.study.study import FIRST_TUNING_SEED, Study
from headtohead.training.arm import Arm, RunSpec, run_specs


def trials_of(study: Study, device: str, threads: int) -> list[Trial]:
    """The trials of every arm; none where nothing is tuned. Their runs never evaluate a test set."""
    if not study.tune:
        return []
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + study.tuning_seeds)
    blind = {"evaluate.tests": False, "evaluate.watch_test": False}
    return [
        Trial(n, point, run_specs(at_point(variant.arm, point | blind), seeds, device, threads), arm=variant.name)
        for variant in study.variants
        for n, point in enumerate(study.grid())
    ]


def cells_of(trials: list[Trial]) -> list[Cell]:
    return [Cell(_name(trial), spec.seed, spec.id, trial.arm) for trial in trials for spec in trial.runs.values()]


def _name(trial: Trial) -> str:
    return f"{trial.arm}, " + ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in trial.point.items())


def runs_of(trials: list[Trial]) -> list[RunSpec]:
    return by_seed([trial.runs for trial in trials])


def choose(study: Study, trials: list[Trial], home: Path) -> list[TuningRecord]:
    """Each arm's best point by the validation set. A run that diverged rules its point out."""
    metric = f"validation/{figure_of(study.measured)}"
    records = []
    for variant in study.variants:
        measured = [trial.measured(metric, home) for trial in trials if trial.arm == variant.name]
        best = ranked(measured, metric)[0]
        if best.value is None:
            raise InputError(f"{variant.name} diverged or failed at every point of the grid: choose another grid")
        grid = tuple({**trial.settings, "value": trial.value} for trial in measured)
        edge = tuple(at_edge(best.settings, study.tune))
        records.append(TuningRecord(variant.name, metric, grid, best.settings, edge))
    return records


def is_complete(trials: list[Trial], home: Path) -> bool:
    return all(record.has_ended for trial in trials for record in trial.records(home))


def arms_of(study: Study, home: Path, device: str = "cpu", threads: int = 1) -> list[Arm]:
    """Every arm that is trained after tuning, the control's noise floors included. The best point of the grid is known
    only then; before, each arm is taken as given."""
    trials = trials_of(study, device, threads)
    tuned = bool(trials) and is_complete(trials, home)
    chosen = {record.arm: record.best for record in choose(study, trials, home)} if tuned else {}
    arms = [variant.arm for _, variants in tables_of(study, chosen) for variant in variants]
    return [*arms, *(arm for kind, arm in floors_of(arms[0]).items() if kind in study.floors)]
