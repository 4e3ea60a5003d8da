"""Train every run of a study that the store lacks, and write study.json. A killed study continues here."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.outcome.metrics import check_set
from headtohead.run import files, store
from headtohead.run.events import Analysed, Event, Stage
from headtohead.run.executors.execution import Execution, train_all
from headtohead.run.locks import read_lock
from headtohead.run.studies import (
    ArmRecord,
    StudyRecord,
    TableRecord,
    TuningRecord,
    has_study,
    read_study,
    study_folders,
    write_study,
)
from headtohead.spec import code_of
from headtohead.study import tuning
from headtohead.study.analyses import analyse, load_without, seconds_until, was_shown
from headtohead.study.layout import Layout, layout_of
from headtohead.study.lengths import runs_worth, train_lengths
from headtohead.study.study import Study
from headtohead.training.arm import RunSpec
from headtohead.training.tasks import task_of


@dataclass(frozen=True)
class StudyTrained:
    """Every run that could be trained is."""

    folder: Path
    id: str = ""


UNNAMED = "study"  # where older versions of this program kept studies without a name
MARKS = re.compile(r"( \(before\)| \(earlier version( \d+)?\))+$")  # "(before)" is from older versions of this program

StudyEvent: TypeAlias = Event | Stage | Analysed | StudyTrained


def train_study(study: Study, execution: Execution | None = None, *, home: Path | None = None) -> Iterator[StudyEvent]:
    """Train the runs that the store lacks, analysis after analysis. Arms that are decided are not trained further. Ends
    early, with everything saved, when the user stops."""
    home, how, begun = home or store.home(), (execution or Execution()).checked(), time.monotonic()
    execute = how.executor()
    for variant in study.variants:
        code_of(variant.arm)  # refuses a class that neither a worker nor a later process could load
    about_data = _check_data(study)
    tuned: list[TuningRecord] = []
    trials = tuning.trials_of(study, how.device, how.threads)
    if trials:
        yield Stage("tuning", tuning.cells_of(trials), warnings=about_data)
        if not (yield from train_all(execute, tuning.runs_of(trials), home)):
            return
        tuned = tuning.choose(study, trials, home)
    layout = layout_of(study, {record.arm: record.best for record in tuned}, how.device, how.threads)
    arms = [variant.name for variant in study.variants[1:]]
    points = study.design.analyses
    wanted = dict.fromkeys(arms or [study.variants[0].name], points[0])  # pairs of each arm
    for pairs, following in zip(points, (*points[1:], None), strict=True):
        part = layout.part(wanted)
        folder = _write(study, home, part, tuned)
        yield Stage("runs", part.cells(), warnings=about_data)
        if not (yield from train_all(execute, part.in_order(), home)):
            return
        outcome = load_without(folder, study.all_seeds[pairs:])
        jobs = how.jobs or 1
        found = analyse(outcome, futility=study.futility, jobs=jobs, last=following is None)
        if following is not None and found.open:
            needed = seconds_until(outcome, len(found.open), following - pairs, jobs, runs_worth(study.lengths))
            if how.budget is not None and needed and time.monotonic() - begun + needed > how.budget:
                found = _out_of_budget(found, following - pairs, how.budget)
        yield found
        if following is None or not found.open:
            break
        wanted |= dict.fromkeys(found.open, following)
    if (yield from train_lengths(folder, study.lengths, execute, about_data)):
        yield StudyTrained(folder)


def _out_of_budget(found: Analysed, pairs: int, budget: float) -> Analysed:
    """The analysis with its open arms stopped."""
    why = f"the budget of {duration(budget)} does not allow {pairs} more pairs"
    stopped = found.stopped | dict.fromkeys(found.open, why)
    return dataclasses.replace(found, open=(), stopped=stopped, next_pairs=None, seconds_left=None)


def _check_data(study: Study) -> list[str]:
    """Tokenize each corpus once, before any worker needs it, and refuse a metric that the data does not have. Returns
    warnings about the data."""
    seen = set()
    warnings: dict[str, None] = {}
    for variant in study.variants:
        key = (variant.arm.data.id, variant.arm.tokenizer.id)
        if key not in seen:
            seen.add(key)
            task = task_of(variant.arm)
            facts = task.facts()
            check_set(study.measured, facts)
            if study.tune:
                check_set("validation/loss", facts)
            warnings |= dict.fromkeys(task.data_warnings())
    return list(warnings)


# -- study.json --------------------------------------------------------------------------------------------------------


def folder_of(study: Study, home: Path | None = None) -> Path:
    """The study's folder, by its name; where another study has that name, with some letters of its id."""
    studies, name = (home or store.home()) / files.STUDIES, study.folder_name
    folders = [studies / name, studies / f"{name}-{study.id[:6]}", studies / f"{name}-{study.id}"]
    earlier = [] if study.name else [studies / UNNAMED, studies / f"{UNNAMED}-{study.id[:6]}"]
    mine = [folder for folder in folders + earlier if has_study(folder) and read_study(folder).id == study.id]
    free = [folder for folder in folders if not has_study(folder)]
    return (mine + free)[0]


def existing_folder(study: Study, home: Path | None = None) -> Path:
    folder = folder_of(study, home)
    if not has_study(folder):
        raise InputError(
            f"study {study.name or study.question!r} has not been run here yet: call study.run() or h2h run"
        )
    return folder


def _write(study: Study, home: Path, layout: Layout, tuned: list[TuningRecord]) -> Path:
    folder = folder_of(study, home)
    with store.lock(folder, patience=30):
        before = read_study(folder) if has_study(folder) else None
        record = record_of(study, folder, layout, tuned, before)
        if before is None or record.to_json() != before.to_json():  # an unchanged file keeps its modification time
            write_study(folder, record)
    return folder


def record_of(
    study: Study,
    folder: Path,
    layout: Layout,
    tuned: Sequence[TuningRecord] = (),
    before: StudyRecord | None = None,
) -> StudyRecord:
    """The record of a study. Pairs that it had before stay in it, and so does its plan once verdicts were shown."""
    first = next(iter(layout.control.runs.values()))
    made_on = {"device": first.device, "threads": first.threads, "content": first.arm.data.corpus.content}
    if before is not None and before.made_on != made_on:  # runs on another text or device do not form pairs
        before = None
    tables = []
    for title, arms in layout.tables:
        rows = [ArmRecord(a.variant.name, a.variant.differs, a.variant.arm.to_json(), _ids(a.runs)) for a in arms]
        if before is not None:
            rows = [_with_earlier_runs(row, before, title, study.all_seeds, folder.parent.parent) for row in rows]
            rows += _dropped(before, title, rows, folder.parent.parent)
        tables.append(TableRecord(title, tuple(rows)))
    corpus = study.control.data.corpus
    locked = read_lock(folder)
    design = study.design if locked is None else dataclasses.replace(study.design, reserve=0.0)
    shown = was_shown(before)
    return StudyRecord(
        id=study.id,
        name=folder.name,
        question=study.question,
        task=study.control.task,
        corpus=corpus.path or corpus.name,
        metric=study.measured,
        better=study.better,
        margin=study.margin,
        vary=study.paths,
        seeds=_seeds(tables, before),
        tables=tuple(tables),
        again=(before.again if before else {}) | _ids(layout.floors.get("again", {})),
        chaos=(before.chaos if before else {}) | _ids(layout.floors.get("chaos", {})),
        tuning=tuple(tuned),
        command=study.command,
        takes=study.takes,
        expected=study.expected,
        made_on=made_on,
        design=before.planned if before is not None and shown else design,
        history=before.history if before is not None else (),
        later=_later(tables, before) if before is not None and shown else (),
        asked_by=before.asked_by if before is not None else _asked_by(study, folder, tables[0].control),
        published=study.published,
        locked=locked.hash if locked is not None else before.locked if before is not None and shown else "",
        lengths=before.lengths if before is not None and before.made_on == made_on else {},
    )


def _with_earlier_runs(row: ArmRecord, before: StudyRecord, title: str, seeds: Sequence[int], home: Path) -> ArmRecord:
    """The arm with the pairs that it had before, in their order, then the new ones. A run that was not trained stays
    only if the study still has its seed."""
    old = next((table.arms for table in before.tables if table.title == title), ())
    runs = next((arm.runs for arm in old if arm.spec == store.plain(row.spec)), {})
    kept = {seed: run for seed, run in runs.items() if seed in seeds or store.Record.at(home, run).has_result}
    return dataclasses.replace(row, runs=kept | row.runs)


def _seeds(tables: list[TableRecord], before: StudyRecord | None) -> tuple[int, ...]:
    """The seeds of the control, in the order of their pairs."""
    earlier, now = before.seeds if before is not None else (), [s for table in tables for s in table.control.runs]
    return tuple(dict.fromkeys([*(seed for seed in earlier if seed in now), *now]))


def _asked_by(study: Study, folder: Path, control: ArmRecord) -> tuple[str, ...]:
    """Other metrics by which studies of the store compared the same fields of the same control."""
    found, spec = set(), store.plain(control.spec)
    for other in study_folders(folder.parent.parent):
        try:
            record = read_study(other)
        except InputError:
            continue
        if record.metric != study.measured and record.vary == study.paths and record.tables[0].control.spec == spec:
            found.add(record.metric)
    return tuple(sorted(found))


def _later(tables: list[TableRecord], before: StudyRecord) -> tuple[str, ...]:
    """Arms that were added after verdicts had been shown, in the order in which they were added. They were no part of
    the plan."""
    known = [arm.spec for arm in before.arms if arm.name not in before.later]
    earlier = [arm.spec for name in before.later for arm in before.arms if arm.name == name]
    places: dict[str, int] = {}
    for arm in (arm for table in tables for arm in table.arms[1:]):
        spec = store.plain(arm.spec)
        if spec not in known:
            places.setdefault(arm.name, earlier.index(spec) if spec in earlier else len(earlier))
    return tuple(sorted(places, key=places.__getitem__))


def _dropped(before: StudyRecord, title: str, rows: list[ArmRecord], home: Path) -> list[ArmRecord]:
    """Arms that the study no longer has, under names that are free. Every arm ever run belongs to the family that
    p-values are corrected for; an arm without a finished run was never run. The control is never dropped."""
    specs, names = [store.plain(row.spec) for row in rows], {row.name for row in rows}
    old = next((table.arms for table in before.tables if table.title == title), ())
    dropped = []
    for row in old[1:]:
        finished = any(store.Record.at(home, run).has_result for run in row.runs.values())
        if row.spec not in specs and finished:
            dropped.append(row)
    return _renamed(dropped, names)


def _renamed(dropped: list[ArmRecord], taken: set[str]) -> list[ArmRecord]:
    """Dropped arms under free names, in the order in which they were dropped. An arm whose name belongs to another one
    now is an earlier version of it; versions are numbered in that order and keep their numbers."""
    dropped = sorted(dropped, key=lambda row: (not row.dropped, -row.name.count(" (before)")))
    unchanged = {row.name for row in dropped if row.dropped and not row.name.endswith(" (before)")} - taken
    taken = taken | unchanged
    renamed = []
    for row in dropped:
        name = row.name
        if name not in unchanged:
            base = MARKS.sub("", name) if row.dropped else name
            name = next(free for free in _versions(base) if free not in taken)
            taken.add(name)
        renamed.append(dataclasses.replace(row, name=name, dropped=True))
    return renamed


def _versions(name: str) -> Iterator[str]:
    yield from (name, f"{name} (earlier version)")
    yield from (f"{name} (earlier version {number})" for number in itertools.count(2))


def _ids(runs: dict[int, RunSpec]) -> dict[int, str]:
    return {seed: spec.id for seed, spec in runs.items()}
