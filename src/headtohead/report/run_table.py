"""Runs as a table: a row for each evaluation during training, a column for each data set, several runs side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.errors import InputError
from headtohead.outcome.metrics import better_way
from headtohead.report import curves
from headtohead.report.named_runs import BATCH_LOSS, RunGroup, Runs, declared_tests, steps_per_epoch
from headtohead.report.text_table import TextTable
from headtohead.run.store import Record, plain

SECONDS = "seconds"
END = "end"
SPREAD = "mean ± sd"
Values = dict[str, list[float]]  # of each quantity, such as obama/perplexity, one value per seed


@dataclass(frozen=True)
class Row:
    """One evaluation: after how many steps, and what was found."""

    step: int
    epoch: float | None
    values: Values


@dataclass(frozen=True)
class RunRows:
    """The rows of one run, or of several seeds of it."""

    group: RunGroup
    rows: list[Row]
    end: Values  # the finished model on whole held-out sets


@dataclass(frozen=True)
class RunTables:
    """What `read` found. Of one run one table, of several a table for each quantity with a column for each run."""

    metrics: list[str]
    task: str
    axis: str
    quantities: list[str]
    runs: list[RunRows]
    notes: list[str]

    def tables(self) -> list[TextTable]:
        groups = [run.group for run in self.runs]
        if len(self.runs) == 1:
            run = self.runs[0]
            single = len(self.metrics) == 1
            names = [q.partition("/")[0] if single and q not in (BATCH_LOSS, SECONDS) else q for q in self.quantities]
            units = ", ".join(self._unit(f"validation/{metric}", metric) for metric in self.metrics)
            return [
                TextTable(
                    f"{units}: {curves.title(groups, SPREAD)}",
                    [self.axis, *(self._head(name) for name in names)],
                    [[self._place(row), *(cell(q, row.values) for q in self.quantities)] for row in run.rows]
                    + ([[END, *(cell(q, run.end) for q in self.quantities)]] if self._shows_end else []),
                )
            ]
        return [
            TextTable(
                f"{self._unit(quantity, self._head(quantity))}: {curves.title(groups, SPREAD)}",
                [self.axis, *(run.group.label for run in self.runs)],
                [
                    [place, *(cell(quantity, values) for values in row)]
                    for place, row in self._side_by_side(quantity)
                    if any(values.get(quantity) for values in row)
                ],
            )
            for quantity in self.quantities
        ]

    def csv(self) -> str:
        """One head for all runs: the step, the epoch, then each run's quantities in full figures, without the last row
        `end`."""
        several = len(self.runs) > 1
        head, columns = ["step", "epoch"], []
        for run in self.runs:
            seeds = max((len(v) for row in run.rows for v in row.values.values()), default=1)
            for quantity in self.quantities:
                name = f"{run.group.label}: {quantity}" if several else quantity
                head += [name, f"{name} sd"] if seeds > 1 else [name]
                columns.append((run, quantity, seeds > 1))
        rows = []
        for step, epoch in self._steps():
            row = [str(step), "" if epoch is None else f"{epoch:g}"]
            for run, quantity, spread in columns:
                values = next((r.values.get(quantity, []) for r in run.rows if r.step == step), [])
                row.append(repr(statistics.fmean(values)) if values else "")
                if spread:
                    row.append(repr(statistics.stdev(values)) if len(values) > 1 else "")
            rows.append(row)
        return TextTable("", head, rows).csv()

    def write(self, format: str, width: int = 80) -> str:
        """text, markdown, csv or latex."""
        if format == "csv":
            return self.csv()
        made = self.tables()
        parts = [
            t.text(width) if format == "text" else t.markdown() if format == "markdown" else t.latex() for t in made
        ]
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        runs = [
            {
                "label": run.group.label,
                "runs": [record.id for record in run.group.records],
                "seeds": run.group.seeds,
                "rows": [{"step": row.step, "epoch": row.epoch, **_means(row.values)} for row in run.rows],
                "end": _means(run.end),
            }
            for run in self.runs
        ]
        found: dict[str, Any] = plain(
            {"metrics": self.metrics, "axis": self.axis, "columns": self.quantities, "runs": runs, "notes": self.notes}
        )
        return found

    @property
    def _shows_end(self) -> bool:
        """Whether the finished model's figures say more than the last rows do."""
        return any(
            run.end and (not run.rows or any(run.end[q] != run.rows[-1].values.get(q) for q in run.end))
            for run in self.runs
        )

    def _steps(self) -> list[tuple[int, float | None]]:
        return sorted({(row.step, row.epoch) for run in self.runs for row in run.rows}, key=lambda at: at[0])

    def _side_by_side(self, quantity: str) -> list[tuple[str, list[Values]]]:
        """Rows of several runs, by step or by epoch."""
        places: dict[str, float] = {self._place(row): self._x(row) for run in self.runs for row in run.rows}
        found = []
        for place in sorted(places, key=places.__getitem__):
            each = [next((row.values for row in run.rows if self._place(row) == place), {}) for run in self.runs]
            found.append((place, each))
        if self._shows_end and quantity not in (BATCH_LOSS, SECONDS):
            found.append((END, [run.end for run in self.runs]))
        return found

    def _x(self, row: Row) -> float:
        return row.step if self.axis == "step" or row.epoch is None else row.epoch

    def _place(self, row: Row) -> str:
        return f"{row.step:,}" if self.axis == "step" or row.epoch is None else f"{row.epoch:.4g}"

    def _unit(self, quantity: str, said: str) -> str:
        unit = "s" if quantity == SECONDS else curves.unit_of(_figure(quantity), self.task)
        said = "training time" if quantity == SECONDS else said.replace("_", " ")
        return f"{said} ({unit})" if unit else said

    def _head(self, quantity: str) -> str:
        name, slash, figure = quantity.partition("/")
        if quantity == BATCH_LOSS:
            return "batch loss"
        return f"{name} {figure.replace('_', ' ')}" if slash else name


def _figure(quantity: str) -> str:
    return "loss" if quantity == BATCH_LOSS else quantity.partition("/")[2]


def cell(quantity: str, values: Values) -> str:
    """A value as text, or mean ± standard deviation of several seeds; a dash where there is none."""
    found = values.get(quantity)
    if not found or not all(map(math.isfinite, found)):
        return "–"
    mean = _number(quantity, statistics.fmean(found))
    return mean if len(found) == 1 else f"{mean} ± {_number(quantity, statistics.stdev(found))}"


def _number(quantity: str, value: float) -> str:
    if quantity == SECONDS:
        return f"{value:.1f}"
    if better_way(f"validation/{_figure(quantity)}") == "higher":
        return f"{100 * value:.2f}"
    return f"{value:.3g}" if abs(value) >= 1e7 else f"{value:.{2 if _figure(quantity) == 'perplexity' else 4}f}"


def _means(values: Values) -> dict[str, float]:
    found: dict[str, float] = {}
    for quantity, each in values.items():
        found[quantity] = statistics.fmean(each)
        if len(each) > 1:
            found[f"{quantity} sd"] = statistics.stdev(each)
    return found


# -- the numbers -------------------------------------------------------------------------------------------------------


def read(
    runs: Runs | Sequence[RunGroup],
    *,
    metrics: Sequence[str] = (),
    sets: Sequence[str] = (),
    axis: str | None = None,
    every: int | None = None,
) -> RunTables:
    """A row for each evaluation, or every `every` steps (or epochs, by the axis), the last one included."""
    groups = curves.as_groups(runs)
    named = [name for name in sets if name != curves.BATCHES]
    if sets and not named:
        raise InputError("--sets batches: name a data set too, such as train")
    asked: list[str | None] = [*dict.fromkeys(metrics)] or [None]
    found = [curves.read(groups, metric=metric, sets=named, axis=axis) for metric in asked]
    first = found[0]
    names = [name for name in first.sets if name != curves.BATCHES]
    names += [] if sets else [name for name in declared_tests(groups) if name not in names]
    quantities = [f"{name}/{own.metric}" for own in found for name in names]
    comparable = any(own.metric != "bits_per_byte" for own in found)  # a loss per token, as the vocabulary has them
    if comparable and (not sets or curves.BATCHES in sets):
        quantities.insert(0, BATCH_LOSS)
    made = [_rows(group, found, names, first.axis, every) for group in groups]
    timed = any(row.values.get(SECONDS) for run in made for row in run.rows)
    if timed and (not sets or len(groups) == 1):
        quantities.append(SECONDS)
    return RunTables([own.metric for own in found], first.task, first.axis, quantities, made, first.notes)


def _rows(
    group: RunGroup, found: Sequence[curves.Curves], names: Sequence[str], axis: str, every: int | None
) -> RunRows:
    each = steps_per_epoch(group.records[0])
    own = {f"{c.set}/{of.metric}": c for of in found for c in of.curves if c.group is group and c.set != curves.BATCHES}
    batches = [curves.batch_losses(record) for record in group.records]
    steps = sorted({step for curve in own.values() for step in curve.steps})
    rows: list[Row] = []
    for step in _every(steps, each if axis == "epoch" else 1, every, axis):
        values = {
            q: curve.values[:, curve.steps.index(step)].tolist() for q, curve in own.items() if step in curve.steps
        }
        before = rows[-1].step if rows else -1
        since = [[b for b in losses if before < b.step <= step] for losses in batches]
        values[BATCH_LOSS] = [curves.mean_loss(losses) for losses in since if losses]
        values[SECONDS] = [at for record in group.records if (at := _seconds(record, step)) is not None]
        rows.append(Row(step, step / each if each else None, {q: v for q, v in values.items() if v}))
    results = [record.result for record in group.records if record.result and record.result.is_complete]
    ends = {
        f"{name}/{of.metric}": [float(r.values[key]) for r in results if r.values.get(key) is not None]
        for of in found
        for name in names
        if (key := f"{name}/{of.metric}")
    }
    return RunRows(group, rows, {q: v for q, v in ends.items() if v})


def _every(steps: list[int], unit: int | None, every: int | None, axis: str) -> list[int]:
    """The steps that are multiples of `every` units, and the last one."""
    if every is None or len(steps) < 2:
        return steps
    chosen = [step for step in steps if step % (every * (unit or 1)) == 0]
    if not any(chosen):
        between = steps[1] - steps[0]
        apart = f"{between:,} steps" if axis == "step" else f"{between / (unit or 1):g} epochs"
        raise InputError(
            f"--every {every}: evaluations are {apart} apart and none falls on such {axis}s; "
            f"give a multiple, or train with --set evaluate.every={every * (unit or 1)}"
        )
    return sorted({*chosen, steps[-1]})


def _seconds(record: Record, step: int) -> float | None:
    """Training time up to a step, without evaluations. Runs of earlier versions have the mean time per step alone."""
    times = record.times
    at = times.seconds_at.get(str(step))
    if at is None and times.step_ms is not None:
        at = times.step_ms * step / 1000
    return None if at is None else float(at)
