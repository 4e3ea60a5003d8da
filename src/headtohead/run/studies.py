"""The record of a study in the store, `studies/<name>/study.json`: what was asked and which runs answer it.

Imports no torch.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from headtohead.data.stored_json import DAMAGED, check_types
from headtohead.errors import InputError, nearest
from headtohead.run import files, store
from headtohead.run.store import Record
from headtohead.stats.design import Design

FORMAT = 1


@dataclass(frozen=True)
class ArmRecord:
    """One arm: its name in the table, its spec as JSON, and its runs by seed."""

    name: str
    differs: dict[str, str]  # from the control, by field path
    spec: dict[str, Any]
    runs: dict[int, str]
    dropped: bool = False  # no longer in the recipe, but trained and compared

    def to_json(self) -> dict[str, Any]:
        runs = {str(seed): run for seed, run in self.runs.items()}
        mark = {"dropped": True} if self.dropped else {}
        return {"name": self.name, "differs": self.differs, "spec": self.spec, "runs": runs, **mark}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        runs = {int(seed): str(run) for seed, run in data["runs"].items()}
        return cls(data["name"], data["differs"], data["spec"], runs, bool(data.get("dropped", False)))


@dataclass(frozen=True)
class TableRecord:
    """The arms of one table, the control first. A tuned study has two tables."""

    title: str
    arms: tuple[ArmRecord, ...]

    @property
    def control(self) -> ArmRecord:
        return self.arms[0]

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "arms": [arm.to_json() for arm in self.arms]}


@dataclass(frozen=True)
class TuningRecord:
    """How one arm's settings were chosen from the grid."""

    arm: str
    metric: str
    grid: tuple[dict[str, Any], ...]  # each point with its "value"
    best: dict[str, Any]
    edge: tuple[str, ...]  # fields whose best value is the smallest or largest of the grid


@dataclass(frozen=True)
class AnalysisRecord:
    """One time that verdicts of the study were shown."""

    when: str
    pairs: dict[str, int]  # by arm
    metric: str
    margin: float | str | None
    verdicts: dict[str, str]  # by arm
    number: int = 0  # of the planned analysis; 0: it was not planned

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class StudyRecord:
    """Everything that study.json holds."""

    id: str
    name: str
    question: str
    task: str
    corpus: str
    metric: str
    better: Literal["lower", "higher"]
    margin: float | str | None
    vary: tuple[str, ...]
    seeds: tuple[int, ...]
    tables: tuple[TableRecord, ...]
    again: dict[int, str]  # the control's runs with reshuffled batches, by seed
    tuning: tuple[TuningRecord, ...] = ()
    command: str = ""
    takes: str = ""
    expected: str = ""
    made_on: dict[str, Any] = field(default_factory=dict)  # device, threads and content of the data
    chaos: dict[int, str] = field(default_factory=dict)  # the control's runs with perturbed weights, by seed
    design: Design | None = None  # when the study is analysed; None: written by an older version
    history: tuple[AnalysisRecord, ...] = ()  # every time that verdicts were shown
    later: tuple[str, ...] = ()  # arms that were added after the first analysis
    asked_by: tuple[str, ...] = ()  # other metrics by which the store has the same question
    lengths: dict[str, dict[int, str]] = field(default_factory=dict)  # of the control: other lengths, by factor
    published: float | None = None
    locked: str = ""  # hash of the plan that was locked before the first run

    @property
    def planned(self) -> Design:
        """The analyses that were planned. Studies of older versions had one, of all their pairs."""
        return self.design or Design((max(2, len(self.seeds)),))

    def table(self, title: str) -> TableRecord:
        for table in self.tables:
            if table.title == title:
                return table
        raise InputError(f"no table '{title}' in study {self.name}: {nearest(title, (t.title for t in self.tables))}")

    @property
    def arms(self) -> Iterator[ArmRecord]:
        """The arms of every table."""
        for table in self.tables:
            yield from table.arms

    @property
    def runs(self) -> list[str]:
        """Every run of the study, once."""
        tables = [arm.runs for arm in self.arms]
        more = (self.again, self.chaos, *self.lengths.values())
        return list(dict.fromkeys(run for runs in (*tables, *more) for run in runs.values()))

    def to_json(self) -> dict[str, Any]:
        new = {
            "chaos": _by_seed(self.chaos),
            "lengths": {factor: _by_seed(runs) for factor, runs in self.lengths.items()},
            "design": None if self.design is None else dataclasses.asdict(self.design),
            "history": [analysis.to_json() for analysis in self.history],
            "later": self.later,
            "asked_by": self.asked_by,
            "published": self.published,
            "locked": self.locked,
        }
        return store.plain(
            {
                "format": FORMAT,
                "id": self.id,
                "name": self.name,
                "question": self.question,
                "command": self.command,
                "takes": self.takes,
                "expected": self.expected,
                "task": self.task,
                "corpus": self.corpus,
                "metric": self.metric,
                "better": self.better,
                "margin": self.margin,
                "vary": self.vary,
                "seeds": self.seeds,
                "made_on": self.made_on,
                "tables": [table.to_json() for table in self.tables],
                "again": _by_seed(self.again),
                "tuning": [dataclasses.asdict(tuning) for tuning in self.tuning],
                **{name: value for name, value in new.items() if value},
            }
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        known = {f.name for f in dataclasses.fields(cls)}
        plain = {name: value for name, value in data.items() if name in known}
        plain |= {name: str(data.get(name, "")) for name in ("name", "task")}
        return cls(
            **plain
            | {
                "vary": tuple(data["vary"]),
                "seeds": tuple(data["seeds"]),
                "tables": tuple(
                    TableRecord(table["title"], tuple(map(ArmRecord.from_json, table["arms"])))
                    for table in data["tables"]
                ),
                "again": {int(seed): str(run) for seed, run in data["again"].items()},
                "tuning": tuple(
                    TuningRecord(t["arm"], t["metric"], tuple(t["grid"]), t["best"], tuple(t["edge"]))
                    for t in data["tuning"]
                ),
                "chaos": {int(seed): str(run) for seed, run in data.get("chaos", {}).items()},
                "design": _design(data.get("design")),
                "history": tuple(AnalysisRecord(**analysis) for analysis in data.get("history", ())),
                "later": tuple(data.get("later", ())),
                "asked_by": tuple(data.get("asked_by", ())),
                "lengths": {
                    factor: {int(seed): str(run) for seed, run in runs.items()}
                    for factor, runs in data.get("lengths", {}).items()
                },
            }
        )


def _design(data: dict[str, Any] | None) -> Design | None:
    return None if data is None else Design(**{**data, "analyses": tuple(data["analyses"])})


def _by_seed(runs: dict[int, str]) -> dict[str, str]:
    return {str(seed): run for seed, run in runs.items()}


def _checked(record: StudyRecord) -> StudyRecord:
    """Refuse values of wrong types: verdicts are computed from them much later."""
    check_types(record)
    if not (record.tables and all(table.arms for table in record.tables) and record.seeds):
        raise ValueError("a study has tables with arms, and seeds")
    if not 0 < record.planned.alpha < 1:
        raise ValueError("alpha is a probability")
    for run in record.runs:
        Record.at(Path(), run)  # refuses what is no id
    return record


def read_study(folder: Path) -> StudyRecord:
    path = folder / files.STUDY
    data = store.read_json(path, "run the study again")
    try:
        newer = data["format"] > FORMAT
        record = None if newer else _checked(StudyRecord.from_json(data))
    except DAMAGED:
        raise store.unreadable(path, "run the study again") from None
    if record is None:
        raise InputError(f"{path} was written by a newer version of headtohead: update this one to read it")
    return record


def has_study(folder: Path) -> bool:
    """Whether there is a study, or its remains. A folder that we may not look into counts: reading it says so."""
    try:
        (folder / files.STUDY).lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def write_study(folder: Path, record: StudyRecord) -> None:
    store.write_json(folder / files.STUDY, record.to_json())


def study_folders(home: Path) -> list[Path]:
    """The folders of all studies in the store."""
    base = home / files.STUDIES
    return sorted(filter(has_study, base.iterdir())) if base.is_dir() else []


def find_study(name: str, home: Path) -> Path:
    """The folder of a study by its name; `latest` is the one written last."""
    known = study_folders(home)
    if not known:
        raise InputError(f"there are no studies in {home}: run one with `h2h demo` or `h2h run`")
    if name == "latest":
        return max(known, key=_last_written)
    for folder in known:
        if folder.name == name:
            return folder
    raise InputError(f"no study '{name}' in {home}: {nearest(name, (folder.name for folder in known))}")


def _last_written(folder: Path) -> int:
    try:
        return max(file.lstat().st_mtime_ns for file in (folder / files.STUDY, *folder.glob(files.REPORT)))
    except OSError:
        return 0


class ArmRuns(NamedTuple):
    """What `positions/Rope` or `positions/Rope@3` names: an arm of a study, the seed if one is given, and the runs."""

    study: str
    arm: str
    seed: int | None
    records: list[Record]


def find_runs(name: str, home: Path) -> list[Record]:
    """Runs by name: a run id, a unique prefix or `latest`; or an arm of a study, `positions/Rope@3` for its seed 3 and
    `positions/Rope` for all its seeds."""
    return find_arm(name, home).records if "/" in name else [store.find_run(name, home)]


def find_arm(name: str, home: Path) -> ArmRuns:
    """An arm of a study: STUDY/ARM with all its seeds, or STUDY/ARM@SEED. The beginning of the arm's name is enough."""
    study, _, rest = name.partition("/")
    arm, at, seed = rest.rpartition("@") if re.search(r"@\d+$", rest) else (rest, "", "")
    record = read_study(find_study(study, home))
    arms = {a.name: a.runs for a in record.arms}
    arm = arm if arm in arms else next((a for a in arms if a.lower().startswith(arm.lower()) and arm), arm)
    if arm not in arms:
        raise InputError(f"study '{study}' has no arm '{arm}': {nearest(arm, arms)}")
    runs = arms[arm]
    if at and int(seed) not in runs:
        raise InputError(f"{study}/{arm} has no seed {seed}: it has {', '.join(map(str, sorted(runs)))}")
    records = [Record.at(home, runs[s]) for s in ([int(seed)] if at else sorted(runs))]
    found = [r for r in records if r.exists]
    if not found:
        raise InputError(f"{name} is not trained yet: continue the study first")
    return ArmRuns(study, arm, int(seed) if at else None, found)


def other_seeds(record: Record, home: Path) -> list[Record]:
    """Runs in the store that differ from this one only in the seed."""
    own = _without_seed(record)
    return [r for r in store.runs(home) if r.id != record.id and own and _without_seed(r) == own]


def _without_seed(record: Record) -> str:
    """The run's spec without its seed; empty where run.json cannot be read."""
    try:
        spec = record.spec
    except InputError:
        return ""
    return json.dumps({**spec, "seed": None}, sort_keys=True) if isinstance(spec, dict) else ""
