"""Tables of text: never wider than asked, aligned, escaped."""

from __future__ import annotations

import csv
import io

import pytest

from headtohead import InputError
from headtohead.report.text_table import TextTable, chosen_format

TABLE = TextTable("perplexity: a_b", ["step", "a|b", "c"], [["0", "1.5", "–"], ["10", "2.25", "中"]])


def test_text_aligns_numbers_right_and_words_left():
    assert TABLE.text().splitlines() == ["perplexity: a_b", "step   a|b  c", "   0   1.5  –", "  10  2.25  中"]


@pytest.mark.parametrize("width", [40, 80])
def test_wide_tables_continue_below(width: int):
    heads = [f"set {n}" for n in range(20)]
    text = TextTable("a title " * 20, ["step", *heads], [["100", *["1234.56"] * 20]]).text(width)
    assert max(map(len, text.splitlines())) <= width
    assert all(head in text for head in heads)
    assert text.count("1234.56") == 20
    assert text.count("step") > 1


def test_long_names_are_cut_and_heads_stay_different():
    long = "a name that is much too long for a column of a table"
    text = TextTable("t", ["run", f"{long} 1", f"{long} 2"], [[long, "1", "2"], [long, "3", "x" * 99]]).text(80)
    heads = [line.split("  ")[-1].strip() for line in text.splitlines() if line.startswith("run ")]
    assert heads == ["a name that is… of a table 1", "a name that is… of a table 2"]
    assert text.count("\na name that is…") == 4
    assert "(2)" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_markdown_and_latex_are_escaped():
    assert "| step | a\\|b | c |" in TABLE.markdown()
    assert "| ---: | ---: | --- |" in TABLE.markdown()
    assert r"\caption{perplexity: a\_b}" in TABLE.latex()
    assert r"10 & 2.25 & 中 \\" in TABLE.latex()


def test_csv_is_read_back_unchanged():
    assert list(csv.reader(io.StringIO(TABLE.csv()))) == [list(TABLE.head), *map(list, TABLE.rows)]


def test_the_format_is_given_or_that_of_the_file():
    assert chosen_format(None, None) == "text"
    assert chosen_format(None, "x.tex") == "latex"
    assert chosen_format("csv", "x.tex") == "csv"
    with pytest.raises(InputError, match=r"there is no format 'latx': did you mean latex\?"):
        chosen_format("latx", None)
    with pytest.raises(InputError, match=r"ends in one of .txt, .md, .csv, .tex"):
        chosen_format(None, "x.doc")
