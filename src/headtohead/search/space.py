"""What a search goes over: lists and ranges of settings, and the runs that points among them stand for."""

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

from headtohead.arm import Arm, RunSpec
from headtohead.errors import InputError
from headtohead.spec import Spec
from headtohead.study import split_values
from headtohead.tasks import work_on

MOST = 10_000  # trials
TOGETHER = 4  # trials that TPE proposes before it hears of them: suits one, two and four cores
FIXED = {  # what decides how trials are measured, and is the same for all
    "task": "models of two tasks have no figure in common",
    "data": "on other data there is another validation set",
    "evaluate": "trials are all measured alike",
}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.IGNORECASE)

Point = dict[str, Any]  # path → value, as JSON has it


def value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def point_text(point: Point) -> str:
    return ", ".join(f"{path}={value_text(value)}" for path, value in point.items())


@dataclass(frozen=True)
class Choices:
    """A list of values of one setting."""

    path: str
    said: tuple[Any, ...]  # numbers, truth values and none as they are, anything else as its text
    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    def to_json(self) -> Any:
        return list(self.said)

    def value(self, said: Any) -> Any:
        return self.values[self.said.index(said)]


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included; of a setting that is a whole number, whole ones."""

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

    def value(self, said: Any) -> Any:
        return said


Axis = Choices | Range


def read_axis(arm: Arm, path: str, given: str | Sequence[Any]) -> Axis:
    """`16,32,64`, `1e-5..1e-3` or a list of values, each of them tried on the arm."""
    place = path.split(".")[0]
    if place in FIXED:
        raise InputError(f"a search goes over how a model is made and trained, not over {path}: {FIXED[place]}")
    arm.get(path)  # says the nearest name

    def read(value: Any) -> Any:
        try:
            return arm.set(path, value).get(path)
        except InputError as error:
            raise InputError(f"cannot try {path}={value}: {error}") from None

    ends = RANGE.fullmatch(given) if isinstance(given, str) else None
    if ends:
        return _range(path, given, *(read(end) for end in ends.groups()))
    if isinstance(given, str) and ".." in given and "/" not in given:
        raise InputError(f"{path}={given} is no range: a range is two numbers, such as 1e-5..1e-3")
    values = split_values(given) if isinstance(given, str) else list(given)
    if not values:
        raise InputError(f"{path} has no values to try: list them, such as {path}=16,32, or give a range, 16..64")
    found = [read(value) for value in values]
    twice = next((n for n, v in enumerate(found) if v in found[:n]), None)
    if twice is not None:
        raise InputError(f"{path} has {values[twice]} twice: two trials would be the same")
    return Choices(path, tuple(_said(v, typed) for v, typed in zip(found, values, strict=True)), tuple(found))


def _range(path: str, given: Any, low: Any, high: Any) -> Range:
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise InputError(f"{path} is no number, and has no range: list its values, parted by commas")
    if low >= high:
        raise InputError(f"{path}={given} is no range: the lower end comes first, and the other is above it")
    return Range(path, low, high)


def _said(value: Any, given: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return given if isinstance(given, str) else str(given).replace("()", "")  # Rope says what Rope() does


@dataclass(frozen=True)
class Search:
    """What to try, and how often. `over` maps field paths to lists of values, or to texts: "16,32" or "1e-5..1e-3"."""

    arm: Arm
    over: Mapping[str, str | Sequence[Any]]
    trials: int | None = None  # none: every combination
    seed: int = 0  # of the runs, and of what is proposed
    together: int = TOGETHER  # trials that TPE proposes at a time; what it proposes depends on that, so it is in the id
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.over:
            raise InputError("say what to search over: --over train.batch=16,32 --over train.optimizer.lr=1e-4,3e-4")
        if self.arm.evaluate.watch_test:
            raise InputError(
                "this arm looks at the test sets along the way, and a search reads them for its choice alone: "
                "--set evaluate.watch_test=false"
            )
        if self.together < 1:
            raise InputError(f"--together is a number from 1 on, not {self.together}")
        self._check_trials()

    def _check_trials(self) -> None:
        there = math.prod(axis.count for axis in self.axes)
        ranges = [axis for axis in self.axes if isinstance(axis, Range)]
        if self.trials is not None and not 1 <= self.trials <= MOST:
            raise InputError(f"--trials is a number from 1 to {MOST:,}, not {self.trials:,}")
        if self.trials is None and ranges:
            raise InputError(f"{ranges[0].path} has a range: say how many of its values to try, such as --trials 20")
        if there == 1:
            raise InputError(
                "there is one combination, and nothing to choose: list more values, or train it: h2h train"
            )
        if self.trials is None and there > MOST:
            raise InputError(
                f"{there:,} combinations are more than {MOST:,}: list fewer values, or say how many of them to try, "
                "such as --trials 50"
            )
        if self.trials is not None and self.trials >= there:
            raise InputError(
                f"--trials {self.trials:,} would try all of the {there:,} combinations there are: "
                + ("give fewer, or list the values" if ranges else "leave it out")
            )

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(read_axis(self.arm, path, given) for path, given in self.over.items())

    @property
    def count(self) -> int:
        """Trials in all."""
        return self.trials or math.prod(int(axis.count) for axis in self.axes)

    @cached_property
    def metric(self) -> str:
        """The figure that chooses, SET/FIGURE. Reads the data."""
        work = work_on(self.arm)
        if "validation" not in work.data.held:
            raise InputError(
                "the data has no validation set, and there is nothing else to choose by: "
                "give a file with --validation, or carve a share with --set data.validation=0.1"
            )
        figure = work.goal[0]
        if self.arm.task == "lm" and any(axis.path.split(".")[0] == "tokenizer" for axis in self.axes):
            figure = "bits_per_byte"  # loss a token does not compare across vocabularies
        return f"validation/{figure}"

    # -- runs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> RunSpec:
        """The arm as trials have it, before anything is tried."""
        arm = self.arm.set("evaluate.tests", False)
        return RunSpec(arm=arm, seed=self.seed, device=self.device, threads=self.threads).resolved()

    @cached_property
    def id(self) -> str:
        """Names its folder in the store. As with runs, the same name with other text in it is another search."""
        over = [
            [a.path, a.to_json() if isinstance(a, Range) else [v.id if isinstance(v, Spec) else v for v in a.values]]
            for a in self.axes
        ]
        said = [self.base.id, over, self.trials, self.together if self.trials else None]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def run_at(self, point: Point) -> RunSpec:
        """The run of a point."""
        arm = self.arm.set("evaluate.tests", False)
        for axis in sorted(self.axes, key=lambda a: a.path.count(".")):  # an optimizer before its learning rate
            arm = arm.set(axis.path, axis.value(point[axis.path]))
        for axis in self.axes:
            parted = any(other.path.startswith(f"{axis.path}.") for other in self.axes)
            if not parted and arm.get(axis.path) != axis.value(point[axis.path]):
                raise InputError(f"{axis.path} is undone by another setting that is searched over: leave one out")
        known = self._resolved(arm)
        arm = dataclasses.replace(arm, data=known.data, tokenizer=known.tokenizer, start=known.start)
        return dataclasses.replace(self.base, arm=arm)

    @cached_property
    def _known(self) -> dict[Any, Arm]:
        return {}

    def _resolved(self, arm: Arm) -> Arm:
        """With fingerprints, for which files are read: once, and not at every point."""
        key = arm.data, arm.tokenizer, arm.start
        if key not in self._known:
            self._known[key] = dataclasses.replace(self.base, arm=arm).resolved().arm
        return self._known[key]
