"""Published figures are laid out as the report's own tables, and none is left out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headtohead.claims.experiments import figures
from headtohead.claims.published_figures import Row
from headtohead.claims.report_tables import report_tables
from headtohead.errors import InputError

REPORT: dict[str, Any] = {
    "doc000": {
        "title": "A report",
        "note": "A note.",
        "at100": {"train": 5.0, "test": 6.0},
        "at200": {"train": 4.0, "test": 5.5},
        "encoder": {"acc": 85.0, "parameters": 1234},
        "claims": ["x"],
        "tables": [
            {
                "title": "By iteration",
                "rows": {"at100": "100", "at200": "200"},
                "columns": {"train": "train", "test": "test"},
            },
            {"title": "Accuracy", "rows": {"encoder": "encoder"}, "columns": {"acc": "test"}},
        ],
    }
}


def row(figure: str, mean: float, why: str = "", reach: float = 0.25) -> Row:
    return Row(f"doc000.{figure}", 5.0, mean, mean, mean, 10, "not comparable" if why else "matches", why, "s", reach)


def test_rows_and_columns_of_a_table_are_the_reports():
    found = report_tables(REPORT, [row("at100.train", 5.1), row("at200.test", 5.6, why="another corpus")], "000")
    table = found.tables[0]
    assert table.head == ["", "value", "train", "test"]
    assert table.rows == [
        ["100", "published", "5.00", "6.00"],
        ["", "mean of 10", "5.10 ±0.25", "–"],
        ["", "verdict", "matches", "not measured"],
        ["200", "published", "4.00", "5.00"],
        ["", "mean of 10", "–", "5.60"],
        ["", "verdict", "not measured", "[1]"],
    ]
    assert found.notes == ["[1] not comparable: another corpus", "A note."]


def test_table_with_one_row_has_a_line_for_each_figure():
    table = report_tables(REPORT, [row("encoder.acc", 86.0, reach=12.3)], "000").tables[1]
    assert table.head == ["", "published", "measured", "runs", "verdict"]
    assert table.rows == [["test", "5.00", "86.00 ±12", "10", "matches"]]


def test_figure_of_no_table_is_listed_below():
    *_, last = report_tables(REPORT, [], "000").tables
    assert last.title == "Other published figures"
    assert last.rows == [["encoder, parameters", "1,234", "–", "–", "not measured"]]


def test_second_measurement_of_a_figure_is_listed_below():
    *_, last = report_tables(REPORT, [row("at100.train", 5.1), row("at100.train", 5.2, why="why")], "000").tables
    assert ["at100, train", "5.00", "5.20", "10", "[1]"] in last.rows


def test_report_without_tables_lists_its_figures():
    published = {"doc000": {"claims": ["x"], "x": 2, "rope": {"loss": 1.5}}}
    (table,) = report_tables(published, [], "000").tables
    assert [line[:2] for line in table.rows] == [["x", "2"], ["rope, loss", "1.50"]]


@pytest.mark.parametrize(
    "wrong", [{"title": "t"}, {"title": "t", "rows": {"at300": "300"}, "columns": {"train": "train"}}]
)
def test_table_of_unknown_keys_is_refused(wrong):
    with pytest.raises(InputError, match="a table of doc000 needs title, rows and columns"):
        report_tables({"doc000": REPORT["doc000"] | {"tables": [wrong]}}, [], "000")


@pytest.mark.parametrize("name", sorted(figures()))
def test_published_tables_fit_80_columns_with_every_figure(name):
    published = figures()
    wide = [
        Row(f"{name}.{part}.{key}", float(value), 1234.5, 1.0, 1.0, 10, "matches", "", "s", 12.3)
        for part, values in published[name].items()
        if isinstance(values, dict)
        for key, value in values.items()
    ]
    found = report_tables(published, wide, name[3:])
    text = "".join(table.text(80, most=44) for table in found.tables)
    assert len(re.findall("matches", text)) == len(wide)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(text.count(f"{table.title}\n") for table in found.tables)
