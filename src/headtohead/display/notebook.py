"""Progress in a notebook cell, without widgets: one output that is replaced a few times a second."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100  # columns
SECONDS = 0.5  # between two updates


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, and not in a terminal's IPython."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


@dataclass
class Notebook:
    """The output of a cell: lines that stay, and below them a picture of the present state."""

    lines: list[str] = field(default_factory=list)

    @property
    def console(self) -> Console:
        """A console whose lines stay above the live part."""
        from headtohead.display.console import Console

        return Console(file=_Lines(self.lines), width=WIDTH)

    @contextmanager
    def showing(self, state: Callable[[], Any]) -> Iterator[None]:
        from IPython.display import HTML, display

        shown = display(HTML(self._html(state())), display_id=True)
        done = threading.Event()

        def refresh() -> None:
            while not done.wait(SECONDS):
                shown.update(HTML(self._html(state())))

        thread = threading.Thread(target=refresh, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            shown.update(HTML(self._html(state())))

    def _html(self, state: Any) -> str:
        from html import escape

        from headtohead.display.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH).print(state)
        return f"<pre>{escape(''.join(self.lines) + text.getvalue())}</pre>"


class _Lines(io.TextIOBase):
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, text: str) -> int:
        self.lines.append(text)
        return len(text)
