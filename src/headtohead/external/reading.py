"""Reads sources of one format to one value for each arm and seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from headtohead.errors import InputError
from headtohead.external import lm_eval, tables, tensorboard, text_logs, trainer_state, wandb
from headtohead.external.arms import name_runs, side_names
from headtohead.external.sources import FORMATS, Source
from headtohead.external.values import Asked, Reading, RunLog, Value, better_of, chosen_point, metric_in

RUN_READERS = {"trainer": trainer_state.read_run, "tensorboard": tensorboard.read_run, "wandb": wandb.read_run}


def read_sources(found: Sequence[Source], asked: Asked) -> Reading:
    kind = found[0].kind
    runs: list[tuple[Source, RunLog]] = []
    if kind == "table":
        return read_tables([(source, tables.read_table(source)) for source in found], asked)
    if kind == "log":
        name = asked.metric or "value"
        runs = [(source, text_logs.read_run(source, asked.pattern, name)) for source in found]
    elif kind == "wandb export":
        runs = [(source, run) for source in found for run in wandb.runs_of_export(tables.read_table(source))]
    else:
        runs = [(source, RUN_READERS[kind](source)) for source in found]
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


def read_tables(read: Sequence[tuple[Source | None, tables.Table]], asked: Asked) -> Reading:
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


def read_samples(found: Sequence[Source], asked: Asked) -> Reading | tuple[str, list[lm_eval.Samples]]:
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
