"""From a run to its tracker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.arm import RunSpec
from headtohead.errors import InputError, nearest
from headtohead.trackers import TRACKERS, open_tracker


@dataclass(frozen=True)
class Track:
    """Opens the tracker of that name for a run; a value, so that it can be sent to a worker."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in TRACKERS:  # said once, and not by every run
            raise InputError(f"there is no tracker '{self.name}': {nearest(self.name, TRACKERS)}")

    def __call__(self, spec: RunSpec, folder: Path) -> Any:
        where = folder.parent.parent / "tracking" / self.name
        return open_tracker(self.name, folder=where, run=spec.id, config=spec.to_json())
