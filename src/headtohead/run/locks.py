"""A locked plan, `studies/<name>/locked.json`: what a study will ask and how, written and hashed before its first run.

Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from headtohead.data.stored_json import DAMAGED
from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.results import JsonObject
from headtohead.run.studies import StudyRecord

NAMES = {
    "question": "question",
    "metric": "metric",
    "margin": "margin",
    "control": "control",
    "arms": "arms",
    "analyses": "analyses",
    "rule": "test",
    "seeds": "seeds",
    "tuning": "tuning grid",
    "exclusions": "rule for lost runs",
    "data": "data and its split",
}
EXCLUSIONS = (
    "a run that diverged, collapsed or failed is in no mean; an arm that lost a seed which the control completed is "
    "never better or equivalent, and an arm that completed a seed which the control lost is never worse"
)


@dataclass(frozen=True)
class LockedPlan(JsonObject):
    """Everything that decides a verdict except the results."""

    question: str
    metric: str
    margin: float | str | None
    control: dict[str, Any]  # spec of the control
    arms: dict[str, Any]  # spec of each other arm, by name
    analyses: list[int]  # numbers of pairs
    rule: str
    alpha: float
    seeds: list[int]
    tuning: dict[str, Any]  # grid and number of seeds
    exclusions: str
    data: dict[str, Any]  # corpus, its content and how it is split

    @property
    def hash(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def differences(self, other: LockedPlan) -> list[str]:
        """What another plan has changed, one short text for each field."""
        mine, theirs = store.plain(self.to_json()), store.plain(other.to_json())
        found = []
        for field, name in NAMES.items():
            if mine[field] == theirs[field]:
                continue
            if field == "arms":
                found += _arm_changes(mine[field], theirs[field])
            elif field in ("control", "data"):
                found.append(f"{name} changed")
            else:
                found.append(f"{name} {_short(mine[field])} → {_short(theirs[field])}")
        return found


def _arm_changes(locked: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = [f"arm {name} added" for name in now if name not in locked]
    found += [f"arm {name} left out" for name in locked if name not in now]
    return found + [f"arm {name} changed" for name in locked if name in now and locked[name] != now[name]]


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 6 and value == list(range(value[0], value[0] + len(value))):
        return f"{value[0]} to {value[-1]}"
    return "none" if value is None else str(value)


def read_lock(folder: Path) -> LockedPlan | None:
    """The locked plan of a study; None if it has none."""
    path = folder / files.LOCKED
    if not os.path.lexists(path):
        return None
    remedy = "restore it, or work without a locked plan"
    data = store.read_json(path, remedy)
    try:
        complete = data["plan"].keys() >= {f.name for f in fields(LockedPlan)} and isinstance(data["hash"], str)
    except DAMAGED:
        complete = False
    if not complete:
        raise store.unreadable(path, remedy)
    try:
        plan = LockedPlan.from_json(data["plan"])
        unchanged = plan.hash == data["hash"]
    except DAMAGED:
        unchanged = False
    if not unchanged:
        raise InputError(f"{path} was changed after it was locked: restore it, or delete it to work without it")
    return plan


def write_lock(folder: Path, plan: LockedPlan, when: str) -> Path:
    path = folder / files.LOCKED
    store.write_json(path, {"hash": plan.hash, "locked": when, "plan": plan.to_json()})
    return path


def as_run(record: StudyRecord, locked: LockedPlan) -> LockedPlan:
    """The plan of a study as it was run, to be compared with the locked one."""
    first = record.tables[0]
    arms = {arm.name: arm.spec for arm in first.arms[1:] if not arm.dropped}
    if record.tuning:  # the specs of a tuned study have the chosen settings
        arms = {name: locked.arms.get(name, spec) for name, spec in arms.items()}
    control = locked.control if record.tuning else first.control.spec
    planned = record.planned
    return LockedPlan(
        question=record.question,
        metric=record.metric,
        margin=record.margin,
        control=control,
        arms=arms,
        analyses=list(planned.analyses),
        rule=planned.rule,
        alpha=planned.alpha,
        seeds=locked.seeds if list(record.seeds) == locked.seeds[: len(record.seeds)] else list(record.seeds),
        tuning=locked.tuning if bool(record.tuning) == bool(locked.tuning) else {},
        exclusions=EXCLUSIONS,
        data={**locked.data, "content": record.made_on.get("content", "")},
    )
