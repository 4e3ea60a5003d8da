"""Carrying out what a report's figures and claims rest on: what is missing is trained, measured and written down."""

from __future__ import annotations

import hashlib
import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import run_specs
from headtohead.carry import arms_of, folder_of, trials_of
from headtohead.errors import InputError, nearest
from headtohead.forecast import Company, forecast
from headtohead.outcome import Outcome, load_outcome
from headtohead.reproduce import kept, measures
from headtohead.reproduce.evidence import Outcomes
from headtohead.reproduce.experiments import Experiment
from headtohead.reproduce.measures import Measure
from headtohead.store import Record
from headtohead.study import Study

STORED = "measured"  # beside the recipes


def measured(outcome: Outcome, recipe: str, measure: Measure) -> Iterator[float]:
    """What the recipe wants to know of each run's weights, once; the share that is done."""
    runs = [row.run for row in outcome.all_rows if row.status in ("complete", "collapsed")]
    name = f"{recipe}-{_digest(measure)}"
    for n, run in enumerate(runs):
        record = Record(outcome.home / "runs" / run)
        if name not in record.measures:
            others = {known: said for known, said in record.measures.items() if known.rpartition("-")[0] != recipe}
            said = {**others, name: measure(record)}
            store.write_whole(record.folder / store.MEASURES, store.to_text(store.plain(said)))
        yield (n + 1) / len(runs)


def _digest(measure: Measure) -> str:
    """Of what is measured and how: taken by other code, it is another figure."""
    held = [repr(c.cell_contents) for c in measure.__closure__ or () if isinstance(c.cell_contents, str | int | float)]
    text = "\n".join([inspect.getsource(measures), inspect.getsource(measure), *held])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# -- where results are read from ---------------------------------------------------------------------------------------


def outcomes_in_store(experiment: Experiment, *, quick: bool, home: Path) -> Outcomes:
    """Of runs that were trained here."""
    studies = experiment.to_run(quick)

    def of(study: Study) -> Outcome:
        asked = studies[experiment.name_of(study)]
        folder = folder_of(asked, home)
        if not (folder / "study.json").is_file():
            raise kept.Absent(f"study {asked.name} has not been run here yet: h2h reproduce")
        return load_outcome(folder)

    return _once(of)


def outcomes_stored(experiment: Experiment, where: Path, room: Path) -> Outcomes:
    """Of runs whose results are kept beside the recipes; `room` is a folder to unpack them in."""

    def of(study: Study) -> Outcome:
        file = where / STORED / f"{experiment.name_of(study)}.json"
        kept.check(file, study)
        return kept.unpacked(file, room / experiment.name)

    return _once(of)


def stored_by_name(found: list[Experiment], where: Path, room: Path) -> Callable[[str], Outcome]:
    """The same for those who know a study's name alone."""
    studies = {name: study for experiment in found for name, study in experiment.studies.items()}

    @cache
    def of(name: str) -> Outcome:
        if name not in studies:
            raise InputError(f"no recipe has a study {name}: {nearest(name, list(studies))}")
        file = where / STORED / f"{name}.json"
        kept.check(file, studies[name])
        return kept.unpacked(file, room / "by-name" / name)

    return of


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
    """What a study still takes."""

    study: str
    runs: int
    seconds: float  # on one core


def needs(experiments: list[Experiment], *, quick: bool, home: Path, where: Path, jobs: int = 1) -> list[Need]:
    """By a few steps of each control here and now, beside as many others as there will be; how much longer or shorter
    than the control another arm takes is told by what the same runs took when they were stored."""
    found: list[Need] = []
    seen: set[str] = set()  # runs that several studies share are trained once
    with Company(jobs - 1) as company:
        seconds_of = cache(lambda arm: forecast(arm, company=company).seconds)
        for experiment in experiments:
            for name, study in experiment.to_run(quick).items():
                shares = {} if quick else _shares(where / STORED / f"{name}.json", study)
                trials = [spec for trial in trials_of(study, "cpu", 1) for spec in trial.specs.values()]
                tuning = _missing([spec.id for spec in trials], home) - seen
                # what is stored is what tuning chose: the rates that the arms were given before it train nothing
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
    return {run for run in runs if not (home / "runs" / run / "result.json").is_file()}


def _after_tuning(study: Study, home: Path) -> int:
    """Runs that are known only when every arm has its own best rate: all but the control's, at the most."""
    trials = trials_of(study, "cpu", 1)
    tuned = all(Record(home / "runs" / spec.id).result for trial in trials for spec in trial.specs.values())
    return 0 if tuned else (len(study.variants) - 1) * len(study.all_seeds)


def _own(study: Study, home: Path) -> list[str]:
    arms = arms_of(study, home)
    return [spec.id for arm in arms for spec in run_specs(arm, study.all_seeds, "cpu", 1).values()]


def _shares(file: Path, study: Study) -> dict[str, float]:
    """What each stored run of a study takes, as a multiple of the control's; none where nothing is stored, or something
    else. An arm's runs are the same work: the fastest third of them tell, for others may have shared the machine or
    slept with it."""
    try:
        kept.check(file, study)
    except InputError:
        return {}
    said = kept.read(file)
    times = {run: kept_run["times"] for run, kept_run in said["runs"].items()}
    seconds = {run: t["seconds"] + t.get("other_seconds", 0) for run, t in times.items() if "seconds" in t}
    arms = [arm["runs"].values() for table in said["study"]["tables"] for arm in table["arms"]]  # the control's first
    usual = {tuple(runs): _fastest([seconds[run] for run in runs if run in seconds]) for runs in arms}
    control = next(iter(usual.values()))
    found = dict.fromkeys(said["study"]["again"].values(), 1.0)
    for runs, own in usual.items():
        found |= dict.fromkeys(runs, own / control if own and control else 1.0)
    return found


def _fastest(seconds: list[float]) -> float | None:
    """The mean of the fastest third."""
    taken = sorted(seconds)[: -(-len(seconds) // 3)]
    return sum(taken) / len(taken) if taken else None
