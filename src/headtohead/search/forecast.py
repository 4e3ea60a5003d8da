"""How long a search will take: a few steps of each sort of run are timed before it begins."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from headtohead.arm import Arm, RunSpec
from headtohead.forecast import forecast
from headtohead.search.space import Search
from headtohead.train import TrainSpec

SORTS = 6  # of runs that are timed; the others are taken to be like them
OTHER_SECONDS = 0.5  # of a run outside its steps and looks
START_SECONDS = 4.0  # until processes of their own are there


@dataclass(frozen=True)
class Forecast:
    """Before the first trial is trained."""

    trials: int  # still to be trained
    jobs: int  # side by side
    seconds: float | None  # none: no trial could be timed
    id: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"trials": self.trials, "jobs": self.jobs, "minutes": self.seconds and self.seconds / 60}


def foretell(search: Search, todo: list[RunSpec], left: int, jobs: int) -> Forecast:
    """Of `left` trials, of which `todo` are known. What is not proposed yet is taken to be like what is."""
    together = left if search.trials is None else min(search.together, left)
    batches = left / together
    turns = batches * math.ceil(together / jobs)  # a batch waits for its last trial
    each = _mean_seconds([spec.arm for spec in todo], search.threads) if search.device == "cpu" else None
    starts = START_SECONDS * batches if min(jobs, together) > 1 else 0.0
    return Forecast(left, min(jobs, together), None if each is None else turns * each + starts)


def _mean_seconds(arms: list[Arm], threads: int) -> float | None:
    paces: dict[str, float | None] = {}  # seconds a step or an epoch
    found = []
    for arm in arms:
        sort = _sort(arm)
        if sort not in paces and len(paces) < SORTS:
            try:
                paces[sort] = forecast(arm, threads).seconds / _length(arm)
            except Exception:  # it cannot be trained: its run will say why
                paces[sort] = None
        pace = paces.get(sort)
        found += [OTHER_SECONDS + pace * _length(arm)] if pace is not None else []
    return sum(found) / len(found) if found else None


def _length(arm: Arm) -> int:
    return arm.train.steps or arm.train.epochs or 1


def _sort(arm: Arm) -> str:
    """The same for arms whose steps cost the same: neither their number nor the learning rate matters."""
    unit = {"steps": 1} if arm.train.steps else {"steps": None, "epochs": 1}
    same = TrainSpec(batch=arm.train.batch, optimizer=type(arm.train.optimizer)(), **unit)
    return dataclasses.replace(arm, train=same).id
