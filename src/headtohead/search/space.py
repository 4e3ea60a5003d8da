"""The space of a search: lists and ranges of settings, and the run of each point."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headtohead.errors import InputError
from headtohead.spec import Spec, split_values
from headtohead.training.arm import Arm, RunSpec
from headtohead.training.tasks import LanguageModelling, task_of

MOST = 10_000  # trials
TOGETHER = 4  # trials that TPE proposes before it gets their values: suits one, two and four cores
FIXED = {  # fields that decide how trials are measured, and why they cannot be searched
    "task": "models of two tasks have no metric in common",
    "data": "other data has another validation set",
    "evaluate": "all trials are measured the same way",
}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.IGNORECASE)

Point = dict[str, Any]  # field path → JSON value


def value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def point_text(point: Point) -> str:
    return ", ".join(f"{path}={value_text(value)}" for path, value in point.items())


@dataclass(frozen=True)
class Choices:
    """A list of values of one setting."""

    path: str
    texts: tuple[Any, ...]  # the values as JSON: numbers, booleans and null; anything else as text
    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    def to_json(self) -> Any:
        return list(self.texts)

    def value(self, text: Any) -> Any:
        return self.values[self.texts.index(text)]


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included; integers if the setting is an integer."""

    path: str
    low: float
    high: float

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def log(self) -> bool:
        return not self.whole and self.low > 0 and self.high / self.low >= 10

    @property
    def count(self) -> float:
        return self.high - self.low + 1 if self.whole else math.inf

    def to_json(self) -> Any:
        return {"low": self.low, "high": self.high, "log": self.log}

    def value(self, number: Any) -> Any:
        return number


Axis = Choices | Range


def read_axis(arm: Arm, path: str, given: str | Sequence[Any]) -> Axis:
    """Read `16,32,64`, `1e-5..1e-3` or a list of values. Each value is checked on the arm."""
    place = path.split(".")[0]
    if place in FIXED:
        raise InputError(f"a search varies the model and its training, not {path}: {FIXED[place]}")
    arm.get(path)  # raises an error with the nearest name

    def read(value: Any) -> Any:
        try:
            return arm.set(path, value).get(path)
        except InputError as error:
            raise InputError(f"cannot try {path}={value}: {error}") from None

    ends = RANGE.fullmatch(given) if isinstance(given, str) else None
    if ends:
        return _range(path, given, *(read(end) for end in ends.groups()))
    if isinstance(given, str) and ".." in given and "/" not in given:
        raise InputError(f"{path}={given} is not a range: give two numbers, such as 1e-5..1e-3")
    values = split_values(given) if isinstance(given, str) else list(given)
    if not values:
        raise InputError(f"{path} has no values to try: list them, such as {path}=16,32, or give a range, 16..64")
    found = [read(value) for value in values]
    twice = next((n for n, v in enumerate(found) if v in found[:n]), None)
    if twice is not None:
        raise InputError(f"{path} has {values[twice]} twice: leave one out")
    return Choices(path, tuple(_text(v, typed) for v, typed in zip(found, values, strict=True)), tuple(found))


def _range(path: str, given: Any, low: Any, high: Any) -> Range:
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise InputError(f"{path} is not a number, so it has no range: list its values, separated by commas")
    if low >= high:
        raise InputError(f"{path}={given} is not a range: give the smaller number first")
    return Range(path, low, high)


def _text(value: Any, given: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return given if isinstance(given, str) else str(given).replace("()", "")  # Rope means Rope()


@dataclass(frozen=True)
class Search:
    """What to try, and how often. `over` maps field paths to lists of values, or to text: "16,32" or "1e-5..1e-3"."""

    arm: Arm
    over: Mapping[str, str | Sequence[Any]]
    trials: int | None = None  # None: every combination
    seed: int = 0  # of the runs and of the proposals
    together: int = TOGETHER  # trials that TPE proposes at a time; part of the id, because the proposals depend on it
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.over:
            raise InputError(
                "give settings to search over: --over train.batch=16,32 --over train.optimizer.lr=1e-4,3e-4"
            )
        if self.arm.evaluate.watch_test:
            raise InputError(
                "this arm evaluates the test sets during training, but a search evaluates them only for its choice: "
                "--set evaluate.watch_test=false"
            )
        if self.together < 1:
            raise InputError(f"--together is a number, 1 or larger, not {self.together}")
        self._check_trials()

    def _check_trials(self) -> None:
        combinations = math.prod(axis.count for axis in self.axes)
        ranges = [axis for axis in self.axes if isinstance(axis, Range)]
        if self.trials is not None and not 1 <= self.trials <= MOST:
            raise InputError(f"--trials is a number from 1 to {MOST:,}, not {self.trials:,}")
        if self.trials is None and ranges:
            raise InputError(f"{ranges[0].path} has a range: give the number of trials, such as --trials 20")
        if combinations == 1:
            raise InputError("there is only one combination: list more values, or train it with h2h train")
        if self.trials is None and combinations > MOST:
            raise InputError(
                f"{combinations:,} combinations are more than {MOST:,}: list fewer values, or limit the trials, "
                "such as --trials 50"
            )
        if self.trials is not None and self.trials >= combinations:
            raise InputError(
                f"--trials {self.trials:,} is not fewer than the {combinations:,} combinations: "
                + ("give fewer, or list the values" if ranges else "leave it out")
            )

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(read_axis(self.arm, path, given) for path, given in self.over.items())

    @property
    def count(self) -> int:
        """The number of trials."""
        return self.trials or math.prod(int(axis.count) for axis in self.axes)

    @cached_property
    def metric(self) -> str:
        """The metric that chooses, SET/FIGURE. Reads the data."""
        task = task_of(self.arm)
        if "validation" not in task.data.held:
            raise InputError(
                "the data has no validation set to choose by: "
                "give a file with --validation, or split off a part with --set data.validation=0.1"
            )
        figure = task.goal[0]
        if isinstance(task, LanguageModelling) and any(axis.path.split(".")[0] == "tokenizer" for axis in self.axes):
            figure = "bits_per_byte"  # loss per token cannot be compared across vocabularies
        return f"validation/{figure}"

    # -- runs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> RunSpec:
        """The run of the arm without any tried setting. Trials do not evaluate the test sets."""
        arm = self.arm.set("evaluate.tests", False)
        return RunSpec(arm=arm, seed=self.seed, device=self.device, threads=self.threads).resolved()

    @cached_property
    def id(self) -> str:
        """The name of the search's folder in the store. As with runs, it depends on the content of the data."""
        over = [
            [a.path, a.to_json() if isinstance(a, Range) else [v.id if isinstance(v, Spec) else v for v in a.values]]
            for a in self.axes
        ]
        identity = [self.base.id, over, self.trials, self.together if self.trials else None]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]

    def run_at(self, point: Point) -> RunSpec:
        """The run of a point."""
        arm = self.arm.set("evaluate.tests", False)
        for axis in sorted(self.axes, key=lambda a: a.path.count(".")):  # an optimizer before its learning rate
            arm = arm.set(axis.path, axis.value(point[axis.path]))
        for axis in self.axes:
            divided = any(other.path.startswith(f"{axis.path}.") for other in self.axes)
            if not divided and arm.get(axis.path) != axis.value(point[axis.path]):
                raise InputError(f"another searched setting overrides {axis.path}: leave one out")
        known = self._resolved(arm)
        arm = dataclasses.replace(arm, data=known.data, tokenizer=known.tokenizer, start=known.start)
        return dataclasses.replace(self.base, arm=arm)

    @cached_property
    def _known(self) -> dict[Any, Arm]:
        return {}

    def _resolved(self, arm: Arm) -> Arm:
        """The arm with fingerprints. They need reading files, which is done once and not for every point."""
        key = arm.data, arm.tokenizer, arm.start
        if key not in self._known:
            self._known[key] = dataclasses.replace(self.base, arm=arm).resolved().arm
        return self._known[key]
