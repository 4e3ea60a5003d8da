"""Carry out a search: train its trials, choose the best, evaluate it on the test sets, and write search.json."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import safetensors
import torch
from safetensors.torch import load

from headtohead.errors import InputError
from headtohead.model.ahead import detach
from headtohead.outcome.metrics import better_way
from headtohead.report import grid
from headtohead.run import files, store
from headtohead.run.events import Event
from headtohead.run.executors.execution import Execution, train_all
from headtohead.run.forecast import Forecast, mean_seconds
from headtohead.run.searches import FORMAT, SearchRecord, TrialRecord, read_search, write_search
from headtohead.run.session import Options
from headtohead.run.store import Record
from headtohead.search.proposals import propose
from headtohead.search.space import Point, Range, Search, point_text
from headtohead.search.trials import Trial, at_edge, ranked
from headtohead.training.arm import RunSpec
from headtohead.training.tasks import task_of

START_SECONDS = 4.0  # until worker processes have started


@dataclass(frozen=True)
class Proposed:
    """Trials that are trained next; some may be in the store already."""

    trials: list[Trial]
    of: int  # trials of the whole search
    metric: str
    id: str = ""


@dataclass(frozen=True)
class Searched:
    """The best trial is chosen, and search.json is written."""

    folder: str
    already: bool = False  # an earlier call did it
    id: str = ""

    @property
    def record(self) -> SearchRecord:
        return read_search(Path(self.folder))


SearchEvent: TypeAlias = Event | Forecast | Proposed | Searched


def run_search(
    search: Search,
    home: Path | None = None,
    *,
    jobs: int | None = None,
    options: Options | None = None,
    forecast_only: bool = False,
) -> Iterator[SearchEvent]:
    """Train the trials that the store lacks, choose the best, and evaluate it on the test sets. Ends early, with
    everything saved, when the user stops."""
    home, jobs = home or store.home(), jobs or os.cpu_count() or 1
    folder = home / files.SEARCHES / search.id
    if os.path.lexists(folder / files.SEARCH):
        _draw(folder)
        yield Searched(str(folder), already=True)
        return
    metric = search.metric
    options = options or Options()
    how = Execution(jobs, threads=search.threads, device=search.device, save_every=options.save_every)
    execute = how.executor()
    done: list[TrialRecord] = []
    proposals = propose(search)
    points, forecast_made = next(proposals), False
    while points:
        trials = [_trial(search, len(done) + n, point) for n, point in enumerate(points)]
        specs = list({spec.id: spec for trial in trials for spec in trial.runs.values()}.values())
        todo = [spec for spec in specs if not Record.at(home, spec.id).has_ended]
        _prepare(todo)
        if todo and not forecast_made:
            forecast_made = True
            yield _forecast(search, todo, search.count - len(done) - len(trials) + len(todo), jobs)
            if forecast_only:
                return
        yield Proposed(trials, search.count, metric)
        if not (yield from train_all(execute, specs, home)):
            return
        measured = [_measured(trial, metric, home) for trial in trials]
        done += measured
        try:
            points = proposals.send([trial.value for trial in measured])
        except StopIteration:
            points = []
    if forecast_only:
        yield Forecast(0, jobs, 0.0)
        return
    _conclude(search, done, home, folder)
    _draw(folder)
    yield Searched(str(folder))


def _forecast(search: Search, todo: list[RunSpec], left: int, jobs: int) -> Forecast:
    """Forecast `left` trials from those in `todo`. Trials that are not proposed yet are assumed to be like them."""
    together = left if search.trials is None else min(search.together, left)
    batches = left / together
    rounds = batches * math.ceil(together / jobs)  # a batch waits for its last trial
    each = mean_seconds([spec.arm for spec in todo], search.threads) if search.device == "cpu" else None
    starts = START_SECONDS * batches if min(jobs, together) > 1 else 0.0
    return Forecast(left, min(jobs, together), None if each is None else rounds * each + starts)


def _trial(search: Search, number: int, point: Point) -> Trial:
    try:
        return Trial(number, point, {search.seed: search.run_at(point)})
    except InputError as error:
        if search.trials is None:  # a grid can be corrected before anything is trained
            raise InputError(f"{point_text(point)} do not go together: {error}") from None
        return Trial(number, point, {}, str(error))


def _prepare(specs: list[RunSpec]) -> None:
    """Tokenize each corpus once, before any worker needs it. If that fails, the run reports why."""
    for arm in {(s.arm.data.id, s.arm.tokenizer.id): s.arm for s in specs}.values():
        try:
            task_of(arm)
        except InputError:
            continue


def _measured(trial: Trial, metric: str, home: Path) -> TrialRecord:
    try:
        return trial.measured(metric, home)
    except InputError as error:  # a file of the run is damaged
        return trial.without_value(str(error))


def _conclude(search: Search, trials: list[TrialRecord], home: Path, folder: Path) -> None:
    """Choose the best trial and evaluate it on the test sets, once: a later call shows what is written here."""
    best = ranked(trials, search.metric)[0]
    if best.value is None or best.run is None:
        raise InputError(f"none of the {len(trials)} trials has a value to choose by; the first: {trials[0].why}")
    with store.lock(folder, patience=60):
        if (folder / files.SEARCH).is_file():  # another process was faster
            return
        store.clear_unfinished(folder)
        run = Record.at(home, best.run)
        tried = {axis.path: [axis.low, axis.high] if isinstance(axis, Range) else axis.texts for axis in search.axes}
        record = SearchRecord(
            format=FORMAT,
            id=search.id,
            task=search.arm.task,
            corpus=search.arm.data.corpus.path or search.arm.data.corpus.name,
            arm=search.base.arm.to_json(),
            over={axis.path: axis.to_json() for axis in search.axes},
            sampler="grid" if search.trials is None else "tpe",
            together=search.together if search.trials else None,
            seed=search.seed,
            device=search.device,
            threads=search.threads,
            metric=search.metric,
            better=better_way(search.metric),
            trials=tuple(trials),
            chosen=best.number,
            tied=sum(trial.value == best.value for trial in trials) - 1,
            edges=at_edge(best.settings, tried),
            test=_test_values(search.run_at(best.settings), run),
            warnings=run.require_result().warnings,
        )
        write_search(folder, record)


def _test_values(spec: RunSpec, record: Record) -> dict[str, Any]:
    """Evaluate a run's weights on the test sets, with the same bits as if the run itself had done it."""
    torch.set_num_threads(spec.threads)
    task = task_of(spec.arm)
    model = task.build(spec.seed).to(spec.device)
    detach(model)  # heads of training have no stored weights
    path = record.folder / files.WEIGHTS
    try:
        model.load_state_dict(load(path.read_bytes()))
    except (OSError, RuntimeError, safetensors.SafetensorError):
        raise InputError(f"{path} cannot be read: set the run's folder aside and give the same command again") from None
    model.eval()
    tests = {name: task.evaluate(model, name, spec.device).values for name in task.data.tests}
    return {f"{name}/{figure}": value for name, values in tests.items() for figure, value in values.items()}


def _draw(folder: Path) -> None:
    """Draw the pictures that are missing."""
    missing = [kind for kind in ("png", "svg") if not (folder / f"grid.{kind}").is_file()]
    record = read_search(folder)
    for kind in missing:
        store.write_whole(folder / f"grid.{kind}", grid.image(record, kind))
