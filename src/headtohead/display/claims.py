"""What `h2h reproduce` prints, as plain values, and the cache of what `--stored` prints. Imports no torch.

The stored results change only with the recipes, the published figures or this program. So they are judged once, which
takes torch and some seconds, and kept in the cache until one of those files changes (run/derived.py).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypedDict

from headtohead.run.derived import derived, digest_of, package_digest
from headtohead.spec.userfiles import published_recipes

if TYPE_CHECKING:
    from rich.console import Console

NO_BREAK = "\u00a0"  # a space at which textwrap does not wrap
LABEL = 44  # columns for a label of a table; longer ones are shortened


class Table(TypedDict):
    """A table of a report. Its first column has labels."""

    title: str
    head: list[str]
    rows: list[list[str]]
    left: list[int]  # columns that are aligned to the left


class Section(TypedDict):
    """A report: its tables, and its claims as lines of text, the claim itself first."""

    title: str
    tables: list[Table]
    notes: list[str]
    claims: list[list[str]]


class Shown(TypedDict):
    """Figures and claims, ready to be printed."""

    json: dict[str, Any]  # what --json prints
    legend: str
    sections: list[Section]
    lines: list[str]
    missing: list[str]
    damaged: list[str]


def judged(report: str, judge: Callable[[], Shown]) -> Shown:
    """The stored results of a report, from the cache if nothing they are made of has changed."""
    found: Shown = derived("reproduce", stored_digest(report), judge, keep=lambda made: not made["missing"])
    return found


def stored_digest(report: str) -> str:
    """A digest of all that the stored results of a report are made of."""
    where = published_recipes()
    files = sorted(file for file in where.rglob("*") if file.suffix in (".py", ".toml", ".json"))
    return digest_of(where, files, package_digest(), version("torch"), report)


def show(found: Shown, screen: Console) -> None:
    """Print every report with its tables and claims, wrapped to the screen between words."""
    from headtohead.report.text_table import TextTable

    def write(text: str, indent: int = 0, style: str = "") -> None:
        text = re.sub(r" (?=[%…])|(?<=…) ", NO_BREAK, text)  # keep intervals and percentages on one line
        lines = textwrap.wrap(text, max(20, screen.width - indent), break_long_words=False, break_on_hyphens=False)
        for line in lines:
            screen.print(" " * indent + line.replace(NO_BREAK, " "), markup=False, style=style, soft_wrap=True)

    write(found["legend"])
    for section in found["sections"]:
        screen.print()
        write(section["title"], style="bold")
        for table in section["tables"]:
            screen.print()
            screen.print(TextTable(**table).text(screen.width, LABEL), markup=False, soft_wrap=True, end="")
        screen.print()
        for note in section["notes"]:
            write(note)
        for claim, *lines in section["claims"]:
            screen.print()
            write(claim, style="bold")
            for line in lines:
                write(line, indent=4)
    if found["lines"]:
        screen.print()
    for line in found["lines"]:
        write(line)
