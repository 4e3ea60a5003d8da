"""Reads the samples that lm_eval --log_samples writes: one JSON object per line, one line per test item and filter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headtohead.errors import InputError, it_has
from headtohead.external.sources import Source
from headtohead.external.tables import Table, read_table
from headtohead.external.values import Asked, RunLog, arm_and_seed, bare_name, number_of

SAMPLES = re.compile(r"^samples_(.+?)_\d{4}-\d{2}-\d{2}T[\d.:-]+$")  # as lm_eval names them, with the task
NOT_METRICS = {"doc_id", "doc_hash", "prompt_hash", "target_hash", "target", "filter", "doc", "arguments", "resps"}
Item = tuple[str, str, str]  # task, id and hash of the item


@dataclass(frozen=True)
class Samples:
    """One model's values, item by item."""

    arm: str
    seed: str | None
    task: str
    source: str
    values: Mapping[Item, float]


def read_samples(sources: Sequence[Source], asked: Asked) -> tuple[str, list[Samples]]:
    """The metric and the samples of each file. `--metric acc` or, to choose a filter, `exact_match,strict-match`."""
    tables = [read_table(source) for source in sources]
    metric = _metric(tables, asked.metric)
    tasks = [_task(source) for source in sources]
    found = []
    for source, table, task in zip(sources, tables, tasks, strict=True):
        name = _model_name(source, sources)
        arm, seed, *_ = arm_and_seed(RunLog(name, source.shown, {}), asked)
        found.append(Samples(arm, seed, task, source.shown, _values(table, task, metric)))
    return metric, found


def _task(source: Source) -> str:
    found = SAMPLES.match(bare_name(source.path.name))
    return found[1] if found else ""


def _model_name(source: Source, sources: Sequence[Source]) -> str:
    """lm_eval names the model in the folder and the task in the file. Other files are named by the user."""
    stem = bare_name(source.path.name)
    parents = {other.path.resolve().parent for other in sources}
    return source.path.resolve().parent.name if SAMPLES.match(stem) and len(parents) > 1 else stem


def _metric(tables: Sequence[Table], asked: str | None) -> str:
    known = [c for c in tables[0].numeric() if c not in NOT_METRICS and "." not in c]
    if asked is None:
        if len(known) != 1:
            raise InputError(f"which metric? Add --metric: the samples have {', '.join(known) or 'no numbers'}")
        return known[0]
    for table in tables:
        if asked.partition(",")[0] not in table.columns:
            name = asked.partition(",")[0]
            raise InputError(f"{table.source} has no metric '{name}': {it_has(name, known)}")
    return asked


def _values(table: Table, task: str, metric: str) -> dict[Item, float]:
    name, _, wanted = metric.partition(",")
    filters = list(dict.fromkeys(str(row["filter"]) for _, row in table.rows if "filter" in row))
    if wanted and wanted not in filters:
        raise InputError(f"{table.source} has no filter '{wanted}': {it_has(wanted, filters)}")
    if len(filters) > 1 and not wanted:
        raise InputError(f"{table.source} has several filters: add one to the metric, --metric {name},{filters[0]}")
    found: dict[Item, float] = {}
    for line, row in table.rows:
        if wanted and str(row.get("filter")) != wanted:
            continue
        number = number_of(row.get(name))
        if number is None:
            raise InputError(f"{table.source}, line {line}: '{str(row[name])[:40]}' for {name} is not a number")
        item = (task, str(row.get("doc_id")), str(row.get("doc_hash", "")))
        if item in found:
            raise InputError(f"{table.source}, line {line}: item {item[1]} is there twice: give each item once")
        found[item] = number
    return found
