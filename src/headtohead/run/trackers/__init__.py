"""Experiment trackers: the curves of a run also go to TensorBoard, Trackio or Weights & Biases, on this machine only.

metrics.jsonl stays the record; a tracker gets a copy. A tracker that fails is closed with a warning.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.errors import InputError, describe, nearest, needs_extra
from headtohead.run.files import TRACKING

if TYPE_CHECKING:
    from headtohead.training.arm import RunSpec

PROJECT = "headtohead"
TRACKERS = {"tensorboard": "TensorBoard", "trackio": "Trackio", "wandb": "Wandb"}  # module and class of the adapter


@dataclass(frozen=True)
class Track:
    """Opens the tracker of that name for a run. A value, so it can be sent to a worker process."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in TRACKERS:
            raise InputError(f"there is no tracker '{self.name}': {nearest(self.name, TRACKERS)}")
        try:
            version(self.name)
        except PackageNotFoundError:
            raise needs_extra(f"the tracker {self.name}", "track") from None

    def __call__(self, spec: RunSpec, folder: Path) -> Tracker:
        return Tracker(self.name, folder.parent.parent / TRACKING / self.name, spec.id, spec.to_json())


class Tracker:
    """One run in one tracker, continued if the run was logged before. Never raises.

    The first failure ends it: waiting for a locked file or a dead process at every step would slow the run down.
    """

    def __init__(self, name: str, folder: Path, run: str, config: Mapping[str, Any]) -> None:
        self._name = name
        self._step: int | None = None
        self._adapter: Any = None  # has `log` and `close`
        with self._guard("when it was opened"):
            folder.mkdir(parents=True, exist_ok=True)
            adapter = getattr(importlib.import_module(f"{__name__}.{name}"), TRACKERS[name])
            self._adapter = adapter(folder.absolute(), run, flatten(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        with self._guard(f"at step {step}"):
            if self._adapter:
                self._adapter.log(step, {key: float(value) for key, value in values.items()})
                self._step = step

    def finish(self, summary: Mapping[str, float]) -> None:
        """Log the final figures as `summary/…` and close."""
        if summary and self._step is not None:
            self.log(self._step, {f"summary/{key}": value for key, value in summary.items()})
        with self._guard("when it was closed"):
            adapter, self._adapter = self._adapter, None
            if adapter:
                adapter.close()

    @contextmanager
    def _guard(self, when: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of any kind: a tracker must not stop a run
            adapter, self._adapter = self._adapter, None
            if adapter:
                with suppress(Exception):
                    adapter.close()
            message = f"{self._name} failed {when} and is closed, the run continues: {describe(error)}"
            warnings.warn(message, stacklevel=4)  # the line that called `log`


def flatten(config: Mapping[str, Any], path: str = "") -> dict[str, str | float]:
    """{"model": {"heads": 4}} as {"model.heads": 4}; lists and null as JSON."""
    flat: dict[str, str | float] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}{key}.")
        else:
            flat[path + key] = value if isinstance(value, str | int | float) else json.dumps(value)
    return flat
