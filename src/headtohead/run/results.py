"""The JSON files of a run's folder as typed values: result.json, times.json and env.json. Imports no torch.

A missing key has a default where older versions did not write it. Keys of newer versions are ignored.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from headtohead.data.stored_json import DAMAGED as DAMAGED
from headtohead.data.stored_json import check_types


@dataclass(frozen=True)
class JsonObject:
    """A dataclass whose fields are the keys of a JSON object."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read a JSON object. Raises one of `DAMAGED` if it is not one, lacks a key, or has a value of a wrong type."""
        known = {f.name for f in dataclasses.fields(cls)}
        made = cls(**{key: value for key, value in data.items() if key in known})
        check_types(made)
        return made


@dataclass(frozen=True)
class Best(JsonObject):
    """The best evaluation during training."""

    figure: str  # SET/FIGURE
    value: float
    step: int


@dataclass(frozen=True, kw_only=True)
class Result(JsonObject):
    """result.json: how a run ended and what was measured."""

    status: Literal["complete", "diverged"]
    ended: str  # the status, with the step of a divergence
    steps: int
    weights_of: int  # the step whose weights were kept and measured
    parameters: int = 0
    learning: int | None = None  # parameters that learn
    training_only: int = 0  # parameters of heads that exist in training only, not part of `parameters`
    flops_per_step: int | None = None
    tokens_per_step: int = 0
    values: dict[str, Any]  # by SET/FIGURE
    best: Best | None = None
    data: dict[str, Any]  # vocabulary size, labels, sizes of the sets
    warnings: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return self.status == "complete"

    @property
    def labels(self) -> tuple[str, ...]:
        """What the classes of a classifier mean; empty for a language model."""
        return tuple(self.data.get("says", ()))

    @classmethod
    def from_json(cls, data: Any) -> Self:
        best = data.get("best")
        older = {"ended": data["status"], "weights_of": data["steps"]}  # what these keys mean where they are missing
        result = super().from_json({**older, **data, "best": None if best is None else Best.from_json(best)})
        if not all(value is None or isinstance(value, int | float | list) for value in result.values.values()):
            raise TypeError("values are numbers or lists")
        if not all(isinstance(label, str) for label in result.labels):
            raise TypeError("labels are texts")
        return result


@dataclass(frozen=True)
class Failure(JsonObject):
    """failed.json: why a run failed."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Times(JsonObject):
    """times.json: how long a run took and how much memory it needed."""

    seconds: float | None = None  # in training steps, over all calls
    other_seconds: float | None = None  # outside training steps, in the last call
    step_ms: float | None = None
    seconds_at: dict[str, float] = field(default_factory=dict)  # in training steps up to each evaluation, by step
    peak_mb: float | None = None  # of the process, not only of this run
    learning_mb: float | None = None  # gradients and optimizer state
    finished: str = "1970-01-01T00:00:00+00:00"


@dataclass(frozen=True, kw_only=True)
class Environment(JsonObject):
    """env.json: where and with what a run was trained."""

    headtohead: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    system: str | None = None
    processor: str | None = None
    cores: int | None = None
    device: str | None = None
    threads: int | None = None
    started: str | None = None
