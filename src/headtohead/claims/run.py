"""The runs behind a report's figures and claims: measure them, read their outcomes, forecast the missing ones."""

from __future__ import annotations

import hashlib
import inspect
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headtohead.claims import measures
from headtohead.claims import stored as kept
from headtohead.claims.evidence import Outcomes
from headtohead.claims.experiments import Experiment
from headtohead.claims.measures import Measure
from headtohead.errors import InputError
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import files, store
from headtohead.run.forecast import BackgroundLoad, time_run
from headtohead.run.results import Times
from headtohead.run.store import Record
from headtohead.run.studies import has_study
from headtohead.study.execution import folder_of
from headtohead.study.study import Study
from headtohead.study.tuning import arms_of, is_complete, trials_of
from headtohead.training.arm import run_specs

STORED = "measured"  # the folder next to the recipes


def measured(outcome: Outcome, recipe: str, measure: Measure) -> Iterator[float]:
    """Take the recipe's measure of each run once; yields the share that is done."""
    runs = [row.run for row in outcome.all_rows if row.status in ("complete", "collapsed")]
    name = f"{recipe}-{_digest(measure)}"
    for n, run in enumerate(runs):
        record = Record.at(outcome.home, run)
        try:
            before = record.measures
        except store.Damaged:  # writing sets the damaged file aside
            before = {}
        if name not in before:
            others = {known: values for known, values in before.items() if known.rpartition("-")[0] != recipe}
            measures_now = {**others, name: measure(record)}
            store.write_json(record.folder / files.MEASURES, measures_now)
        yield (n + 1) / len(runs)


def _digest(measure: Measure) -> str:
    """A digest of the measure's code: other code gives another figure."""
    held = [repr(c.cell_contents) for c in measure.__closure__ or () if isinstance(c.cell_contents, str | int | float)]
    text = "\n".join([inspect.getsource(measures), inspect.getsource(measure), *held])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# -- where results are read from ---------------------------------------------------------------------------------------


def outcomes_in_store(experiment: Experiment, *, quick: bool, home: Path) -> Outcomes:
    """Outcomes of runs in the store."""
    studies = experiment.to_run(quick)

    def of(study: Study) -> Outcome:
        asked = studies[experiment.name_of(study)]
        folder = folder_of(asked, home)
        if not has_study(folder):
            raise kept.Absent(f"study {asked.name} has not been run here yet: h2h reproduce")
        return load_outcome(folder)

    return _once(of)


def outcomes_stored(experiment: Experiment, where: Path, room: Path) -> Outcomes:
    """Outcomes of results stored with the recipes; `room` is a folder to unpack them in."""

    def of(study: Study) -> Outcome:
        file = where / STORED / f"{experiment.name_of(study)}.json"
        kept.check(file, study)
        return kept.unpacked(file, room / experiment.name)

    return _once(of)


def _once(of: Any) -> Outcomes:
    read: dict[int, Outcome] = {}

    def remembered(study: Study) -> Outcome:
        if id(study) not in read:
            read[id(study)] = of(study)
        return read[id(study)]

    return remembered


def room() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="h2h-")


# -- how long it will take ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """The missing runs of a study and their time."""

    study: str
    runs: int
    seconds: float  # on one core


def needs(experiments: list[Experiment], *, quick: bool, home: Path, where: Path, jobs: int = 1) -> list[Need]:
    """Forecast the missing runs of each study. A few steps of the control are timed here, with as many jobs as there
    will be. The times stored with the results give the ratio of other arms to the control."""
    found: list[Need] = []
    seen: set[str] = set()  # several studies may share runs
    with BackgroundLoad(jobs - 1) as load:
        seconds_of = cache(lambda arm: time_run(arm, load=load).seconds)
        for experiment in experiments:
            for name, study in experiment.to_run(quick).items():
                shares = {} if quick else _shares(where / STORED / f"{name}.json", study)
                trials = [spec for trial in trials_of(study, "cpu", 1) for spec in trial.runs.values()]
                tuning = _missing([spec.id for spec in trials], home) - seen
                # stored runs have the rates that tuning chose
                own = _missing(shares or _own(study, home), home) - seen - tuning
                more = 0 if shares else _after_tuning(study, home)
                seen |= own | tuning
                if own or tuning or more:
                    seconds = len(tuning) * seconds_of(trials[0].arm) if tuning else 0.0
                    if own or more:
                        seconds += (sum(shares.get(run, 1.0) for run in own) + more) * seconds_of(study.control)
                    found.append(Need(study.name, len(own) + len(tuning) + more, seconds))
    return found


def _missing(runs: Iterable[str], home: Path) -> set[str]:
    return {run for run in runs if not Record.at(home, run).has_ended}


def _after_tuning(study: Study, home: Path) -> int:
    """An upper bound on the runs that depend on the result of tuning: all but the control's."""
    trials = trials_of(study, "cpu", 1)
    return 0 if is_complete(trials, home) else (len(study.variants) - 1) * len(study.all_seeds)


def _own(study: Study, home: Path) -> list[str]:
    arms = arms_of(study, home)
    return [spec.id for arm in arms for spec in run_specs(arm, study.all_seeds, "cpu", 1).values()]


def _shares(file: Path, study: Study) -> dict[str, float]:
    """The time of each stored run as a multiple of the control's; empty if no results of it are stored. An arm's runs
    are equal work, so the mean of the fastest third counts: the others may have shared the machine."""
    try:
        kept.check(file, study)
    except InputError:
        return {}
    stored = kept.read(file)
    times = {run: Times.from_json(kept_run.times) for run, kept_run in stored.runs.items()}
    seconds = {run: t.seconds + (t.other_seconds or 0) for run, t in times.items() if t.seconds is not None}
    record = stored.study
    arms = [arm.runs.values() for arm in record.arms]  # the control first
    usual = {tuple(runs): _fastest([seconds[run] for run in runs if run in seconds]) for runs in arms}
    control = next(iter(usual.values()))
    found = dict.fromkeys(record.again.values(), 1.0)
    for runs, own in usual.items():
        found |= dict.fromkeys(runs, own / control if own and control else 1.0)
    return found


def _fastest(seconds: list[float]) -> float | None:
    """The mean of the fastest third."""
    taken = sorted(seconds)[: -(-len(seconds) // 3)]
    return sum(taken) / len(taken) if taken else None
