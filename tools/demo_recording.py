"""Record `h2h demo` in a pseudo-terminal and draw it as an animated SVG: python tools/demo_recording.py [EVENTS.json]

The picture plays once and then rests on the last screen. It shows only the last screen where motion is reduced, where
animations are unknown, and at demo.svg#still. A recording writes EVENTS.json, from which the picture is drawn again.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from headtohead.run.store import write_whole
from stored_results import ROOT

PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS, ROWS = 134, 40
FASTER = 10  # seconds of the recording in a second of the picture
FRAME = 2.5  # seconds of the recording between two screens
CELL = (8.0, 17.0)  # width and height of a character
EDGE = 14
COLOURS = {"default": "#e6e9f0", "green": "#4cc79b", "red": "#ff8a7a", "brown": "#e0b84c", "yellow": "#e0b84c"}
COLOURS |= {"blue": "#7fb0ff", "cyan": "#6fd0dd", "magenta": "#e08bb8", "black": "#9aa4b5", "white": "#e6e9f0"}

Event = tuple[float, str]  # seconds since the start, what was printed


# -- recording ---------------------------------------------------------------------------------------------------------


def record(command: list[str], folder: Path) -> list[Event]:
    """Run a command in a terminal of its own, in a folder, and note what it prints and when."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        os.environ.pop("HEADTOHEAD_HOME", None)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    start, events = time.monotonic(), []
    while data := _read(terminal):
        events.append((time.monotonic() - start, data.decode("utf-8", "replace")))
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return events


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has ended
        return b""


# -- screens -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Characters of one style in a row of the screen."""

    column: int
    text: str
    colour: str
    bold: bool


Row = tuple[Run, ...]


@dataclass(frozen=True)
class Shown:
    """A row as it stands at one height from one time until another; for ever, if `until` is None."""

    height: int
    row: Row
    since: float
    until: float | None


def screens(events: Sequence[Event], command: str) -> Iterator[tuple[float, list[Row]]]:
    """The screen every few seconds, and at the end."""
    import pyte

    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    stream.feed(f"$ {command}\r\n")
    yield 0.0, _rows(screen)
    due = FRAME
    for at, printed in events:
        while at >= due:
            yield due, _rows(screen)
            due += FRAME
        stream.feed(printed)
    yield events[-1][0], _rows(screen)


def _rows(screen: Any) -> list[Row]:
    return [_row(screen.buffer[n]) for n in range(ROWS)]


def _row(line: Any) -> Row:
    cells = [line[n] for n in range(COLUMNS)]
    runs, column = [], 0
    for (colour, bold), same in groupby(cells, key=lambda c: (c.fg, c.bold)):
        text = "".join(c.data for c in same)
        if text.strip():
            left = len(text) - len(text.lstrip())
            runs.append(Run(column + left, text.strip(), _colour(colour), bold))
        column += len(text)
    return tuple(runs)


def _colour(name: str) -> str:
    return COLOURS.get(name.removeprefix("bright"), f"#{name}" if len(name) == 6 else COLOURS["default"])


def changes(found: Sequence[tuple[float, list[Row]]]) -> list[Shown]:
    """What each row of the screen shows and how long; rows that stay the same are one piece."""
    pieces = []
    for height in range(ROWS):
        seen = [(at, rows[height]) for at, rows in found]
        starts = [n for n in range(len(seen)) if n == 0 or seen[n][1] != seen[n - 1][1]]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            at, row = seen[start]
            if row:
                pieces.append(Shown(height, row, at, None if end is None else seen[end][0]))
    return pieces


# -- the picture -------------------------------------------------------------------------------------------------------

STYLE = """
text { font: 13.2px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; }
.past { visibility: hidden }
.bar { animation: grow linear both; transform-origin: 0 0 }
@keyframes seen { from, to { visibility: visible } }
@keyframes later { from, to { visibility: hidden } }
@keyframes grow { from { transform: scaleX(0) } to { transform: none } }
@media (prefers-reduced-motion: reduce) { * { animation: none !important } }
#still:target ~ * * { animation: none !important }
"""


def picture(events: Sequence[Event], command: str = "h2h demo") -> str:
    """The recording as an SVG."""
    found = list(screens(events, command))
    used = max(n for _, rows in found for n, row in enumerate(rows) if row) + 1
    wide, high = COLUMNS * CELL[0] + 2 * EDGE, used * CELL[1] + 2 * EDGE + 24
    takes = events[-1][0]
    last = next(rows for _, rows in reversed(found))
    says = " ".join(run.text for row in last for run in row)
    size, speed = f'width="{wide:g}" height="{high:g}"', f"recorded in {takes:.0f} s, played {FASTER} times faster"
    lasts = f"animation-duration:{takes / FASTER:.1f}s"
    body = "\n".join(_piece(piece) for piece in changes(found))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {wide:g} {high:g}" role="img">
<title>{escape(command)}, {speed}</title>
<desc>The last screen: {escape(says)}</desc>
<style>{STYLE}</style>
<g id="still"/>
<rect {size} rx="8" fill="#14171e"/>
<g>
<text x="{wide - EDGE:g}" y="{high - 12:g}" text-anchor="end" fill="#9aa4b5">{speed}</text>
<rect class="bar" x="0" y="{high - 4:g}" width="{wide:g}" height="4" fill="#175cd3" style="{lasts}"/>
{body}
</g>
</svg>
"""


def _piece(piece: Shown) -> str:
    """A row: hidden but for its time, or, of the last screen, shown but for the time before it."""
    since = piece.since / FASTER
    if piece.until is None:
        state = f'style="animation:later {since:.2f}s"' if since else ""
    else:
        state = f'class="past" style="animation:seen {piece.until / FASTER - since:.2f}s {since:.2f}s"'
    y = EDGE + (piece.height + 0.75) * CELL[1]
    return f"<g {state}>{''.join(_text(run, y) for run in piece.row)}</g>"


def _text(run: Run, y: float) -> str:
    x, long = EDGE + run.column * CELL[0], len(run.text) * CELL[0]
    bold = ' font-weight="bold"' if run.bold else ""
    size = f' textLength="{long:g}"' if len(run.text) > 1 else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{run.colour}"{bold}{size}>{escape(run.text)}</text>'


def main() -> None:
    if len(sys.argv) > 1:
        events = [(at, text) for at, text in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    else:
        folder = Path(tempfile.mkdtemp())
        events = record([str(Path(sys.prefix) / "bin" / "h2h"), "demo"], folder)
        write_whole(folder / "events.json", json.dumps(events))
        print(f"wrote {folder / 'events.json'}")
    write_whole(PICTURE, picture(events))
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
