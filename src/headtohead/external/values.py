"""What readers return: runs with their curves, and one value for each arm and seed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headtohead.errors import InputError, it_has
from headtohead.stats import Way

Take = Literal["last", "first", "best"]
TAKES = ("last", "first", "best")


@dataclass(frozen=True)
class Asked:
    """What the user wants to be read. Empty fields are recognised from the content."""

    metric: str | None = None
    arm: str | None = None  # a column, or a field of the runs' configuration
    seed: str | None = None
    better: Way | None = None
    take: Take = "last"  # which point of a curve
    step: int | None = None
    pattern: re.Pattern[str] | None = None  # of log files
    seed_pattern: re.Pattern[str] | None = None  # of names


@dataclass(frozen=True)
class Value:
    """One value of the metric: one run of one arm. A value that is no finite number is missing."""

    arm: str
    seed: str | None
    value: float
    source: str  # file or folder, with the line of a table

    @property
    def is_missing(self) -> bool:
        return not math.isfinite(self.value)

    @property
    def named(self) -> str:
        return f"{self.arm}, {'no seed' if self.seed is None else f'seed {self.seed}'}"


Point = tuple[float, float]  # step and value


@dataclass(frozen=True)
class RunLog:
    """One run as a program logged it."""

    name: str  # from which arm and seed are read where the configuration has none
    source: str
    curves: Mapping[str, Sequence[Point]]  # metric → points in the order in which they were logged
    config: Mapping[str, Any] = field(default_factory=dict)  # flat
    group: str = ""  # the arm that the program itself recorded, such as the group of a W&B run


@dataclass(frozen=True)
class Reading:
    """Everything that was read, and how."""

    format: str  # for the user, such as "TensorBoard folders"
    metric: str
    values: Sequence[Value]
    files: Sequence[str]
    how: Sequence[str] = ()  # where arms, seeds and values come from, one phrase each
    notes: Sequence[str] = ()  # warnings


# -- arms and seeds in names -------------------------------------------------------------------------------------------

SEED_IN_NAME = re.compile(r"(?:^|(?<=[^a-zA-Z]))(?:seed|s)[-_=]?(\d+)(?![a-zA-Z0-9.])", re.IGNORECASE)
NUMBER_AT_END = re.compile(r"(?:^|[-_./=])(\d+)$")
ENDINGS = {".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".log", ".txt", ".out", ".err"}
SEED_FIELDS = ("seed", "random_seed", "rng_seed", "manual_seed")


def bare_name(name: str) -> str:
    """The name without the ending of a file."""
    path = Path(name)
    return str(path.with_suffix("")) if path.suffix.lower() in ENDINGS else name


def split_name(name: str, pattern: re.Pattern[str] | None = None) -> tuple[str, str | None]:
    """The arm and the seed in a run's name: `rope-seed3`, `rope_s3`, `rope/seed=3` and `rope-3` are rope and 3."""
    if pattern is not None:
        found = pattern.search(name)
        if found is None or found[1] is None:
            raise InputError(f"--seed-pattern '{pattern.pattern}' does not match the name '{name}': adapt the pattern")
        matches = [found]
    else:
        matches = list(SEED_IN_NAME.finditer(name)) or list(NUMBER_AT_END.finditer(name))
    if not matches:
        return name, None
    last = matches[-1]
    arm = re.sub(r"([-_./=])[-_./=]+", r"\1", name[: last.start()] + name[last.end() :]).strip("-_./= ")
    return arm, seed_text(last[1])


def seed_text(seed: Any) -> str | None:
    """A seed as text, so that 3, 3.0, "3" and "03" are the same seed. None if it is empty."""
    text = str(seed).strip() if seed is not None else ""
    if text.lower() in ("", "nan", "none", "null"):
        return None
    number = number_of(text)
    return str(int(number)) if number is not None and math.isfinite(number) and number == int(number) else text


def arm_and_seed(run: RunLog, asked: Asked) -> tuple[str, str | None, str, str]:
    """Arm and seed of a run, and where each comes from."""
    named_arm, named_seed = split_name(bare_name(run.name), asked.seed_pattern)
    seed, seed_from = named_seed, "its name"
    if asked.seed is not None:
        seed, seed_from = seed_text(_field(run, asked.seed)), f"the field {asked.seed}"
    elif asked.seed_pattern is None:
        field = next((f for f in SEED_FIELDS if f in run.config), None)
        if field is not None:
            seed, seed_from = seed_text(run.config[field]), f"the field {field}"
    if asked.arm is not None:
        return str(_field(run, asked.arm)), seed, f"the field {asked.arm}", seed_from
    return run.group or named_arm, seed, "the group" if run.group else "its name", seed_from


def _field(run: RunLog, name: str) -> Any:
    if name not in run.config:
        raise InputError(f"{run.source} has no field '{name}' in its configuration: {it_has(name, run.config)}")
    return run.config[name]


# -- numbers -----------------------------------------------------------------------------------------------------------


def number_of(value: Any) -> float | None:
    """The number, nan where there is none (empty, null, nan), None where the value is text."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if value is None:
        return math.nan
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.lower() in ("", "nan", "null", "none", "na", "n/a"):
        return math.nan
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def chosen_point(points: Sequence[Point], asked: Asked, source: str, better: Way | None) -> float:
    """The value that stands for a run: at the step that was asked for, or its last, first or best."""
    if asked.step is not None:
        at = [value for step, value in points if step == asked.step]
        if not at:
            steps = sorted({step for step, _ in points})
            near = sorted(steps, key=lambda s: abs(s - (asked.step or 0)))[:1]
            raise InputError(
                f"{source} has no value at step {asked.step}: the nearest is {_step(near)}, "
                f"the last {_step(steps[-1:])}"
            )
        return at[-1]
    if asked.take == "best":
        finite = [value for _, value in points if math.isfinite(value)]
        if not finite:
            return math.nan
        return min(finite) if better == "lower" else max(finite)
    ordered = sorted(points, key=lambda point: point[0])  # stable: of equal steps the later line is later
    return ordered[-1 if asked.take == "last" else 0][1]


def _step(steps: Iterable[float]) -> str:
    return ", ".join(f"{step:g}" for step in steps) or "none"


# -- metrics -----------------------------------------------------------------------------------------------------------

HIGHER = {"acc", "accuracy", "f1", "bleu", "rouge", "auc", "auroc", "precision", "recall", "reward", "exact", "match"}
HIGHER |= {"r2", "score", "win", "pass", "throughput", "map", "iou", "dice", "correlation", "mcc"}
LOWER = {"loss", "perplexity", "ppl", "error", "err", "bpb", "bpc", "bits", "nll", "mse", "mae", "rmse", "wer", "cer"}
LOWER |= {"entropy", "time", "seconds", "latency", "runtime", "memory"}


def better_of(metric: str, given: Way | None) -> Way:
    """Whether lower or higher values are better, from the metric's name if the user does not say."""
    if given is not None:
        if given not in ("lower", "higher"):
            raise InputError(f"--better is lower or higher, not '{given}'")
        return given
    words = set(re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", metric).lower()))
    lower, higher = bool(words & LOWER), bool(words & HIGHER)
    if lower == higher:
        raise InputError(f"cannot tell whether lower or higher '{metric}' is better: add --better lower or higher")
    return "lower" if lower else "higher"


def metric_in(runs: Sequence[RunLog], asked: str | None) -> str:
    """The metric to compare: the one that was asked for, or the only one that all runs have."""
    for run in runs:
        if not run.curves:
            raise InputError(f"{run.source} holds no numbers: give a run that logged its metric")
    if asked is None:
        known = [name for name in runs[0].curves if all(name in run.curves for run in runs)]
        if len(known) == 1:
            return known[0]
        if not known:
            raise InputError(
                f"the runs have no metric in common: {runs[0].source} has {_list(runs[0].curves)}, "
                f"{runs[-1].source} has {_list(runs[-1].curves)}"
            )
        raise InputError(f"which metric? Add --metric: the runs have {_list(known)}")
    for run in runs:
        if asked not in run.curves:
            raise InputError(f"{run.source} has no metric '{asked}': {it_has(asked, _first(run.curves))}")
    return asked


def _first(names: Iterable[str], most: int = 20) -> list[str]:
    names = list(names)
    return names if len(names) <= most else [*names[:most], f"and {len(names) - most} more"]


def _list(names: Iterable[str]) -> str:
    return ", ".join(_first(names))
