"""From a run to its tracker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.arm import RunSpec
from headtohead.trackers import open_tracker


@dataclass(frozen=True)
class Track:
    """Opens the tracker of that name for a run; a value, so that it can be sent to a worker."""

    name: str

    def __call__(self, spec: RunSpec, folder: Path) -> Any:
        where = folder.parent.parent / "tracking" / self.name
        return open_tracker(self.name, folder=where, run=spec.id, config=spec.to_json())
