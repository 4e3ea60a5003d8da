"""Carrying a study out: which runs it takes, training those that are not in the store, and writing down what belongs to
it. The verdicts are read from the store afterwards, by `outcome`; a study that was killed anywhere goes on here."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import Arm, RunSpec, run_specs
from headtohead.errors import InputError
from headtohead.executors import executor_named
from headtohead.machine import choose_device
from headtohead.metrics import better_way, check_set, figure_of, value_of
from headtohead.outcome import FORMAT, read_study
from headtohead.runs import Event, NotBegun, Options, Stopped
from headtohead.store import Record
from headtohead.study import FIRST_TUNING_SEED, Study, Variant
from headtohead.tasks import work_on

AGAIN = "control again"


@dataclass(frozen=True)
class Cell:
    """One run of a table of arms × seeds."""

    arm: str
    seed: int
    id: str


@dataclass(frozen=True)
class Stage:
    """Runs that are about to be trained, or are there."""

    title: str
    cells: list[Cell]
    id: str = ""


@dataclass(frozen=True)
class Carried:
    """Everything that could be trained is."""

    folder: str
    id: str = ""


StudyEvent = Event | Stage | Carried


def carry_out(
    study: Study,
    home: Path | None = None,
    *,
    jobs: int | None = None,
    on: str = "local",
    device: str = "cpu",
    threads: int = 1,
    options: Options | None = None,
) -> Iterator[StudyEvent]:
    """Train every run of the study that the store does not have. Ends early, with everything saved, when the user
    asks for it."""
    home = home or store.home()
    device = choose_device(device)
    execute = executor_named(on, jobs or os.cpu_count() or 1, threads)
    options = options or Options()
    _prepare(study)
    chosen: dict[str, dict[str, Any]] = {}
    tuning: list[dict[str, Any]] = []
    if study.tune:
        trials = trials_of(study, device, threads)
        cells = [Cell(t.name, spec.seed, spec.id) for t in trials for spec in t.specs.values()]
        yield Stage("tuning", cells)
        for event in execute(_by_seed([t.specs for t in trials]), home, options):
            yield event
            if isinstance(event, Stopped | NotBegun):
                return
        chosen, tuning = _choose(study, trials, home)
    tables = _tables(study, chosen)
    named = [
        (title, [(v, run_specs(v.arm, study.all_seeds, device, threads)) for v in variants])
        for title, variants in tables
    ]
    again = run_specs(in_another_order(tables[0][1][0].arm), study.all_seeds, device, threads) if study.again else {}
    folder = _write(study, home, named, again, tuning)
    cells, together = [], []
    for title, arms in named:
        mark = f" ({title})" if title and title != named[0][0] else ""
        known = {cell.id for cell in cells}
        for variant, specs in arms:
            if not mark or any(spec.id not in known for spec in specs.values()):  # else it is its own best too
                cells += [Cell(variant.name + mark, seed, spec.id) for seed, spec in specs.items()]
            together.append(specs)
    if again:
        cells += [Cell(AGAIN, seed, spec.id) for seed, spec in again.items()]
        together.append(again)
    yield Stage("runs", cells)
    for event in execute(_by_seed(together), home, options):
        yield event
        if isinstance(event, Stopped | NotBegun):
            return
    yield Carried(str(folder))


def in_another_order(control: Arm) -> Arm:
    """The same with its batches in another order: what makes the noise floor."""
    return control.set("train.order", control.train.order + 1)


def arms_of(study: Study, home: Path, device: str = "cpu", threads: int = 1) -> list[Arm]:
    """Every arm that is trained beside tuning, the control's second turn included. Which point of the grid is best is
    known after tuning; until then an arm as it was given stands for it."""
    trials = trials_of(study, device, threads)
    tuned = all(Record(home / "runs" / spec.id).result for trial in trials for spec in trial.specs.values())
    tables = _tables(study, _choose(study, trials, home)[0] if trials and tuned else {})
    arms = [variant.arm for _, variants in tables for variant in variants]
    return [*arms, in_another_order(arms[0])] if study.again else arms


def _by_seed(arms: list[dict[int, RunSpec]]) -> list[RunSpec]:
    """All arms of a seed before the next seed: whatever is finished makes pairs, and is timed side by side."""
    seeds = list(dict.fromkeys(seed for specs in arms for seed in specs))
    ordered = [specs[seed] for seed in seeds for specs in arms if seed in specs]
    return list({spec.id: spec for spec in ordered}.values())


def _prepare(study: Study) -> dict[str, Any]:
    """Tokenize what is not tokenized yet, once and not in every worker; say now if the metric cannot be had."""
    facts: dict[str, Any] = {}
    seen = set()
    for variant in study.variants:
        key = (variant.arm.data.id, variant.arm.tokenizer.id)
        if key not in seen:
            seen.add(key)
            facts = work_on(variant.arm).facts()
            check_set(study.measured, facts)
            if study.tune:
                check_set("validation/loss", facts)
    return facts


# -- what belongs to it ------------------------------------------------------------------------------------------------


def folder_of(study: Study, home: Path | None = None) -> Path:
    """By its name; where another study has that name already, with some letters of its id."""
    name = study.name or "study"
    folder = (home or store.home()) / "studies" / name
    there = folder / "study.json"
    if there.is_file() and read_study(folder)["id"] != study.id:
        return folder.with_name(f"{name}-{study.id[:6]}")
    return folder


def written(study: Study, home: Path | None = None) -> Path:
    folder = folder_of(study, home)
    if not (folder / "study.json").is_file():
        raise InputError(f"study {study.name or study.question!r} has not been run here yet: study.run(), or h2h run")
    return folder


def _write(study: Study, home: Path, named: Any, again: dict[int, RunSpec], tuning: list[dict[str, Any]]) -> Path:
    folder = folder_of(study, home)
    with store.lock(folder, patience=30):
        before = read_study(folder) if (folder / "study.json").is_file() else {"tables": []}
        first = next(iter(named[0][1][0][1].values()))
        made_on = {"device": first.device, "threads": first.threads, "content": first.arm.data.corpus.content}
        tables = []
        for title, arms in named:
            rows = [
                {"name": v.name, "differs": v.differs, "spec": v.arm.to_json(), "runs": _ids(specs)}
                for v, specs in arms
            ]
            if before.get("made_on") == made_on:  # on other text or another machine they are no pairs
                old: list[dict[str, Any]] = next((t["arms"] for t in before["tables"] if t["title"] == title), [])
                rows += _dropped(old, rows)
            tables.append({"title": title, "arms": rows})
        said = {
            "format": FORMAT,
            "id": study.id,
            "name": folder.name,
            "question": study.question,
            "command": study.command,
            "takes": study.takes,
            "expected": study.expected,
            "task": study.control.task,
            "corpus": study.control.data.corpus.path or study.control.data.corpus.name,
            "metric": study.measured,
            "better": study.better,
            "margin": study.margin,
            "vary": list(study.paths),
            "seeds": list(study.all_seeds),
            "made_on": made_on,
            "tables": tables,
            "again": _ids(again),
            "tuning": tuning,
        }
        if store.plain(said) != before:  # else its time stays: the report is younger than all it tells of
            store.write_whole(folder / "study.json", store.to_text(said))
    return folder


def _dropped(old: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Arms of earlier that are none of the present ones, under names of their own: every arm that was ever run is part
    of the family that verdicts are corrected for. The control belongs to the study and is never one of them."""
    specs, names = [row["spec"] for row in rows], {row["name"] for row in rows}
    found = []
    for row in old[1:]:
        if row["spec"] not in specs:
            name = row["name"]
            while name in names:
                name += " (before)"
            names.add(name)
            found.append({**row, "name": name, "dropped": True})
    return found


def _ids(specs: dict[int, RunSpec]) -> dict[str, str]:
    return {str(seed): spec.id for seed, spec in specs.items()}


# -- fair tuning -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One arm at one point of the grid."""

    arm: str
    point: dict[str, Any]
    specs: dict[int, RunSpec]

    @property
    def name(self) -> str:
        return f"{self.arm}, " + ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in self.point.items())


def _at_point(arm: Arm, point: dict[str, Any]) -> Arm:
    for path, value in point.items():
        arm = arm.set(path, value)
    return arm


def trials_of(study: Study, device: str, threads: int) -> list[Trial]:
    """The runs that choose each arm's point of the grid; none where nothing is tuned. They never see the test sets."""
    if not study.tune:
        return []
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + study.tuning_seeds)
    blind = {"evaluate.tests": False, "evaluate.watch_test": False}
    return [
        Trial(variant.name, point, run_specs(_at_point(variant.arm, point | blind), seeds, device, threads))
        for variant in study.variants
        for point in study.grid()
    ]


def _choose(study: Study, trials: list[Trial], home: Path) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Each arm's best point by the validation set: the test set chooses nothing. A run that diverged rules its point
    out."""
    metric = f"validation/{figure_of(study.measured)}"
    sign = 1 if better_way(metric) == "lower" else -1
    chosen: dict[str, dict[str, Any]] = {}
    told = []
    for variant in study.variants:
        mine = [t for t in trials if t.arm == variant.name]
        scores = []
        for trial in mine:
            results = [Record(home / "runs" / spec.id).result for spec in trial.specs.values()]
            values = [value_of(r, metric) if r and r["status"] == "complete" else math.nan for r in results]
            scores.append(sum(values) / len(values))
        finite = [n for n, s in enumerate(scores) if math.isfinite(s)]
        if not finite:
            raise InputError(f"{variant.name} diverged or failed at every point of the grid: choose another grid")
        best = min(finite, key=lambda n: sign * scores[n])
        chosen[variant.name] = mine[best].point
        told.append(
            {
                "arm": variant.name,
                "metric": metric,
                "grid": [{**t.point, "value": s} for t, s in zip(mine, scores, strict=True)],
                "best": mine[best].point,
                "edge": _edges(study, mine[best].point),
            }
        )
    return chosen, told


def _edges(study: Study, point: dict[str, Any]) -> list[str]:
    """Fields whose best value is the grid's smallest or largest: a better one may lie beyond."""
    found = []
    for path, values in study.tune.items():
        numbers = [v for v in values if isinstance(v, int | float)]
        if len(numbers) == len(values) > 1 and point[path] in (min(numbers), max(numbers)):
            found.append(path)
    return found


def _tables(study: Study, chosen: dict[str, dict[str, Any]]) -> list[tuple[str, list[Variant]]]:
    if not chosen:
        return [("", list(study.variants))]
    control = study.variants[0].name
    return [
        (title, [dataclasses.replace(v, arm=_at_point(v.arm, chosen[whose(v)])) for v in study.variants])
        for title, whose in (("own best", lambda v: v.name), ("shared", lambda _: control))
    ]
