"""Write the noise that check-claim ships, from the results stored with the recipes: python tools/noise_table.py"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

import headtohead
from headtohead.claims.experiments import experiments
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.run.store import Record, write_whole
from stored_results import exit_with, stored_studies

FILE = Path(headtohead.__file__).parent / "claimcheck" / "noise.toml"
HEAD = """\
# The noise between runs of this project's published studies. Written by tools/noise_table.py from the results that are
# stored with the recipes, in recipes/published/measured; a test compares them. sd: between the runs of one arm.
# pair_sd: of the differences from the control's run of the same seed. Arms that learned nothing are left out.
"""
FIGURES = {"classifier": ("accuracy", "loss", "macro_f1"), "lm": ()}  # besides the study's own
GUESSING = 0.05  # an accuracy this close to that of guessing means that nothing was learned


def made() -> str:
    """The content of the file."""
    return HEAD + "".join(f"\n{_toml(study)}" for study in studies())


def studies() -> list[dict[str, Any]]:
    """Each stored study by each of its figures, with the noise of its arms."""
    found = []
    recipes = {name: (e.name, named) for e in experiments() for name, named in _commands(e).items()}
    with stored_studies() as load:
        for name, (group, command) in sorted(recipes.items()):
            outcome = load(name)
            own = outcome.metric
            others = [f"test/{figure}" for figure in FIGURES[outcome.record.task]]
            for metric in dict.fromkeys([own, *others]):
                record = dataclasses.replace(outcome.record, metric=metric)
                found += _study(Outcome(outcome.folder, record), name, group, command)
    return found


def _commands(experiment: Any) -> dict[str, str]:
    only = len(experiment.studies) == 1
    return {
        name: f"published/{experiment.name}" + ("" if only else f":{name.removeprefix(experiment.name + '-')}")
        for name in experiment.studies
    }


def _study(outcome: Outcome, name: str, group: str, command: str) -> list[dict[str, Any]]:
    title = outcome.titles[0]
    control, *others = (arm.name for arm in outcome.record.table(title).arms)
    base = _done(outcome.rows[title, control])
    arms = [_alone(control, base)]
    for other in others:
        own = _done(outcome.rows[title, other])
        pairs = [own[seed].value - base[seed].value for seed in own.keys() & base.keys()]
        arms.append(_alone(other, own) | {"pairs": len(pairs), "pair_sd": _digits(np.std(pairs, ddof=1))})
        if outcome.metric == "test/loss" and outcome.record.task == "classifier":
            continue  # its verdict is of another metric
        v = outcome.table(title)[other].verdict
        of = {"difference": v.difference, "low": v.low, "high": v.high}
        arms[-1] |= {k: _digits(x) for k, x in of.items()} | {"verdict": v.verdict}
    arms = [arm for arm in arms if arm["runs"] > 1 and not _guesses(outcome, arm["mean"], base)]
    if not arms:
        return []
    first = next(iter(base.values()))
    about = {"name": name, "group": group, "command": f"h2h run {command}", "task": outcome.record.task}
    about |= {"corpus": outcome.record.corpus, "metric": outcome.metric, "control": control}
    return [about | {"parameters": first.parameters, "steps": first.steps, "arms": arms}]


def _done(rows: list[RunRow]) -> dict[int, RunRow]:
    return {row.seed: row for row in rows if row.status == "complete"}


def _alone(arm: str, rows: dict[int, RunRow]) -> dict[str, Any]:
    values = [row.value for row in rows.values()]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return {"name": arm, "runs": len(values), "mean": _digits(np.mean(values)), "sd": _digits(sd)}


def _guesses(outcome: Outcome, mean: float, base: dict[int, RunRow]) -> bool:
    if outcome.record.task != "classifier" or outcome.metric == "test/loss":
        return False
    labels = Record.at(outcome.home, next(iter(base.values())).run).require_result().labels
    return mean < 1 / max(2, len(labels)) + GUESSING


def _digits(value: float | np.floating[Any]) -> float:
    return float(f"{value:.4g}")


def _toml(study: dict[str, Any]) -> str:
    arms = study.pop("arms")
    lines = ["[[study]]", *(f"{key} = {json.dumps(value)}" for key, value in study.items()), "arms = ["]
    for arm in arms:
        pairs = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in arm.items())
        lines.append(f"  {{ {pairs} }},")
    return "\n".join([*lines, "]", ""])


def setups_differ(figure: str, key: str, count: str) -> tuple[float, int]:
    """The variance of the logarithm of variances between recipes, without that of sampling and of arms in one recipe;
    and the number of recipes."""
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for study in studies():
        if study["metric"].partition("/")[2] == figure and (study["task"] == "lm") == (figure == "loss"):
            known = [(arm[key], arm[count] - 1) for arm in study["arms"] if arm.get(key)]
            corpus = f" {study['corpus']}" if study["group"] == "beginnings" else ""  # one recipe, two setups
            groups[study["group"] + corpus] += known
    logs = {
        name: [2 * math.log(sd) - float(special.digamma(f / 2)) + math.log(f / 2) for sd, f in arms]
        for name, arms in groups.items()
        if arms
    }
    sampling = {name: float(np.mean([special.polygamma(1, f / 2) for _, f in groups[name]])) for name in logs}
    spread = [(np.var(x, ddof=1) - sampling[name], len(x) - 1) for name, x in logs.items() if len(x) > 1]
    within = max(0.0, sum(v * k for v, k in spread) / sum(k for _, k in spread))
    error = np.mean([(within + sampling[name]) / len(x) for name, x in logs.items()])
    return float(np.var([np.mean(x) for x in logs.values()], ddof=1) - error), len(logs)


def main() -> None:
    write_whole(FILE, made())
    print(f"wrote {FILE}")
    for figure in ("loss", "accuracy"):
        for key, count in (("sd", "runs"), ("pair_sd", "pairs")):
            between, recipes = setups_differ(figure, key, count)
            print(f"{figure}, {key}: variance of the logarithm between {recipes} recipes {between:.2f}")


if __name__ == "__main__":
    exit_with(main)
