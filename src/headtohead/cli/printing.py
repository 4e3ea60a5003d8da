"""What commands print: JSON, columns, progress bars, files they wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headtohead.display.visible import visible, visible_json

if TYPE_CHECKING:
    from headtohead.display.console import Console


def stacked(heading: str, *texts: str) -> None:
    """Print a heading with texts below it, indented and wrapped between words."""
    from rich.text import Text

    screen = console()
    for text, indent, style in ((heading, 0, "bold"), *((text, 4, "") for text in texts if text)):
        for line in Text(text).wrap(screen, max(20, screen.width - indent)):
            screen.print(" " * indent + line.plain.rstrip(), style=style, markup=False, soft_wrap=True)


def in_columns(head: Sequence[str], rows: Sequence[Sequence[str]], narrower: Iterable[tuple[str, int]]) -> None:
    """Print one line per row, no wider than the screen.

    `narrower` lists (column, least width): columns shrink in this order. Text that does not fit is cut with …
    """
    from rich.cells import cell_len, set_cell_size

    cells = [[visible(cell).replace("\n", "\\n").replace("\t", "\\t") for cell in row] for row in (head, *rows)]
    widths = {name: max(map(cell_len, column)) for name, column in zip(head, zip(*cells, strict=True), strict=True)}
    room = console().width - 2 * (len(widths) - 1)
    for name, least in narrower:
        too_wide = max(0, sum(widths.values()) - room)
        widths[name] = min(widths[name], max(least, widths[name] - too_wide))
    for row in cells:
        shown = (
            set_cell_size(cell, width) if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            for cell, width in zip(row, widths.values(), strict=True)
        )
        print("  ".join(shown).rstrip())


def with_bar(parts: Iterable[Any], what: str) -> Any:
    """Consume `parts` with a progress bar and return the last one. Floats among them are the share of work done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    errors = console(stderr=True)
    last = None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        for last in parts:
            if isinstance(last, float):
                bar.update(task, completed=last)
    return last


def save(out: str | None, draw: Callable[[str], bytes]) -> None:
    """Write the file `out` with the bytes of `draw(ending)`, and print its name. Do nothing without `out`."""
    if out is None:
        return
    from pathlib import Path

    from headtohead.errors import Unavailable
    from headtohead.run.store import write_whole

    path = Path(out)
    drawn = draw(path.suffix.removeprefix(".").lower())
    try:
        write_whole(path, drawn)
    except Unavailable:
        raise Unavailable(
            f"cannot write {path}: give --out a name in a folder that you can write to, on a disk with free space"
        ) from None
    print(f"wrote {path}", file=sys.stderr)


def plain(text: Any) -> Any:
    """The text without markup: brackets are printed as brackets."""
    from rich.text import Text

    return Text(visible(str(text)))


def console(stderr: bool = False) -> Console:
    from headtohead.display.console import Console

    return Console(stderr=stderr)


def print_json(value: Any) -> None:
    print(visible_json(json.dumps(value, indent=2, ensure_ascii=False)))
