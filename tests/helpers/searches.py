"""Searches over tiny models, each trial a fraction of a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headtohead import Arm, Files
from headtohead.search import Point, Search, Searched, run_search
from headtohead.search.proposals import propose
from helpers.runs import SMALL

QUICK = [*SMALL, "evaluate.along=8", "evaluate.train=8"]


def arm(text: Path, *settings: str) -> Arm:
    return Arm.of("lm", Files(path=str(text))).settings([*QUICK, "train.steps=4", *settings])


def searched(search: Search, home: Path, jobs: int = 1) -> dict[str, Any]:
    """Carried out to its end; what it found."""
    last = list(run_search(search, home, jobs=jobs))[-1]
    assert isinstance(last, Searched)
    return last.record.to_json()


def results(home: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/result.json"))]


def without_times(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "trials": [{k: v for k, v in trial.items() if k != "seconds"} for trial in said["trials"]]}


def points(search: Search, figure: Callable[[Point], float | None]) -> list[Point]:
    """All that is proposed when points have these figures."""
    proposals = propose(search)
    found, batch = [], next(proposals)
    while batch:
        found += batch
        try:
            batch = proposals.send([figure(point) for point in batch])
        except StopIteration:
            return found
    raise AssertionError("proposals end by themselves")
