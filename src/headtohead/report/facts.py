"""What a report shows besides verdicts, from the store: configurations, costs, failures, confusions, machines."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headtohead.errors import InputError
from headtohead.outcome.metrics import sets_of
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.outcome.wording import count_text, time_text
from headtohead.report.number_text import joined
from headtohead.run.results import Environment
from headtohead.run.store import Record
from headtohead.run.studies import ArmRecord

ORIGIN = ("kind", "file", "source")  # keys of a part that are no knobs
MOST_CLASSES = 12  # of a confusion matrix; more cannot be read
MOST_MATRICES = 8

# -- configuration -----------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    path: str
    control: str
    arm: str


def configurations(outcome: Outcome, title: str) -> dict[str, list[Setting]]:
    """The settings in which each arm differs from the control."""
    control, *arms = _arms(outcome, title)
    found = {}
    for arm in arms:
        settings = _differences(control.spec, arm.spec)
        found[arm.name] = [s._replace(arm=arm.differs.get(s.path, s.arm)) for s in settings]
    return found


def _arms(outcome: Outcome, title: str) -> tuple[ArmRecord, ...]:
    return outcome.record.table(title).arms


def _differences(one: dict[str, Any], other: dict[str, Any], path: str = "") -> Iterator[Setting]:
    """Settings that differ, by path. Parts of different kinds are one difference."""
    for name in dict.fromkeys([*one, *other]):
        a, b, here = one.get(name), other.get(name), f"{path}.{name}".lstrip(".")
        if name in ORIGIN or a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict) and a.get("kind") == b.get("kind"):
            yield from _differences(a, b, here)
        else:
            yield Setting(here, written(a), written(b))


def written(value: Any) -> str:
    """A setting in text form: Rope(theta=10000), not its JSON."""
    if isinstance(value, dict):
        knobs = ", ".join(f"{k}={written(v)}" for k, v in value.items() if k not in ORIGIN)
        return f"{value['kind']}({knobs})" if knobs and "kind" in value else str(value.get("kind", knobs or "none"))
    if isinstance(value, list):
        return f"({', '.join(map(written, value))})"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def control_settings(outcome: Outcome, title: str) -> list[tuple[str, str]]:
    """All settings of the control, by path."""

    def walk(value: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        for name, inner in value.items():
            here = f"{path}.{name}".lstrip(".")
            if isinstance(inner, dict) and any(isinstance(v, dict) for v in inner.values()):
                yield from walk(inner, here)
            elif name not in ORIGIN:
                yield here, written(inner)

    return list(walk(_arms(outcome, title)[0].spec, ""))


# -- cost --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """An arm's means over its complete runs. The control's time is its median; an arm's is that times the factor of
    the pairs, as in the table of verdicts. An arm without such pairs has its own median."""

    arm: str
    number: int  # its place in the table
    values: tuple[float, ...]  # of the metric, seed by seed
    parameters: int | None
    active: int | None  # parameters that one token uses; none: all
    step_ms: float | None
    flops: int | None  # of a step
    seconds: float | None  # of the whole training
    time: str  # of a step against the control's, as in the table of verdicts; empty for the control

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def parameters_text(self) -> str:
        return count_text(self.parameters, self.active)


def costs(outcome: Outcome, title: str) -> list[Cost]:
    """The cost of every arm that has a complete run, the control first."""
    found, verdicts, base = [], {row.arm: row for row in outcome.table(title)}, None
    for number, arm in enumerate(_arms(outcome, title)):
        done = [row for row in outcome.rows[title, arm.name] if row.status == "complete"]
        if not done:
            continue
        step, verdict = _middle(row.step_ms for row in done), verdicts.get(arm.name)
        if verdict is None:
            base = step
        elif verdict.extra_time is not None and base is not None:
            step = base * (1 + verdict.extra_time)
        steps = _middle(row.steps for row in done)
        whole = step * steps / 1000 if step and steps else None
        values, time = tuple(row.value for row in done), "" if verdict is None else time_text(verdict)
        first = done[0]
        found.append(Cost(arm.name, number, values, first.parameters, first.active, step, first.flops, whole, time))
    return found


def without_runs(outcome: Outcome, title: str) -> str:
    """A line for arms without a complete run, which are in no figure."""
    found: dict[str, list[str]] = {}
    for arm in _arms(outcome, title):
        rows = outcome.rows[title, arm.name]
        if not any(row.status == "complete" for row in rows):
            counts = Counter(row.status for row in rows)
            whole = f"all {len(rows)} runs {_became(rows[0].status, len(rows))}" if len(counts) == 1 else ""
            became = whole or joined([f"{n} of its runs {_became(status, n)}" for status, n in counts.items()])
            found.setdefault(became, []).append(arm.name)
    told = [f"{joined(names)}, of which {became}" for became, names in found.items()]
    return f"Not drawn: {'; '.join(told)}." if told else ""


def _became(status: str, runs: int) -> str:
    return status if status in ("diverged", "collapsed", "failed") else f"{'is' if runs == 1 else 'are'} {status}"


def _middle(values: Iterator[float | None]) -> float | None:
    known = [v for v in values if v]
    return float(np.median(known)) if known else None


# -- failures ----------------------------------------------------------------------------------------------------------


class Failure(NamedTuple):
    arm: str
    status: str
    seeds: tuple[int, ...]
    why: str


def every_run(outcome: Outcome) -> list[RunRow]:
    """Every run once; two tables may share runs."""
    return list({row.run: row for row in outcome.all_rows}.values())


def failures(outcome: Outcome) -> list[Failure]:
    """Runs without a value, by arm and reason."""
    found: dict[tuple[str, str, str], list[int]] = {}
    known: set[str] = set()
    for (title, _), rows in [*outcome.rows.items(), (("", ""), outcome.again), (("", ""), outcome.perturbed)]:
        for row in rows:
            if row.status != "complete" and row.run not in known:
                arm = f"{row.arm}, {title}" if title else row.arm
                found.setdefault((arm, row.status, row.why), []).append(row.seed)
            known.add(row.run)
    return [Failure(arm, status, tuple(seeds), why) for (arm, status, why), seeds in found.items()]


# -- confusions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confusion:
    """True labels as rows, predicted labels as columns, summed over the seeds."""

    arm: str
    seeds: int
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def share(self, row: int, column: int) -> float:
        return self.counts[row][column] / max(1, sum(self.counts[row]))


def confusions(outcome: Outcome, title: str) -> list[Confusion]:
    """The confusion matrix of each arm of a classifier, on the metric's sets; none if there are too many classes."""
    found = []
    for arm in _arms(outcome, title)[:MOST_MATRICES] if outcome.record.task == "classifier" else ():
        done = [row for row in outcome.rows[title, arm.name] if row.status == "complete"]
        if not done:
            continue
        result = Record.at(outcome.home, done[0].run).require_result()
        names = [f"{name}/confusion" for name in sets_of(outcome.metric, result.data)]
        matrices = [row.values[name] for row in done for name in names if row.values.get(name)]
        if not matrices or len({len(m) for m in matrices}) > 1 or len(matrices[0]) > MOST_CLASSES:
            continue
        total = np.sum(matrices, axis=0)
        labels = [*result.labels] + [str(n) for n in range(len(total))]
        counts = tuple(tuple(int(x) for x in row) for row in total)
        found.append(Confusion(arm.name, len(done), tuple(labels[: len(total)]), counts))
    return found


# -- machines ----------------------------------------------------------------------------------------------------------


class Machine(NamedTuple):
    facts: dict[str, str]
    runs: int


def machines(outcome: Outcome) -> list[Machine]:
    """The machines that trained the runs. There are several if stores were merged or packages updated."""
    found: dict[str, int] = {}
    for row in every_run(outcome):
        try:
            environment = Record.at(outcome.home, row.run).environment
        except InputError:  # a damaged file decides nothing
            continue
        if environment != Environment():
            packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
            known = {k: v for k, v in environment.to_json().items() if v is not None and k != "started"}
            facts = {k: str(v) for k, v in known.items() if k != "packages"} | {"packages": packages}
            key = json.dumps(facts)
            found[key] = found.get(key, 0) + 1
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return [Machine(json.loads(key), runs) for key, runs in ordered]


def spread(values: tuple[float, ...]) -> float:
    """The standard deviation over the seeds."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
