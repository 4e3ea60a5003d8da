"""Reads Weights & Biases: CSV exports of its web page, and the folders of offline and online runs.

The file run-ID.wandb of a folder is a log of records in blocks of 32 KiB (the log format of LevelDB): each piece has a
checksum, a length and a type (whole, first, middle, last). The records are protocol buffers of the wandb library.
"""

from __future__ import annotations

import importlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtohead.data.stored_json import parsed
from headtohead.errors import InputError, needs_extra
from headtohead.external.sources import Source
from headtohead.external.tables import Table, flat
from headtohead.external.values import Point, RunLog, number_of

BLOCK = 32_768
FILE_HEAD = 7  # ":W&B", a magic number and a version
PIECE_HEAD = 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
BOUNDS = ("__MIN", "__MAX")
GROUPED = ("group: ", "group:", "grouped runs")


def runs_of_export(table: Table) -> list[RunLog]:
    """The runs of an exported chart: columns `Step`, `NAME - METRIC`, `NAME - METRIC__MIN`, `NAME - METRIC__MAX`."""
    step = table.columns[0]
    runs: dict[str, dict[str, list[Point]]] = {}
    for column in table.columns[1:]:
        name, dash, metric = column.rpartition(" - ")
        if not dash or metric.endswith(BOUNDS) or metric in ("_step", "step"):
            continue
        if name.lower().startswith(GROUPED):
            raise InputError(
                f"{table.source} is a chart of grouped runs, whose values are averages: ungroup it and export it again"
            )
        points = []
        for line, row in table.rows:
            at, value = number_of(row[step]), number_of(row[column])
            if value is None:
                raise InputError(f"{table.source}, line {line}: '{row[column][:40]}' under '{column}' is not a number")
            if row[column].strip():  # an empty cell: this run logged nothing at this step
                points.append((float(line) if at is None else at, value))
        runs.setdefault(name, {})[metric] = points or [(0.0, float("nan"))]
    if not runs:
        raise InputError(f"{table.source} has no column 'RUN - METRIC': export a line chart of W&B as CSV")
    return [RunLog(name, f"{table.source}, run {name}", curves) for name, curves in runs.items()]


def read_run(source: Source) -> RunLog:
    """A run's folder, or its file run-ID.wandb."""
    path = source.path if source.path.is_file() else next(source.path.glob("*.wandb"))
    record_type = _record_type()
    curves: dict[str, list[Point]] = {}
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    name, group = path.stem.removeprefix("run-"), ""
    for data in _records(path):
        try:
            record = record_type.FromString(data)
        except Exception:  # protobuf's DecodeError
            raise InputError(f"{path} is damaged: a record cannot be read") from None
        if record.HasField("run"):
            name, group = record.run.display_name or name, record.run.run_group or group
            config |= _items(record.run.config.update)
        elif record.HasField("config"):
            config |= _items(record.config.update)
        elif record.HasField("summary"):
            summary |= _items(record.summary.update)
        elif record.HasField("history"):
            values = _items(record.history.item)
            step = float(record.history.step.num or values.get("_step") or 0)
            for metric, value in values.items():
                number = number_of(value)
                if not metric.startswith("_") and number is not None and not isinstance(value, str):
                    curves.setdefault(metric, []).append((step, number))
    for metric, value in summary.items():  # figures that were set once, at the end
        if metric not in curves and not metric.startswith("_") and isinstance(value, int | float):
            curves[metric] = [(0.0, float(value))]
    return RunLog(name, source.shown, curves, config, group)


def _record_type() -> Any:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # is read when wandb is imported
    try:
        records: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    except ImportError:
        raise needs_extra("reading a W&B folder", "track", "or export the chart as CSV") from None
    return records.Record


def _items(items: Any) -> dict[str, Any]:
    """{key: value} of a record's items; a nested key is joined by dots, as nested values are."""
    found: dict[str, Any] = {}
    for item in items:
        try:
            value = parsed(item.value_json)
        except ValueError:
            continue
        key = ".".join(item.nested_key) or item.key
        if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):  # wandb's text for these floats
            value = float(value)
        found |= flat({key: value})
    return found


def _records(path: Path) -> Iterator[bytes]:
    """The records of a .wandb file. A record that was cut off at the end, as of a killed run, is left out."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if raw[:4] != b":W&B":
        raise InputError(f"{path} is not a file of W&B, or it is empty: give the folder of a run that logged values")
    at, parts = FILE_HEAD, b""
    while at + PIECE_HEAD <= len(raw):
        room = BLOCK - at % BLOCK
        if room < PIECE_HEAD:  # blocks are filled with zeros
            at += room
            continue
        _, length, kind = struct.unpack_from("<IHB", raw, at)
        piece = raw[at + PIECE_HEAD : at + PIECE_HEAD + length]
        if len(piece) < length or (kind == 0 and length == 0):
            return
        if kind not in (WHOLE, FIRST, MIDDLE, LAST):
            raise InputError(f"{path} is damaged at byte {at}: copy it again")
        at += PIECE_HEAD + length
        parts = piece if kind in (WHOLE, FIRST) else parts + piece
        if kind in (WHOLE, LAST):
            yield parts
