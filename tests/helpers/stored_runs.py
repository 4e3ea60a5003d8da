"""Values of the runs that are stored with the recipes, read from their JSON alone."""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

from headtohead.claims.run import STORED
from headtohead.spec.userfiles import RECIPES


class StoredArm(NamedTuple):
    study: str
    task: str
    metric: str
    arm: str
    is_control: bool
    values: dict[str, float]  # by seed


@cache
def stored_arms() -> list[StoredArm]:
    """Every arm of the studies whose metric is one value of a run."""
    found = []
    for file in sorted((RECIPES / "published" / STORED).glob("*.json")):
        kept = json.loads(file.read_text(encoding="utf-8"))
        study, runs = kept["study"], kept["runs"]
        for number, arm in enumerate(study["tables"][0]["arms"]):
            values = {seed: runs[run]["result"]["values"].get(study["metric"]) for seed, run in arm["runs"].items()}
            if len(values) > 1 and None not in values.values():
                found.append(StoredArm(file.stem, study["task"], study["metric"], arm["name"], number == 0, values))
    return found
