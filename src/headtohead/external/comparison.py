"""Reads figures that were made elsewhere and judges them: what `h2h compare` and `h2h.compare()` call."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.errors import InputError
from headtohead.external import lm_eval, tables, tensorboard, text_logs, trainer_state, wandb
from headtohead.external.arms import find_control, name_runs, side_names
from headtohead.external.items import ItemVerdict, by_arm, compare_items
from headtohead.external.replicates import split_missing, without_identical, without_repeats
from headtohead.external.sources import FORMATS, Source, find_sources
from headtohead.external.values import TAKES, Asked, Reading, RunLog, Take, Value, better_of, chosen_point, metric_in
from headtohead.outcome.metrics import absolute, read_amount
from headtohead.stats import LEAST_PAIRS, Verdict, Way, compare_all
from headtohead.stats.unpaired import LEAST_RUNS, UnpairedVerdict, compare_unpaired

if TYPE_CHECKING:
    import pandas as pd

AnyVerdict = Verdict | UnpairedVerdict | ItemVerdict
Design = Literal["paired", "unpaired", "items"]
READERS = {"trainer": trainer_state.read_run, "tensorboard": tensorboard.read_run, "wandb": wandb.read_run}


@dataclass(frozen=True)
class Comparison:
    """Arms against a control. `print(comparison)` shows what was read and the verdicts."""

    reading: Reading
    control: str
    better: Way
    design: Design  # pairs of equal seeds, runs with unrelated seeds, or test items
    verdicts: Mapping[str, AnyVerdict]  # arm → verdict; the control is not in it
    means: Mapping[str, float]  # arm → mean, the control first
    values: Sequence[Value]  # that the verdicts rest on; empty for test items
    missing: Sequence[str]  # runs or items without a value
    notes: Sequence[str]

    @property
    def metric(self) -> str:
        return self.reading.metric

    def frame(self) -> pd.DataFrame:
        """One row per arm, the control first."""
        import pandas as pd

        rows: list[dict[str, Any]] = [{"arm": self.control, "mean": self.means[self.control], "verdict": "control"}]
        rows += [{"arm": arm, "mean": self.means[arm], **v.to_json()} for arm, v in self.verdicts.items()]
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON types; numbers that are not finite are null."""
        return _finite(
            {
                "metric": self.metric,
                "better": self.better,
                "control": self.control,
                "design": self.design,
                "format": self.reading.format,
                "files": list(self.reading.files),
                "read": list(self.reading.how),
                "means": dict(self.means),
                "verdicts": {arm: verdict.to_json() for arm, verdict in self.verdicts.items()},
                "values": [vars(value) for value in self.values],
                "missing": list(self.missing),
                "notes": list(self.notes),
            }
        )

    def __str__(self) -> str:
        from headtohead.external.wording import text_of

        return text_of(self)


def compare_sources(
    sources: Sequence[Any],
    against: Sequence[Sequence[str | Path]] = (),
    *,
    metric: str | None = None,
    arm: str | None = None,
    seed: str | None = None,
    control: str | None = None,
    better: Way | None = None,
    margin: float | str | None = None,
    take: Take = "last",
    step: int | None = None,
    pattern: str | None = None,
    seed_pattern: str | None = None,
    average_repeats: bool = False,
) -> Comparison:
    """Read files, folders or a data frame, and compare every arm with the control."""
    if take not in TAKES:
        raise InputError(f"take is last, first or best, not '{take}'")
    if step is not None and take != "last":
        raise InputError(f"a step and '{take}' exclude each other: give one of them")
    if margin is not None:
        read_amount(margin)  # fail before reading
    asked = Asked(
        metric,
        arm,
        seed,
        better,
        take,
        step,
        text_logs.compiled("--pattern", pattern, r"loss=([0-9.]+)") if pattern is not None else None,
        text_logs.compiled("--seed-pattern", seed_pattern, r"run(\d+)") if seed_pattern is not None else None,
    )
    odd = next((s for s in sources if not isinstance(s, str | Path) and not hasattr(s, "to_dict")), None)
    if odd is not None:
        raise InputError(
            f"give files, folders or a data frame, not a {type(odd).__name__}; for values that are paired already, "
            "call headtohead.stats.compare(control, variant)"
        )
    frames = [source for source in sources if hasattr(source, "to_dict")]
    if frames:
        if len(sources) > 1 or against:
            raise InputError("give one data frame, with a column of arms")
        reading = _read_tables([(None, tables.frame_table(frames[0]))], asked)
    else:
        found = find_sources([list(sources), *against], is_log=pattern is not None)
        if found[0].kind == "lm-eval":
            samples = _samples(found, asked)
            if isinstance(samples, tuple):
                return _judge_items(*samples, found, asked, control, margin)
            reading = samples
        else:
            reading = _read(found, asked)
    return _judge(reading, asked, control, margin, average_repeats)


# -- reading -----------------------------------------------------------------------------------------------------------


def _read(found: Sequence[Source], asked: Asked) -> Reading:
    kind = found[0].kind
    runs: list[tuple[Source, RunLog]] = []
    if kind == "table":
        return _read_tables([(source, tables.read_table(source)) for source in found], asked)
    if kind == "log":
        name = asked.metric or "value"
        runs = [(source, text_logs.read_run(source, asked.pattern, name)) for source in found]
    elif kind == "wandb export":
        runs = [(source, run) for source in found for run in wandb.runs_of_export(tables.read_table(source))]
    else:
        runs = [(source, READERS[kind](source)) for source in found]
    return _from_runs(FORMATS[kind], runs, asked)


def _from_runs(format: str, runs: Sequence[tuple[Source, RunLog]], asked: Asked) -> Reading:
    metric = metric_in([run for _, run in runs], asked.metric)
    named, how = name_runs(runs, asked)
    better = better_of(metric, asked.better) if asked.take == "best" else None
    values = [
        Value(arm, seed, chosen_point(run.curves[metric], asked, run.source, better), run.source)
        for (arm, seed), (_, run) in zip(named, runs, strict=True)
    ]
    which = f"at step {asked.step}" if asked.step is not None else f"the {asked.take} value of each run"
    notes = []
    if asked.take == "best":
        notes.append("each run's best value was chosen by the metric itself, so the means are optimistic in every arm")
    return Reading(format, metric, values, [source.shown for source, _ in runs], [*how, which], notes)


def _read_tables(read: Sequence[tuple[Source | None, tables.Table]], asked: Asked) -> Reading:
    layouts = [tables.find_layout(table, asked, len(read)) for _, table in read]
    layout, files = layouts[0], [table.source for _, table in read]
    if any(other.metric != layout.metric for other in layouts):
        raise InputError(f"the tables have different metrics, {layout.metric} and others: add --metric")
    if layout.metric is None:
        table = read[0][1]
        how = ["one column per arm", f"seeds from column {layout.seed}" if layout.seed else "no column of seeds"]
        return Reading("table", asked.metric or "value", tables.wide_values(table, layout), files, how)
    if all(tables.is_one_run(one) for one in layouts) and all(source is not None for source, _ in read):
        runs = [(s, tables.as_run(t, one)) for (s, t), one in zip(read, layouts, strict=True) if s is not None]
        return _from_runs("table", runs, replace(asked, metric=layout.metric))
    sides = {source.group for source, _ in read if source is not None}
    if len(read) > 1 and asked.arm is None:  # a column that is the same everywhere, such as the model's name
        arms = {
            str(row.get(one.arm)) for (_, t), one in zip(read, layouts, strict=True) if one.arm for _, row in t.rows
        }
        if len(sides) > 1 or len(arms) < 2:
            layouts = [replace(one, arm=None, name=None) for one in layouts]
    values, owners = [], []
    for (source, table), one in zip(read, layouts, strict=True):
        own = tables.long_values(table, one, asked)
        values += own
        owners += [source] * len(own)
    if len(sides) > 1:
        names = side_names([s for s in owners if s is not None], [v.arm for v in values])
        values = [replace(v, arm=names[s.group]) for v, s in zip(values, owners, strict=True) if s is not None]
    layout = layouts[0]
    arm_from = layout.arm or layout.name
    how = [f"arms from column {arm_from}" if arm_from else "arms from the files' names"]
    seeded = any(value.seed is not None for value in values)
    seeds = f"column {layout.seed}" if layout.seed else "names"
    how.append(f"seeds from {seeds}" if seeded else "no seeds found: each row counts as a run of its own")
    if layout.step:
        how.append(f"at step {asked.step}" if asked.step is not None else f"the {asked.take} step of each run")
    return Reading("table", layout.metric or "value", values, files, how)


def _samples(found: Sequence[Source], asked: Asked) -> Reading | tuple[str, list[lm_eval.Samples]]:
    """Item by item; or, where arms have several seeds, the mean of each file."""
    metric, samples = lm_eval.read_samples(found, asked)
    if len({source.group for source in found}) > 1:
        names = side_names(found, [one.arm for one in samples])
        samples = [replace(one, arm=names[source.group]) for one, source in zip(samples, found, strict=True)]
    seeds = {(one.arm, one.seed) for one in samples if one.seed is not None}
    if len(seeds) <= len({arm for arm, _ in seeds}):
        return metric, samples
    if len({one.task for one in samples}) > 1:
        raise InputError("the samples have several seeds and several tasks: compare one task at a time")
    values = [Value(one.arm, one.seed, statistics.fmean(one.values.values()), one.source) for one in samples]
    how = ["arms and seeds from names", "the mean over items of each file"]
    return Reading(FORMATS["lm-eval"], metric, values, [source.shown for source in found], how)


# -- judging -----------------------------------------------------------------------------------------------------------


def _judge(
    reading: Reading, asked: Asked, control: str | None, margin: float | str | None, average: bool
) -> Comparison:
    arms = list(dict.fromkeys(value.arm for value in reading.values))
    _check_arms(arms, reading)
    better = better_of(reading.metric, asked.better)
    base = find_control(arms, control)
    arms = [base, *(arm for arm in arms if arm != base)]
    there, missing, notes = split_missing(reading.values)
    for name in arms:
        if not any(value.arm == name for value in there):
            raise InputError(
                f"{name} has no value of {reading.metric} that is a number: leave the arm out or run it again"
            )
    there, averaged = without_repeats(there, average)
    there, once = without_identical(there, average)
    notes = [*reading.notes, *notes, *averaged, *once]
    runs = {name: [value for value in there if value.arm == name] for name in arms}
    means = {name: _mean([value.value for value in own]) for name, own in runs.items()}
    amount = None if margin is None else absolute(margin, means[base])
    if margin is not None and not amount:
        raise InputError(f"the margin {margin} of a mean of 0 is 0: give the margin as a number")
    verdicts: Mapping[str, AnyVerdict]
    if _is_paired(base, runs):
        design: Design = "paired"
        seeds = list(dict.fromkeys(v.seed for v in there))
        table = {name: {v.seed: v.value for v in own} for name, own in runs.items()}
        columns = {name: [own.get(s, math.nan) for s in seeds] for name, own in table.items()}
        verdicts = compare_all(columns.pop(base), columns, amount, better=better)
        notes += _unmatched(base, runs)
    else:
        design = "unpaired"
        columns = {name: [v.value for v in own] for name, own in runs.items()}
        verdicts = compare_unpaired(columns.pop(base), columns, amount, better=better)
    lost = [f"{value.named} ({value.source}): {_said(value.value)}" for value in missing]
    return Comparison(reading, base, better, design, verdicts, means, there, lost, notes)


def _check_arms(arms: Sequence[str], reading: Reading) -> None:
    if len(arms) < 2:
        raise InputError(
            f"only one arm was found, '{arms[0]}' ({', '.join(reading.how[:1])}): name the column or field of the arms "
            "with --arm, or give the other runs after --against"
        )


def _is_paired(control: str, runs: Mapping[str, Sequence[Value]]) -> bool:
    """Whether every arm with enough runs for a verdict has enough seeds in common with the control."""
    seeds = {name: {value.seed for value in own} - {None} for name, own in runs.items()}
    matched = {name: len(seeds[name] & seeds[control]) for name in runs if name != control}
    return any(n >= LEAST_PAIRS for n in matched.values()) and all(
        n >= LEAST_PAIRS or len(runs[name]) < LEAST_RUNS for name, n in matched.items()
    )


def _unmatched(control: str, runs: Mapping[str, Sequence[Value]]) -> list[str]:
    """Runs that have no partner with the same seed."""
    own = {value.seed for value in runs[control]}
    notes = []
    for name in (name for name in runs if name != control):
        seeds = {value.seed for value in runs[name]}
        for lacking, owner, other in ((own - seeds, control, name), (seeds - own, name, control)):
            if lacking:
                listed = ", ".join(sorted(map(str, lacking), key=lambda s: (len(s), s)))
                notes.append(f"{owner}, seed {listed}: not paired, because {other} has no value for it")
    return notes


def _judge_items(
    metric: str,
    samples: Sequence[lm_eval.Samples],
    found: Sequence[Source],
    asked: Asked,
    control: str | None,
    margin: float | str | None,
) -> Comparison:
    arms, missing = by_arm(samples)
    how = ["arms from names", "paired by test item"]
    tasks = sorted({one.task for one in samples} - {""})
    if tasks:
        how.append(f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}")
    reading = Reading(FORMATS["lm-eval"], metric, (), [source.shown for source in found], how)
    _check_arms(list(arms), reading)
    base = find_control(list(arms), control)
    better = better_of(metric, asked.better)
    arms = {base: arms[base], **arms}
    mean = _mean([v for v in arms[base].values() if math.isfinite(v)])
    amount = None if margin is None else absolute(margin, mean)
    verdicts, means, notes = compare_items(base, arms, amount or None, better)
    return Comparison(reading, base, better, "items", verdicts, means, (), missing, notes)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(v / len(values) for v in values)  # does not overflow


def _said(value: float) -> str:
    return "no value" if math.isnan(value) else "infinite"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
