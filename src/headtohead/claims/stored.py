"""The results of a study without weights, in one JSON file that is stored with the recipe. It can be unpacked into a
store, from which verdicts, tables and reports are read as usual."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from headtohead.data.stored_json import DAMAGED, parsed
from headtohead.errors import InputError
from headtohead.outcome.items import Summary, summaries
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import files, store
from headtohead.run.results import JsonObject
from headtohead.run.store import Record
from headtohead.run.studies import StudyRecord, write_study
from headtohead.study.study import Study

FORMAT = 1
ALONG = ("loss", "perplexity", "accuracy")


@dataclass(frozen=True)
class KeptRun(JsonObject):
    """One run of a kept study."""

    result: dict[str, Any]  # result.json without "data"
    data: int  # index in KeptStudy.data
    times: dict[str, Any]
    curve: list[dict[str, Any]]  # lines of metrics.jsonl
    measures: dict[str, dict[str, float]]
    items: dict[str, dict[str, Any]] = field(default_factory=dict)  # summaries by set; files of before 0.2 have none

    def __post_init__(self) -> None:
        """Refuse text where numbers belong: a verdict of the other values would look like any other."""
        for summary in self.items.values():
            Summary.from_json(summary)
        tables = [self.result["values"], *self.measures.values(), *self.curve]
        values = (value for table in tables for value in table.values() if not isinstance(value, list))
        if not isinstance(self.result["status"], str) or not isinstance(self.times, dict):
            raise TypeError("a status is text, times are an object")
        if not all(value is None or isinstance(value, int | float) for value in values):
            raise TypeError("values are numbers")


@dataclass(frozen=True)
class KeptStudy:
    """A study with the results of all its runs, as one JSON file has it."""

    study: StudyRecord
    environment: dict[str, Any]
    data: list[dict[str, Any]]  # of results: the same for all runs on the same text, so it is stored once
    runs: dict[str, KeptRun]

    def __post_init__(self) -> None:
        """Refuse a study without all its runs: a verdict of the others would look like any other."""
        if not self.study.tables or self.runs.keys() != set(self.study.runs):
            raise ValueError("it has not the runs that the study names")
        if not all(isinstance(self.data[run.data], dict) for run in self.runs.values()):
            raise TypeError("data are objects")

    def to_json(self) -> dict[str, Any]:
        runs = {id: run.to_json() for id, run in self.runs.items()}
        about = {"format": FORMAT, "study": self.study.to_json(), "environment": self.environment, "data": self.data}
        return store.plain({**about, "runs": runs})

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        runs = {id: KeptRun.from_json(run) for id, run in data["runs"].items()}
        return cls(StudyRecord.from_json(data["study"]), data["environment"], data["data"], runs)


def packed(outcome: Outcome, name: str) -> KeptStudy:
    """Everything that a verdict or a curve needs, under the study's own name, whatever a store calls it. Arms that are
    no longer the recipe's are left out."""
    tables = tuple(
        replace(table, arms=tuple(arm for arm in table.arms if not arm.dropped)) for table in outcome.record.tables
    )
    study = replace(outcome.record, name=name, tables=tables)
    data: list[Any] = []
    runs: dict[str, KeptRun] = {}
    environment: dict[str, Any] = {}
    for run in study.runs:
        record = Record.at(outcome.home, run)
        if record.result is None:
            raise InputError(f"run {run} of study {outcome.record.name} is not complete: {outcome.record.command}")
        result = record.result.to_json()
        facts = {"data": result.pop("data")}
        if facts not in data:
            data.append(facts)
        environment = environment or record.environment.to_json()
        times, measures = record.times.to_json(), record.measures
        runs[run] = KeptRun(result, data.index(facts), times, _curve(record), measures, _items(record))
    return KeptStudy(study, environment, data, runs)


def _curve(record: Record) -> list[dict[str, Any]]:
    """Loss, perplexity and accuracy of every set at every evaluation."""
    evaluations = (
        {k: v for k, v in line.items() if k == "step" or k.rpartition("/")[2] in ALONG} for line in record.metrics
    )
    return [one for one in evaluations if len(one) > 1]


def _items(record: Record) -> dict[str, dict[str, Any]]:
    """What is kept of the items of each held-out set: losses of clusters, up to 60 numbers a set."""
    if not any((record.folder / name).is_file() for name in (files.ITEMS, files.CLUSTERS)):
        return {}  # a run that diverged has no items
    return {name: summary.to_json() for name, summary in summaries(record).items() if name != "train"}


def write(outcome: Outcome, file: Path) -> None:
    """Write the file with one line for each run, so that a changed run is a changed line."""
    content = packed(outcome, file.stem).to_json()
    runs = content.pop("runs")
    head = json.dumps(content, indent=1, ensure_ascii=False)[:-2]
    lines = ",\n".join(
        f"  {json.dumps(run)}: {json.dumps(value, separators=(',', ':'))}" for run, value in runs.items()
    )
    store.write_whole(file, f'{head},\n "runs": {{\n{lines}\n }}\n}}\n')


class Absent(InputError):  # noqa: N818
    """A study has no stored results. Other studies can still be shown."""


def read(file: Path) -> KeptStudy:
    if not file.is_file():
        raise Absent(f"{file} is not there: run h2h reproduce, then python tools/keep_results.py")
    try:
        content = parsed(file.read_bytes())
        newer = content["format"] > FORMAT
        kept = None if newer else KeptStudy.from_json(content)
    except (OSError, *DAMAGED):
        raise InputError(
            f"{file} cannot be read: it is corrupt, or not written by headtohead; restore it from the repository"
        ) from None
    if kept is None:
        raise InputError(f"{file} was written by a newer version of headtohead: update this one to read it")
    return kept


def check(file: Path, study: Study) -> None:
    """Refuse results of what the recipe no longer says."""
    kept = read(file).study
    tuned = list(study.tune)
    arms = {arm.name: _without(arm.spec, tuned) for arm in kept.tables[0].arms}
    wanted = {v.name: _without(store.plain(v.arm.to_json()), tuned) for v in study.variants}
    same = (
        kept.id == study.id
        and (kept.margin, kept.seeds) == (study.margin, study.all_seeds)
        and list(arms.items()) == list(wanted.items())
    )
    if not same:
        again = "run h2h reproduce, then python tools/keep_results.py"
        raise InputError(f"{file} is of another version of its recipe: {again}")


def _without(spec: Any, paths: list[str]) -> Any:
    """A spec without the values that tuning chose."""
    if not isinstance(spec, dict):
        return spec
    return {
        key: _without(value, [p.partition(".")[2] for p in paths if p.partition(".")[0] == key])
        for key, value in spec.items()
        if key not in paths
    }


def unpacked(file: Path, home: Path) -> Outcome:
    """Unpack the study into a new store in `home`, which may be deleted once the outcome has been read."""
    kept = read(file)
    for id, run in kept.runs.items():
        record = Record.at(home, id)
        if record.has_ended:
            continue  # another study's run too
        record.folder.mkdir(parents=True, exist_ok=True)
        contents: dict[str, Any] = {
            files.RUN: {},
            files.ENVIRONMENT: kept.environment,
            files.TIMES: run.times,
            files.RESULT: {**run.result, **kept.data[run.data]},
            files.CLUSTERS: run.items,
        }
        if run.measures:
            contents[files.MEASURES] = run.measures
        for name, value in contents.items():
            store.write_whole(record.folder / name, json.dumps(value))
        lines = "".join(json.dumps(line) + "\n" for line in run.curve)
        store.write_whole(record.folder / files.METRICS, lines)
    folder = home / files.STUDIES / kept.study.name
    folder.mkdir(parents=True, exist_ok=True)
    write_study(folder, kept.study)
    return load_outcome(folder)


def differences(mine: KeptStudy, stored: KeptStudy) -> tuple[int, int]:
    """How many of the common runs differ in any bit of their results, and how many runs are common."""
    common = mine.runs.keys() & stored.runs.keys()
    values = [(mine.runs[run].result["values"], stored.runs[run].result["values"]) for run in common]
    return sum(a != b for a, b in values), len(common)
