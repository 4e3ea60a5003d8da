"""Carrying a search out: its trials trained, the best chosen, the test sets read for it, all of it written down."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load

from headtohead import store
from headtohead.arm import RunSpec
from headtohead.errors import InputError
from headtohead.executors import executor_named
from headtohead.metrics import better_way, value_of
from headtohead.report import grid
from headtohead.runs import Event, NotBegun, Options, Stopped
from headtohead.search.forecast import Forecast, foretell
from headtohead.search.proposals import propose
from headtohead.search.space import Point, Range, Search, point_text
from headtohead.store import Record
from headtohead.tasks import work_on

FORMAT = 1  # of search.json


@dataclass(frozen=True)
class Trial:
    """One point and its run; none where its settings do not go together, and why."""

    number: int  # from 0, in the order of proposals
    point: Point
    spec: RunSpec | None
    why: str = ""


@dataclass(frozen=True)
class Proposed:
    """Trials that are about to be trained, or are there."""

    trials: list[Trial]
    of: int  # in all
    metric: str
    id: str = ""


@dataclass(frozen=True)
class Searched:
    """The choice is made and written down."""

    folder: str
    already: bool = False  # by an earlier call
    id: str = ""

    @property
    def said(self) -> dict[str, Any]:
        return read_search(Path(self.folder))


SearchEvent = Event | Forecast | Proposed | Searched


def run_search(
    search: Search,
    home: Path | None = None,
    *,
    jobs: int | None = None,
    options: Options | None = None,
    forecast_only: bool = False,
) -> Iterator[SearchEvent]:
    """Train every trial that the store does not have, choose, and read the test sets for the chosen one. Ends early,
    with everything saved, when the user asks for it."""
    home, jobs = home or store.home(), jobs or os.cpu_count() or 1
    folder = home / "searches" / search.id
    if (folder / "search.json").is_file():
        _draw(folder)
        yield Searched(str(folder), already=True)
        return
    metric = search.metric
    execute = executor_named("local", jobs, search.threads)
    rows: list[dict[str, Any]] = []
    proposals = propose(search)
    points, foretold = next(proposals), False
    while points:
        trials = [_trial(search, len(rows) + n, point) for n, point in enumerate(points)]
        specs = list({trial.spec.id: trial.spec for trial in trials if trial.spec is not None}.values())
        todo = [spec for spec in specs if not (home / "runs" / spec.id / "result.json").is_file()]
        _prepare(todo)
        if todo and not foretold:
            foretold = True
            yield foretell(search, todo, search.count - len(rows) - len(trials) + len(todo), jobs)
            if forecast_only:
                return
        yield Proposed(trials, search.count, metric)
        for event in execute(specs, home, options or Options()):
            yield event
            if isinstance(event, Stopped | NotBegun):
                return
        found = [_row(trial, home, metric) for trial in trials]
        rows += found
        try:
            points = proposals.send([row["value"] for row in found])
        except StopIteration:
            points = []
    if forecast_only:
        yield Forecast(0, jobs, 0.0)
        return
    _conclude(search, rows, home, folder)
    _draw(folder)
    yield Searched(str(folder))


def _trial(search: Search, number: int, point: Point) -> Trial:
    try:
        return Trial(number, point, search.run_at(point))
    except InputError as error:
        if search.trials is None:  # a grid can be mended before anything is trained
            raise InputError(f"{point_text(point)} do not go together: {error}") from None
        return Trial(number, point, None, str(error))


def _prepare(specs: list[RunSpec]) -> None:
    """Tokenize what is not tokenized yet, once and not in every worker. What cannot be is said by its run."""
    for arm in {(s.arm.data.id, s.arm.tokenizer.id): s.arm for s in specs}.values():
        try:
            work_on(arm)
        except InputError:
            continue


def _row(trial: Trial, home: Path, metric: str) -> dict[str, Any]:
    """What came of a trial."""
    status, value, why, seconds = "failed", None, trial.why, None
    if trial.spec is not None:
        record = Record(home / "runs" / trial.spec.id)
        try:
            result, why = record.result, record.failure
            if result is not None:
                measured = value_of(result, metric) if result["status"] == "complete" else math.nan
                value = measured if math.isfinite(measured) else None
                status, why = ("complete", "") if value is not None else ("diverged", result["ended"])
                seconds = record.times.get("seconds")
        except InputError as error:  # torn
            why = str(error)
    return {
        "number": trial.number,
        "settings": trial.point,
        "run": trial.spec and trial.spec.id,
        "status": status,
        "value": value,
        "why": why,
        "seconds": seconds,
    }


def ranked(rows: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The best first, of equals the one that was proposed first; those without a figure last."""
    sign = -1 if better_way(metric) == "higher" else 1
    return sorted(rows, key=lambda row: (row["value"] is None, sign * (row["value"] or 0), row["number"]))


def _conclude(search: Search, rows: list[dict[str, Any]], home: Path, folder: Path) -> None:
    """Choose; then the test sets are read, once: whoever asks again is shown what is written here."""
    best = ranked(rows, search.metric)[0]
    if best["value"] is None:
        raise InputError(f"none of the {len(rows)} trials has a figure to choose by; the first: {rows[0]['why']}")
    with store.lock(folder, patience=60):
        if (folder / "search.json").is_file():  # another process was faster
            return
        store.clear_unfinished(folder)
        record = Record(home / "runs" / best["run"])
        said = {
            "format": FORMAT,
            "id": search.id,
            "task": search.arm.task,
            "corpus": search.arm.data.corpus.path or search.arm.data.corpus.name,
            "arm": search.base.arm.to_json(),
            "over": {axis.path: axis.to_json() for axis in search.axes},
            "sampler": "grid" if search.trials is None else "tpe",
            "together": search.together if search.trials else None,
            "seed": search.seed,
            "device": search.device,
            "threads": search.threads,
            "metric": search.metric,
            "better": better_way(search.metric),
            "trials": rows,
            "chosen": best["number"],
            "tied": sum(row["value"] == best["value"] for row in rows) - 1,
            "edges": _edges(search, best["settings"]),
            "test": _read_tests(search.run_at(best["settings"]), record),
            "warnings": (record.result or {}).get("warnings", []),
        }
        store.write_whole(folder / "search.json", store.to_text(said))


def _edges(search: Search, point: Point) -> list[str]:
    """Settings whose chosen value is the smallest or largest there was: a better one may lie beyond."""
    found = []
    for axis in search.axes:
        ends = [axis.low, axis.high] if isinstance(axis, Range) else axis.said
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        if numbers and len(ends) > 1 and point[axis.path] in (min(ends), max(ends)):
            found.append(axis.path)
    return found


def _read_tests(spec: RunSpec, record: Record) -> dict[str, Any]:
    """Every test set by the weights that the run ended with: to the bit what the run would have said itself."""
    torch.set_num_threads(spec.threads)
    work = work_on(spec.arm)
    model = work.build(spec.seed).to(spec.device)
    path = record.folder / "model.safetensors"
    try:
        model.load_state_dict(load(path.read_bytes()))
    except (OSError, RuntimeError, safetensors.SafetensorError):
        raise InputError(f"{path} cannot be read: set the run's folder aside and give the same command again") from None
    model.eval()
    tests = {name: work.look(model, name, spec.device).values for name in work.data.tests}
    return {f"{name}/{figure}": value for name, values in tests.items() for figure, value in values.items()}


def read_search(folder: Path) -> dict[str, Any]:
    path = folder / "search.json"
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        known = said["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} cannot be read: it is torn or not ours; set it aside and search again") from None
    if not known:
        raise InputError(f"{path} was written by another version of headtohead: set it aside and search again")
    return said


def _draw(folder: Path) -> None:
    """The pictures, where they are not there yet."""
    missing = [kind for kind in ("png", "svg") if not (folder / f"grid.{kind}").is_file()]
    said = read_search(folder)
    for kind in missing:
        store.write_whole(folder / f"grid.{kind}", grid.image(said, kind))
