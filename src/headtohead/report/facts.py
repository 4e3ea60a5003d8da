"""What a report tells beside the verdicts: configurations, costs, failures, confusions, machines; from the store."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headtohead.errors import InputError
from headtohead.metrics import sets_of
from headtohead.outcome import Outcome, RunRow
from headtohead.report.amounts import joined
from headtohead.store import Record

ORIGIN = ("kind", "file", "source")  # of a part: what it is called and where it is written
MOST_CLASSES = 12  # of a confusion matrix; more are no picture
MOST_MATRICES = 8

# -- configuration -----------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    path: str
    control: str
    arm: str


def configurations(outcome: Outcome, title: str) -> dict[str, list[Setting]]:
    """Of every arm but the control, the settings in which it differs from it."""
    control, *arms = _arms(outcome, title)
    found = {}
    for arm in arms:
        settings = _differences(control["spec"], arm["spec"])
        found[arm["name"]] = [s._replace(arm=arm["differs"].get(s.path, s.arm)) for s in settings]
    return found


def _arms(outcome: Outcome, title: str) -> list[dict[str, Any]]:
    return next(t for t in outcome.said["tables"] if t["title"] == title)["arms"]


def _differences(one: dict[str, Any], other: dict[str, Any], path: str = "") -> Iterator[Setting]:
    """By path; parts of different kinds are one difference."""
    for name in dict.fromkeys([*one, *other]):
        a, b, here = one.get(name), other.get(name), f"{path}.{name}".lstrip(".")
        if name in ORIGIN or a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict) and a.get("kind") == b.get("kind"):
            yield from _differences(a, b, here)
        else:
            yield Setting(here, written(a), written(b))


def written(value: Any) -> str:
    """A setting as people write it: Rope(theta=10000), not its JSON."""
    if isinstance(value, dict):
        knobs = ", ".join(f"{k}={written(v)}" for k, v in value.items() if k not in ORIGIN)
        return f"{value['kind']}({knobs})" if knobs and "kind" in value else str(value.get("kind", knobs or "none"))
    if isinstance(value, list):
        return f"({', '.join(map(written, value))})"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def control_settings(outcome: Outcome, title: str) -> list[tuple[str, str]]:
    """All of the control's, by path: what the others differ from."""

    def walk(value: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        for name, inner in value.items():
            here = f"{path}.{name}".lstrip(".")
            if isinstance(inner, dict) and any(isinstance(v, dict) for v in inner.values()):
                yield from walk(inner, here)
            elif name not in ORIGIN:
                yield here, written(inner)

    return list(walk(_arms(outcome, title)[0]["spec"], ""))


# -- cost --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """An arm's means over its complete runs; times are the middle of them."""

    arm: str
    number: int  # its place in the table
    values: tuple[float, ...]  # of the metric, seed by seed
    parameters: int | None
    step_ms: float | None
    flops: int | None  # of a step
    seconds: float | None  # of the whole training

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


def costs(outcome: Outcome, title: str) -> list[Cost]:
    """Of every arm that has a complete run, the control first."""
    found = []
    for number, arm in enumerate(_arms(outcome, title)):
        done = [row for row in outcome.rows[title, arm["name"]] if row.status == "complete"]
        if done:
            step = _middle(row.step_ms for row in done)
            whole = _middle(row.step_ms * row.steps / 1000 for row in done if row.step_ms and row.steps)
            values = tuple(row.value for row in done)
            found.append(Cost(arm["name"], number, values, done[0].parameters, step, done[0].flops, whole))
    return found


def without_runs(outcome: Outcome, title: str) -> str:
    """Of arms that have no complete run, what became of them: they are in no figure."""
    found: dict[str, list[str]] = {}
    for arm in _arms(outcome, title):
        rows = outcome.rows[title, arm["name"]]
        if not any(row.status == "complete" for row in rows):
            counts = Counter(row.status for row in rows)
            whole = f"all {len(rows)} runs {_became(rows[0].status, len(rows))}" if len(counts) == 1 else ""
            became = whole or joined([f"{n} of its runs {_became(status, n)}" for status, n in counts.items()])
            found.setdefault(became, []).append(arm["name"])
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
    """Each once, though two tables may share it."""
    return list({row.run: row for row in outcome.all_rows}.values())


def failures(outcome: Outcome) -> list[Failure]:
    """Runs without a value, by arm and reason."""
    found: dict[tuple[str, str, str], list[int]] = {}
    known: set[str] = set()
    for (title, _), rows in [*outcome.rows.items(), (("", ""), outcome.again)]:
        for row in rows:
            if row.status != "complete" and row.run not in known:
                arm = f"{row.arm}, {title}" if title else row.arm
                found.setdefault((arm, row.status, row.why), []).append(row.seed)
            known.add(row.run)
    return [Failure(arm, status, tuple(seeds), why) for (arm, status, why), seeds in found.items()]


def warnings(outcome: Outcome) -> list[str]:
    """What the runs themselves warned of, arm by arm; said once where it is the same for all."""
    found: dict[str, list[str]] = {}
    arms = {name: rows for (_, name), rows in outcome.rows.items()}
    for name, rows in arms.items():
        done = next((row for row in rows if row.status == "complete"), None)
        for said in _result(outcome, done.run).get("warnings", ()) if done else ():
            found.setdefault(str(said), []).append(name)
    return [said if len(names) == len(arms) else f"{', '.join(names)}: {said}" for said, names in found.items()]


def _result(outcome: Outcome, run: str) -> dict[str, Any]:
    return Record(outcome.home / "runs" / run).result or {}


# -- confusions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confusion:
    """Rows are what a text is, columns what the arm calls it, over all its seeds."""

    arm: str
    seeds: int
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def share(self, row: int, column: int) -> float:
        return self.counts[row][column] / max(1, sum(self.counts[row]))


def confusions(outcome: Outcome, title: str) -> list[Confusion]:
    """Of a classifier's arms, on the metric's own sets; none where there are too many classes to be looked at."""
    found = []
    for arm in _arms(outcome, title)[:MOST_MATRICES] if outcome.said.get("task") == "classifier" else ():
        done = [row for row in outcome.rows[title, arm["name"]] if row.status == "complete"]
        if not done:
            continue
        facts = _result(outcome, done[0].run)["data"]
        names = [f"{name}/confusion" for name in sets_of(outcome.metric, facts)]
        matrices = [row.values[name] for row in done for name in names if row.values.get(name)]
        if not matrices or len({len(m) for m in matrices}) > 1 or len(matrices[0]) > MOST_CLASSES:
            continue
        total = np.sum(matrices, axis=0)
        labels = [*map(str, facts.get("says", ()))] + [str(n) for n in range(len(total))]
        counts = tuple(tuple(int(x) for x in row) for row in total)
        found.append(Confusion(arm["name"], len(done), tuple(labels[: len(total)]), counts))
    return found


# -- machines ----------------------------------------------------------------------------------------------------------


class Machine(NamedTuple):
    facts: dict[str, str]
    runs: int


def machines(outcome: Outcome) -> list[Machine]:
    """Where and with what the runs were trained; one, unless stores were merged or something was updated."""
    found: dict[str, int] = {}
    for row in every_run(outcome):
        try:
            said = Record(outcome.home / "runs" / row.run).environment
        except InputError:  # torn: it decides nothing
            continue
        if said:
            packages = ", ".join(f"{name} {version}" for name, version in said.get("packages", {}).items())
            facts = {k: str(v) for k, v in said.items() if k not in ("started", "packages")} | {"packages": packages}
            key = json.dumps(facts)
            found[key] = found.get(key, 0) + 1
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return [Machine(json.loads(key), runs) for key, runs in ordered]


def spread(values: tuple[float, ...]) -> float:
    """The standard deviation over the seeds."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
