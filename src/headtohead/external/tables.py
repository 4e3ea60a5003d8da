"""Reads tables: CSV, TSV and JSONL, or a data frame. One row per run, one row per step, or one column per arm."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.data.stored_json import parsed
from headtohead.errors import InputError, it_has
from headtohead.external.sources import Source, read_text
from headtohead.external.values import (
    SEED_FIELDS,
    Asked,
    Point,
    RunLog,
    Value,
    bare_name,
    better_of,
    chosen_point,
    number_of,
    seed_text,
    split_name,
)

ARM_COLUMNS = ("arm", "variant", "method", "group", "condition", "treatment", "model", "config")
NAME_COLUMNS = ("name", "run", "run_name", "run_id", "experiment")
STEP_COLUMNS = ("step", "global_step", "_step", "trainer/global_step", "iteration", "iter", "epoch")
EMPTY = ("", None)


@dataclass(frozen=True)
class Table:
    """Rows with the line of the file that each comes from."""

    source: str
    name: str
    columns: list[str]
    rows: list[tuple[int, dict[str, Any]]]

    def numeric(self) -> list[str]:
        """Columns of numbers."""
        found = []
        for column in self.columns:
            numbers = [number_of(row.get(column)) for _, row in self.rows]
            if None not in numbers and any(math.isfinite(n) for n in numbers if n is not None):
                found.append(column)
        return found

    def first_of(self, names: Iterable[str]) -> str | None:
        by_lower = {column.lower(): column for column in reversed(self.columns)}
        return next((by_lower[name] for name in names if name in by_lower), None)


# -- files to rows -----------------------------------------------------------------------------------------------------


def read_table(source: Source) -> Table:
    text = read_text(source.path)
    is_json = text.lstrip()[:1] in "{["
    columns, rows = _json_rows(text, source.path) if is_json else _csv_rows(text, source.path)
    if not rows:
        raise InputError(f"{source.path} has column names and no rows: give a table with values")
    return Table(source.shown, source.name, columns, rows)


def frame_table(frame: Any) -> Table:
    """The table of a pandas data frame, or of anything with `to_dict("records")`."""
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    if not rows:
        raise InputError("the data frame has no rows: give one with values")
    return Table("the data frame", "data frame", [str(c) for c in frame.columns], list(enumerate(rows)))


def _csv_rows(text: str, path: Path) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    head = text.lstrip().splitlines()[0]
    mark = max(",\t;", key=head.count)
    csv.field_size_limit(10_000_000)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    columns: list[str] = []
    rows = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = [cell.strip() for cell in cells]
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells under {len(columns)} column names; "
                    "quote cells that contain the separator"
                )
            rows.append((reader.line_num, dict(zip(columns, cells, strict=True))))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; save it as CSV again") from None
    twice = next((c for c in columns if columns.count(c) > 1), None)
    if twice is not None:
        raise InputError(f"{path} has the column '{twice}' twice: rename one of them")
    if columns and all(number_of(column) is not None for column in columns):
        raise InputError(f"{path} has no column names: its first line is '{head[:60]}'; add names above it")
    return columns, rows


def _json_rows(text: str, path: Path) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    rows: list[tuple[int, dict[str, Any]]] = []
    if text.lstrip()[0] == "[":
        try:
            listed = list(enumerate(parsed(text), 1))
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}") from None
    else:
        listed = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    listed.append((number, parsed(line)))
                except ValueError:
                    raise InputError(f"{path}, line {number} is not JSON: give one object per line") from None
    for number, row in listed:
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: a {type(row).__name__} instead of an object with named values")
        rows.append((number, flat(row)))
    return list(dict.fromkeys(key for _, row in rows for key in row)), rows


def flat(row: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """{"eval": {"loss": 1}} as {"eval.loss": 1}; lists are left out."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{path}{key}.")
        elif not isinstance(value, list):
            found[f"{path}{key}"] = value
    return found


# -- rows to runs or values --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Which column has which meaning."""

    metric: str | None  # None: one column per arm
    arms: tuple[str, ...] = ()  # columns, one per arm
    arm: str | None = None
    name: str | None = None  # names of runs, from which arm and seed are read
    seed: str | None = None
    step: str | None = None


def find_layout(table: Table, asked: Asked, files: int) -> Layout:
    """The meaning of the columns: as asked, else recognised by their names."""
    for option, column in (("--metric", asked.metric), ("--arm", asked.arm), ("--seed", asked.seed)):
        if column is not None and column not in table.columns:
            raise InputError(f"{table.source} has no column '{column}' for {option}: {it_has(column, table.columns)}")
    arm = asked.arm or table.first_of(ARM_COLUMNS)
    seed = asked.seed or table.first_of(SEED_FIELDS)
    step = table.first_of(STEP_COLUMNS)
    name = table.first_of(NAME_COLUMNS) if arm is None else None
    arm, seed, step, name = (None if column == asked.metric else column for column in (arm, seed, step, name))
    used = {arm, seed, step, name}
    if asked.metric is not None:
        return Layout(asked.metric, arm=arm, name=name, seed=seed, step=step)
    numeric = [column for column in table.numeric() if column not in used and column.lower() not in STEP_COLUMNS]
    if not numeric:
        raise InputError(f"{table.source} has no column of numbers to compare: it has {', '.join(table.columns)}")
    if len(numeric) > 1 and arm is None and name is None and step is None and files == 1:
        return Layout(None, arms=tuple(numeric), seed=seed)
    if len(numeric) > 1:
        raise InputError(f"which metric? Add --metric: {table.source} has {', '.join(numeric[:20])}")
    return Layout(numeric[0], arm=arm, name=name, seed=seed, step=step)


def is_one_run(layout: Layout) -> bool:
    """Whether the rows of a table are the steps of one run."""
    return layout.step is not None and layout.arm is None and layout.name is None and layout.seed is None


def as_run(table: Table, layout: Layout) -> RunLog:
    """A table whose rows are steps, as one run."""
    assert layout.step is not None
    curves: dict[str, list[Point]] = {}
    for column in [layout.metric] if layout.metric else table.columns:
        points = [(_step(table, line, row, layout.step), n) for line, row, n in _numbers(table, column)]
        if points:
            curves[column] = points
    return RunLog(table.name, table.source, curves)


def wide_values(table: Table, layout: Layout) -> list[Value]:
    return [
        Value(arm, _seed(row, layout), _number(table, line, row, arm), f"{table.source}, line {line}")
        for arm in layout.arms
        for line, row in table.rows
    ]


def long_values(table: Table, layout: Layout, asked: Asked) -> list[Value]:
    """One value per row, or per arm and seed where rows are steps."""
    assert layout.metric is not None
    rows = [(*_names(table, line, row, layout, asked), line, row) for line, row in table.rows]
    if layout.step is None:
        return [
            Value(arm, seed, _number(table, line, row, layout.metric), f"{table.source}, line {line}")
            for arm, seed, line, row in rows
        ]
    runs: dict[tuple[str, str | None], list[Point]] = {}
    for arm, seed, line, row in rows:
        points = runs.setdefault((arm, seed), [])
        if row.get(layout.metric) not in EMPTY:  # nothing was logged at this step
            points.append((_step(table, line, row, layout.step), _number(table, line, row, layout.metric)))
    better = better_of(layout.metric, asked.better) if asked.take == "best" else None
    return [
        Value(arm, seed, chosen_point(points, asked, table.source, better) if points else math.nan, table.source)
        for (arm, seed), points in runs.items()
    ]


def _names(table: Table, line: int, row: dict[str, Any], layout: Layout, asked: Asked) -> tuple[str, str | None]:
    """The arm and the seed of a row."""
    arm, seed = bare_name(table.name), _seed(row, layout)
    if layout.seed is None and layout.arm is None and layout.name is None and len(table.rows) == 1:
        arm, seed = split_name(arm, asked.seed_pattern)  # a file for each run
    if layout.arm is not None:
        arm = str(row.get(layout.arm) if row.get(layout.arm) is not None else "").strip()
        if not arm:
            raise InputError(f"{table.source}, line {line}: no arm in column '{layout.arm}'; fill it in")
    elif layout.name is not None:
        arm, named_seed = split_name(str(row.get(layout.name) or ""), asked.seed_pattern)
        seed = seed if layout.seed is not None else named_seed
    return arm, seed


def _seed(row: dict[str, Any], layout: Layout) -> str | None:
    return seed_text(row.get(layout.seed)) if layout.seed is not None else None


def _number(table: Table, line: int, row: dict[str, Any], column: str) -> float:
    number = number_of(row.get(column))
    if number is None:
        raise InputError(f"{table.source}, line {line}: '{str(row[column])[:40]}' in column '{column}' is not a number")
    return number


def _numbers(table: Table, column: str) -> Sequence[tuple[int, dict[str, Any], float]]:
    there = [(line, row) for line, row in table.rows if row.get(column) not in EMPTY]
    return [(line, row, _number(table, line, row, column)) for line, row in there]


def _step(table: Table, line: int, row: dict[str, Any], column: str) -> float:
    step = _number(table, line, row, column)
    return float(line) if math.isnan(step) else step
