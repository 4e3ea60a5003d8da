"""The figures of a report as that report's own tables, each published figure with the measured one.

`figures.toml` says which figures form a table: [[doc000.tables]] with a title, rows and columns. A figure in none of
them is shown below, so nothing that was published is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.claims.published_figures import Row
from headtohead.errors import InputError
from headtohead.report.text_table import TextTable

LEGEND = (
    "A published figure is one run; ours are means over seeds. One more run of ours would fall within ± in 95 of 100 "
    "cases: a published figure in this range matches. Otherwise our mean is better or worse."
)


@dataclass(frozen=True)
class ReportTables:
    """One report: its title, its tables and the notes below them."""

    number: str  # 000
    title: str
    tables: list[TextTable]
    notes: list[str]

    def markdown(self) -> str:
        parts = [f"### {self.number}: {self.title}", *(t.markdown().strip() for t in self.tables), *self.notes]
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class _Cell:
    """What a table shows of one figure."""

    published: str
    measured: str = "–"
    runs: int = 0
    verdict: str = "not measured"


def report_tables(figures: Mapping[str, Any], rows: Sequence[Row], number: str) -> ReportTables:
    """The tables of report `number`, with those of `rows` that belong to it."""
    name = f"doc{number}"
    report = figures[name]
    own = {key: [row for row in rows if row.figure == f"{name}.{key}"] for key, _ in _numbers(report)}
    reasons = list(dict.fromkeys(row.why for found in own.values() for row in found if row.why))
    cells = {
        key: [_cell(row, reasons) for row in own[key]] or [_Cell(_number(value))] for key, value in _numbers(report)
    }
    tables = []
    for layout in report.get("tables", ()):
        try:
            tables.append(_laid_out(layout["title"], layout["rows"], layout["columns"], cells))
        except (KeyError, TypeError, AttributeError):
            raise InputError(f"figures.toml: a table of {name} needs title, rows and columns, by their keys") from None
    left = [(key.replace(".", ", ").replace("_", " "), cell) for key, more in cells.items() for cell in more]
    if left:
        tables.append(_list("Other published figures" if tables else "Figures", left))
    notes = [f"[{n}] not comparable: {why}" for n, why in enumerate(reasons, start=1)]
    return ReportTables(number, str(report.get("title", "")), tables, [*notes, *filter(None, [report.get("note")])])


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a report with its dotted key: decoder.obama."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", value


def _cell(row: Row, reasons: list[str]) -> _Cell:
    verdict = f"[{reasons.index(row.why) + 1}]" if row.why else row.mark
    reach = "" if row.why else f" ±{row.reach:.0f}" if row.reach >= 10 else f" ±{row.reach:.2g}"
    return _Cell(_number(row.published), f"{_number(row.mean)}{reach}", row.runs, verdict)


def _number(x: float) -> str:
    if not math.isfinite(x):
        return "–"
    return f"{x:,}" if isinstance(x, int) else f"{x:,.2f}" if 0.1 <= abs(x) < 1e6 else f"{x:.3g}"


def _laid_out(
    title: str, rows: Mapping[str, str], columns: Mapping[str, str], cells: dict[str, list[_Cell]]
) -> TextTable:
    """A table of rows × columns: three lines a row, or one line a figure where there is one row or one column."""
    grid = [[cells[f"{row}.{column}"].pop(0) for column in columns] for row in rows]
    if len(rows) == 1:
        return _list(title, zip(columns.values(), grid[0], strict=True))
    if len(columns) == 1:
        return _list(title, zip(rows.values(), (line[0] for line in grid), strict=True))
    lines = []
    for label, line in zip(rows.values(), grid, strict=True):
        runs = "–".join(map(str, sorted({cell.runs for cell in line if cell.runs})))
        lines.append([label, "published", *(cell.published for cell in line)])
        lines.append(["", f"mean of {runs}" if runs else "measured", *(cell.measured for cell in line)])
        lines.append(["", "verdict", *(cell.verdict for cell in line)])
    return TextTable(title, ["", "value", *columns.values()], lines, left=(0, 1))


def _list(title: str, cells: Any) -> TextTable:
    lines = [[label, cell.published, cell.measured, str(cell.runs or "–"), cell.verdict] for label, cell in cells]
    return TextTable(title, ["", "published", "measured", "runs", "verdict"], lines, left=(0, 4))
