"""The noise of arms by setup: from the studies in the user's store, and from those that ship with the package."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.claimcheck.claim import Claim
from headtohead.errors import InputError
from headtohead.outcome.metrics import figure_of
from headtohead.outcome.noise import noise_of_arms
from headtohead.outcome.outcome import Outcome, RunRow, load_outcome
from headtohead.run.store import Record
from headtohead.run.studies import read_study, study_folders
from headtohead.stats import LEAST_PAIRS, Word
from headtohead.stats.noise import Noise

SHIPPED = Path(__file__).with_name("noise.toml")


@dataclass(frozen=True)
class Measured:
    """A verdict on the arms of the claim that was reached with several pairs. `difference` is variant − control."""

    study: str
    difference: float
    low: float
    high: float
    pairs: int
    verdict: Word


@dataclass(frozen=True)
class Setup:
    """One study: how much runs of each arm vary, and how much pairs of an arm with the control do."""

    name: str
    key: str  # the same for studies of one setup
    command: str
    control: str
    control_mean: float
    runs: Mapping[str, Noise]  # by arm
    pairs: Mapping[str, Noise]  # by arm, without the control
    scope: str  # of the setup, for people
    seconds: float | None = None  # of a run on this machine
    verdicts: Mapping[str, Measured] = dataclasses.field(default_factory=dict)  # by arm
    values: Mapping[str, Mapping[int, float]] = dataclasses.field(default_factory=dict)  # by arm and seed

    def arm(self, name: str) -> str:
        """The arm that a name in a sentence means; empty if there is none."""
        words = set(re.findall(r"[^\s,;]+", name.casefold()))
        exact = [arm for arm in self.runs if arm.casefold() == name.casefold()]
        close = [arm for arm in self.runs if arm.casefold() in words]
        return exact[0] if exact else close[0] if len(close) == 1 else ""

    def pair_noise(self, variant: str, control: str) -> Noise | None:
        """The noise of pairs of two arms."""
        if control == self.control:
            return self.pairs.get(variant)
        if variant == self.control:
            return self.pairs.get(control)
        one, two = self.values.get(variant, {}), self.values.get(control, {})
        apart = [one[seed] - two[seed] for seed in one.keys() & two.keys()]
        return Noise(float(np.std(apart, ddof=1)), len(apart) - 1, "") if len(apart) >= 2 else None

    def measured(self, variant: str, control: str) -> Measured | None:
        """The study's own verdict on two arms, variant − control."""
        if control == self.control:
            return self.verdicts.get(variant)
        found = self.verdicts.get(control) if variant == self.control else None
        if found is None:
            return None
        turned: dict[Word, Word] = {"better": "worse", "worse": "better"}
        word = turned.get(found.verdict, found.verdict)
        return dataclasses.replace(found, difference=-found.difference, low=-found.high, high=-found.low, verdict=word)


def metric_for(claim: Claim, own: str) -> str:
    """The metric to read from a study whose own metric is given. The logarithm of a perplexity is a loss."""
    name, _, figure = claim.metric.partition("/")
    figure = "loss" if figure == "perplexity" else figure
    if claim.asked_metric or name != "test":
        return f"{name}/{figure}"
    set_name, _, own_figure = own.partition("/")
    own_figure = "loss" if own_figure == "perplexity" else own_figure
    return f"{set_name}/{figure}" if own_figure == figure else f"{name}/{figure}"


# -- the user's store --------------------------------------------------------------------------------------------------


def stored_setups(claim: Claim, home: Path) -> Iterator[Setup]:
    """The studies in the store with the claim's task and figure. Damaged studies are left out."""
    for folder in study_folders(home):
        try:
            record = read_study(folder)
            if record.task != claim.task:
                continue
            metric = metric_for(claim, record.metric)
            outcome = load_outcome(folder)
            other = Outcome(folder, dataclasses.replace(record, metric=metric))
            setup = _stored(outcome if metric == record.metric else other, metric == record.metric)
        except InputError:
            continue
        if setup.runs:
            yield setup


def _stored(outcome: Outcome, is_own_metric: bool) -> Setup:
    title, record = outcome.titles[0], outcome.record
    done = {name: _complete(rows) for (of, name), rows in outcome.rows.items() if of == title}
    values = {name: {row.seed: row.value for row in rows} for name, rows in done.items()}
    control = record.table(title).control.name
    runs = {
        name: Noise(float(np.std(list(own.values()), ddof=1)), len(own) - 1, f"{len(own)} runs")
        for name, own in values.items()
        if len(own) >= 2
    }
    verdicts = {}
    for row in outcome.table(title) if is_own_metric else ():
        v = row.verdict
        if v.pairs >= LEAST_PAIRS and not row.dropped:
            verdicts[row.arm] = Measured(outcome.folder.name, v.difference, v.low, v.high, v.pairs, v.verdict)
    return Setup(
        name=outcome.folder.name,
        key=json.dumps(record.table(title).control.spec, sort_keys=True),
        command=record.command,
        control=control,
        control_mean=float(np.mean(list(values[control].values()))) if values.get(control) else math.nan,
        runs=runs,
        pairs=noise_of_arms(outcome, f"study {outcome.folder.name}"),
        scope=outcome.verdicts.scope,
        seconds=_seconds(outcome, [row for rows in done.values() for row in rows]),
        verdicts=verdicts,
        values=values,
    )


def _complete(rows: Sequence[RunRow]) -> list[RunRow]:
    return [row for row in rows if row.status == "complete"]


def _seconds(outcome: Outcome, rows: Sequence[RunRow]) -> float | None:
    """The median time of a run."""
    taken = [
        row.steps * row.step_ms / 1000 + (Record.at(outcome.home, row.run).times.other_seconds or 0.0)
        for row in rows
        if row.steps and row.step_ms
    ]
    return float(np.median(taken)) if taken else None


# -- what ships with the package ---------------------------------------------------------------------------------------


def shipped_setups(claim: Claim) -> list[Setup]:
    """The published studies that were measured with the claim's task and figure, whatever their set."""
    figure = "loss" if claim.figure == "perplexity" else claim.figure
    found = []
    for study in _shipped():
        if study["task"] == claim.task and figure_of(study["metric"]) == figure:
            found.append(_of_table(study))
    return found


@cache
def _shipped() -> list[dict[str, Any]]:
    try:
        return list(tomllib.loads(SHIPPED.read_text(encoding="utf-8"))["study"])
    except (OSError, ValueError, KeyError):
        raise InputError(f"{SHIPPED} is missing or damaged: install headtohead again, or give --sd") from None


def _of_table(study: dict[str, Any]) -> Setup:
    arms = study["arms"]
    pairs = {a["name"]: Noise(a["pair_sd"], a["pairs"] - 1, "") for a in arms if a.get("pairs", 0) >= 2}
    verdicts = {
        a["name"]: Measured(study["command"], a["difference"], a["low"], a["high"], a["pairs"], a["verdict"])
        for a in arms
        if "verdict" in a
    }
    return Setup(
        name=study["name"],
        key=study["group"],
        command=study["command"],
        control=study["control"],
        control_mean=next((a["mean"] for a in arms if a["name"] == study["control"]), math.nan),
        runs={a["name"]: Noise(a["sd"], a["runs"] - 1, f"{a['runs']} runs") for a in arms},
        pairs=pairs,
        scope=f"{study['parameters']:,} parameters, {study['steps']:,} steps, {study['corpus']}",
        verdicts=verdicts,
    )
