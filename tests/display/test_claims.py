"""What `h2h reproduce --stored` prints is judged once, and again when something it rests on has changed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headtohead.display.claims import Section, Shown, Table, judged, show


class Judge:
    """Counts how often the stored results are judged."""

    def __init__(self, **said: Any) -> None:
        empty: Shown = {"json": {}, "legend": "", "sections": [], "lines": [], "missing": [], "damaged": []}
        self.found, self.times = {**empty, **said}, 0

    def __call__(self) -> Any:
        self.times += 1
        return self.found


@pytest.fixture
def recipes(home: Path) -> Path:  # noqa: ARG001
    folder = Path("recipes/published")
    (folder / "measured").mkdir(parents=True)
    for name in ("figures.toml", "mine.py", "measured/mine.json"):
        (folder / name).write_text("a")
    return folder


@pytest.mark.parametrize("changed", ["figures.toml", "mine.py", "measured/mine.json", "measured/new.json", "new.py"])
def test_a_changed_file_is_judged_again(recipes: Path, changed: str) -> None:
    judge = Judge(lines=["all"])
    assert judged("all", judge) == judged("all", judge) == judge.found
    assert judge.times == 1
    (recipes / changed).write_text("b")
    judged("all", judge)
    assert judge.times == 2


@pytest.mark.usefixtures("recipes")
def test_each_report_has_its_own_results() -> None:
    for report in ("all", "001", "002"):
        assert judged(report, Judge(lines=[report]))["lines"] == [report]
    assert judged("001", Judge(lines=["never asked"]))["lines"] == ["001"]


@pytest.mark.usefixtures("recipes")
def test_incomplete_results_are_not_cached() -> None:
    judge = Judge(missing=["mine: not run yet"])
    for _ in range(2):
        judged("all", judge)
    assert judge.times == 2


@pytest.mark.parametrize("width", [80, 60])
def test_sections_fit_the_screen_without_broken_words(width: int) -> None:
    table: Table = {
        "title": "Decoder",
        "head": ["", "published", "verdict"],
        "rows": [["an extraordinarily long label", "1.00", "[1]"]],
        "left": [0, 2],
    }
    claim = [
        "000.1 [markup] is printed: holds",
        "Rope against Learned, test/loss: −0.0178 % (−0.0240 % … −0.0116 %): holds",
    ]
    section: Section = {"title": "000: Report", "tables": [table], "notes": ["[1] why"], "claims": [claim]}
    console = Console(width=width, record=True, highlight=False, file=StringIO())
    show(Judge(sections=[section], legend="legend", lines=["Of 1 claim 1 holds."]).found, console)
    text = console.export_text(styles=False, clear=False)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "an extraordinarily long label       1.00  [1]" in lines
    assert "[1] why" in lines
    assert any("(−0.0240 % … −0.0116 %)" in line for line in lines)  # an interval stays on one line
    assert "\x1b[1m000.1 [markup] is printed: holds" in console.export_text(styles=True)
