from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.external.comparison import compare_sources
from headtohead.external.wording import number, text_of
from helpers.external import table_lines


@pytest.mark.parametrize(
    ("value", "digits", "signed", "text"),
    [(1.23456, 3, False, "1.235"), (-0.5, 2, True, "−0.50"), (1e9, 2, True, "+1e+09"), (2e-8, 8, False, "2e−08")],
)
def test_numbers(value: float, digits: int, signed: bool, text: str) -> None:
    assert number(value, digits, signed) == text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_screen(inside: Path, width: int) -> None:
    long = [line.replace("rope", "a-very-long-name-of-an-arm-with-many-settings") for line in table_lines()]
    (inside / "t.csv").write_text("\n".join(long))
    lines = text_of(compare_sources(["t.csv"], control="baseline", margin=0.5), width).splitlines()
    if width >= 80:
        assert max(map(len, lines)) <= width
    (row,) = [line for line in lines if line.startswith("a-v")]
    assert row.split()[0].endswith("ngs")
    assert "−0." in row  # numbers are never cut
    assert row.endswith("equivalent")


def test_the_table_in_full(inside: Path) -> None:
    rows = [f"{arm},{seed},{value}" for seed in range(6) for arm, value in (("base", 2.5), ("new", 2.25 + seed / 64))]
    (inside / "t.csv").write_text("\n".join(["arm,seed,loss", *rows]))
    assert str(compare_sources(["t.csv"])).splitlines()[:7] == [
        "read: t.csv (table)",
        "metric: loss, lower is better; arms from column arm; seeds from column seed",
        "values: 12 (base 6, new 6)",
        "seeds: 0 to 5",
        "",
        "arm     mean  difference      95 % interval      p  pairs  verdict",
        "base  2.5000                                               control",
    ]
