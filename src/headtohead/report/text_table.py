"""A table of text, for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import InputError, nearest
from headtohead.figures.style import shortened, wide
from headtohead.report.paste import latex_table, markdown_table

FORMATS = {"text": "txt", "markdown": "md", "csv": "csv", "latex": "tex"}  # and how files with them end
GAP = "  "
MOST = 28  # letters of a heading or a label on a terminal


def chosen_format(asked: str | None, out: str | None) -> str:
    """The format that was asked for, else the one that the file's name ends with, else text."""
    if asked is not None and asked not in FORMATS:
        raise InputError(f"there is no format '{asked}': {nearest(asked, FORMATS)}")
    if asked is not None or out is None:
        return asked or "text"
    ending = Path(out).suffix.removeprefix(".").lower()
    found = next((name for name, own in FORMATS.items() if own == ending), None)
    if found is None:
        endings = ", ".join(f".{own}" for own in FORMATS.values())
        raise InputError(f"--out {out}: give a name that ends in one of {endings}, or say --format")
    return found


@dataclass(frozen=True)
class TextTable:
    """Rows of cells under a head. Columns of words are aligned to the left, columns of numbers to the right."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = ()  # columns to align to the left although they hold numbers

    def text(self, width: int = 80, most: int = MOST) -> str:
        """The table in `width` columns, with headings and labels of at most `most`. Columns that do not fit follow
        below, with the first column again."""
        head = shortened(list(self.head), most)
        first = [shortened([row[0]], most)[0] for row in self.rows]
        room = width - len(GAP) - max(map(len, (head[0], *first)))  # for one more column
        cells = [
            head,
            *([name, *(_cut(cell, room) for cell in row[1:])] for name, row in zip(first, self.rows, strict=True)),
        ]
        widths = [max(wide(row[n]) for row in cells) for n in range(len(head))]
        blocks: list[list[int]] = [[]]
        used = widths[0]
        for n in range(1, len(head)):
            if used + len(GAP) + widths[n] > width and blocks[-1]:
                blocks.append([])
                used = widths[0]
            blocks[-1].append(n)
            used += len(GAP) + widths[n]
        parts = []
        for block in blocks:
            lines = [GAP.join(_padded(row[n], widths[n], n in self.words) for n in (0, *block)) for row in cells]
            parts.append("\n".join(line.rstrip() for line in lines))
        return textwrap.fill(self.title, width) + "\n" + "\n\n".join(parts) + "\n"

    @property
    def words(self) -> list[int]:
        """Columns that are aligned to the left."""
        numbers = [n for n in range(len(self.head)) if any(row[n][:1].isdigit() for row in self.rows)]
        return [n for n in range(len(self.head)) if n not in numbers or n in self.left]

    def markdown(self) -> str:
        return f"{self.title}\n\n{markdown_table(self.head, self.rows, self.words)}"

    def latex(self) -> str:
        align = "".join("l" if n in self.words else "r" for n in range(len(self.head)))
        return latex_table(self.title, self.head, self.rows, align)

    def csv(self) -> str:
        """Without the title, so that a program reads it."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([self.head, *self.rows])
        return buffer.getvalue()


def _padded(cell: str, room: int, left: bool) -> str:
    space = " " * (room - wide(cell))
    return cell + space if left else space + cell


def _cut(cell: str, room: int) -> str:
    return cell if wide(cell) <= room else f"{cell[: max(1, room - 1)]}…"
