"""Carrying out what a report's figures and claims rest on: what is missing is trained, measured and written down."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import run_specs
from headtohead.carry import arms_of, folder_of, trials_of
from headtohead.errors import InputError
from headtohead.outcome import Outcome, load_outcome
from headtohead.reproduce import kept
from headtohead.reproduce.evidence import Outcomes
from headtohead.reproduce.experiments import Experiment
from headtohead.reproduce.measures import Measure
from headtohead.store import Record
from headtohead.study import Study

STORED = "measured"  # beside the recipes


def measured(outcome: Outcome, recipe: str, measure: Measure) -> Iterator[float]:
    """What the recipe wants to know of each run's weights, once; the share that is done."""
    runs = [row.run for row in outcome.all_rows if row.status in ("complete", "collapsed")]
    for n, run in enumerate(runs):
        record = Record(outcome.home / "runs" / run)
        if recipe not in record.measures:
            said = {**record.measures, recipe: measure(record)}
            store.write_whole(record.folder / store.MEASURES, store.to_text(store.plain(said)))
        yield (n + 1) / len(runs)


# -- where results are read from ---------------------------------------------------------------------------------------


def outcomes_in_store(experiment: Experiment, *, quick: bool, home: Path) -> Outcomes:
    """Of runs that were trained here."""
    studies = experiment.to_run(quick)

    def of(study: Study) -> Outcome:
        asked = studies[experiment.name_of(study)]
        folder = folder_of(asked, home)
        if not (folder / "study.json").is_file():
            raise InputError(f"study {asked.name} has not been run here yet: h2h reproduce")
        return load_outcome(folder)

    return _once(of)


def outcomes_stored(experiment: Experiment, where: Path, room: Path) -> Outcomes:
    """Of runs whose results are kept beside the recipes; `room` is a folder to unpack them in."""

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
    """What a study still takes."""

    study: str
    runs: int
    seconds: float  # on one core


def needs(experiments: list[Experiment], *, quick: bool, home: Path, where: Path) -> list[Need]:
    """By what the same runs took when they were stored, times how fast this machine is now; where nothing is stored, by
    a few steps of the control."""
    pace: float | None = None
    found: list[Need] = []
    seen: set[str] = set()  # runs that several studies share are trained once
    for experiment in experiments:
        for name, study in experiment.to_run(quick).items():
            took = {} if quick else _took(where / STORED / f"{name}.json")
            expected = {*(took or _own(study, home)), *_tuning(study)}
            missing = {run for run in expected if not (home / "runs" / run / "result.json").is_file()} - seen
            seen |= missing
            if not missing:
                continue
            if took:
                pace = _pace(where) if pace is None else pace
                usual = sum(took.values()) / len(took)
                seconds = pace * sum(took.get(run, usual) for run in missing)
            else:
                seconds = _forecast(study) * len(missing)
            found.append(Need(study.name, len(missing), seconds))
    return found


def _forecast(study: Study) -> float:
    from headtohead.forecast import forecast

    return forecast(study.control).seconds


def _own(study: Study, home: Path) -> list[str]:
    arms = arms_of(study, home)
    return [spec.id for arm in arms for spec in run_specs(arm, study.all_seeds, "cpu", 1).values()]


def _tuning(study: Study) -> list[str]:
    return [spec.id for trial in trials_of(study, "cpu", 1) for spec in trial.specs.values()]


def _took(file: Path) -> dict[str, float]:
    """Seconds that each stored run of a study takes; none where nothing is stored. An arm's runs are the same work: the
    fastest third of them tell, for others may have shared the machine or slept with it."""
    if not file.is_file():
        return {}
    said = kept.read(file)
    times = {run: kept_run["times"] for run, kept_run in said["runs"].items()}
    seconds = {run: t["seconds"] + t.get("other_seconds", 0) for run, t in times.items() if "seconds" in t}
    arms = [arm["runs"].values() for table in said["study"]["tables"] for arm in table["arms"]]
    found: dict[str, float] = {}
    for runs in (*arms, said["study"]["again"].values()):
        measured = sorted(seconds[run] for run in runs if run in seconds)
        fastest = measured[: -(-len(measured) // 3)]
        found |= {run: sum(fastest) / len(fastest) for run in runs if run in seconds}
    return found


def reference_seconds() -> float:
    """A step of the default language model, alone on this machine."""
    from headtohead.arm import Arm
    from headtohead.forecast import forecast

    return min(forecast(Arm()).step_seconds for _ in range(3))


def _pace(where: Path) -> float:
    """How much slower this machine is now than the one whose results are stored: 1 is as fast."""
    file = where / STORED / "pace.json"
    if not file.is_file():
        return 1.0
    return reference_seconds() / float(json.loads(file.read_text(encoding="utf-8"))["reference_seconds"])
