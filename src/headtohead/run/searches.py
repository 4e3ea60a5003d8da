"""The record of a search in the store, `searches/<id>/search.json`: its trials and which one was chosen.

Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from headtohead.data.stored_json import DAMAGED
from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.results import JsonObject

FORMAT = 1


@dataclass(frozen=True)
class TrialRecord(JsonObject):
    """One trial: its settings and the value of the metric."""

    number: int  # from 0, in the order of proposals
    settings: dict[str, Any]  # by field path
    run: str | None  # None: the settings do not fit together
    status: Literal["complete", "diverged", "failed"]
    value: float | None  # None unless the trial is complete
    why: str = ""  # why there is no value
    seconds: float | None = None


@dataclass(frozen=True)
class SearchRecord(JsonObject):
    """Everything that search.json holds."""

    format: int
    id: str
    task: str
    corpus: str
    arm: dict[str, Any]
    over: dict[str, Any]  # by field path: a list of values, or {"low": …, "high": …, "log": …}
    sampler: Literal["grid", "tpe"]
    together: int | None
    seed: int
    device: str
    threads: int
    metric: str
    better: Literal["lower", "higher"]
    trials: tuple[TrialRecord, ...]
    chosen: int  # the number of the best trial
    tied: int  # other trials with the same value
    edges: list[str]  # settings whose chosen value is the smallest or largest that was tried
    test: dict[str, Any]  # the chosen trial's test values, by SET/FIGURE
    warnings: list[str]

    @property
    def best(self) -> TrialRecord:
        return next(trial for trial in self.trials if trial.number == self.chosen)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        return super().from_json({**data, "trials": tuple(map(TrialRecord.from_json, data["trials"]))})


def read_search(folder: Path) -> SearchRecord:
    path = folder / files.SEARCH
    data = store.read_json(path, "search again")
    try:
        record = SearchRecord.from_json(data) if data["format"] == FORMAT else None
        if record is not None:
            record.best  # noqa: B018  # raises StopIteration if no trial has the chosen number
    except (StopIteration, *DAMAGED):
        raise store.unreadable(path, "search again") from None
    if record is None:
        raise InputError(f"{path} was written by another version of headtohead: set it aside and search again")
    return record


def write_search(folder: Path, record: SearchRecord) -> None:
    store.write_json(folder / files.SEARCH, record.to_json())
