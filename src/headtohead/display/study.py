"""A study while it runs, and its verdicts: a live table of arms and seeds on a terminal and in a notebook, plain lines
elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headtohead.display.notebook import Notebook, in_notebook
from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.outcome.metrics import POINTS, UNITS, change_text, figure_of, text_of, value_of
from headtohead.outcome.outcome import ArmVerdict, Verdicts
from headtohead.outcome.wording import (
    analysis_text,
    interval_text,
    lines_under,
    p_text,
    parameters_text,
    r_text,
    share_text,
    time_text,
    word,
)
from headtohead.run.events import (
    Analysed,
    AuditProgress,
    Failed,
    Finished,
    NotBegun,
    Note,
    Progress,
    Stage,
    Started,
    Stopped,
    Waiting,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

NAME = 12  # letters of an arm's name that must have room before it is folded
STYLES = {"better": "bold green", "worse": "bold red", "equivalent": "bold cyan", "unresolved": "yellow"}


@dataclass
class Board:
    """What is known of every run of the stage."""

    metric: str
    stage: Stage | None = None
    cells: dict[str, str] = field(default_factory=dict)  # run → the text of its cell
    share: dict[str, float] = field(default_factory=dict)  # run → how much of it is done
    fresh: set[str] = field(default_factory=set)  # trained at least in part in this call, in any stage
    begun: float = field(default_factory=time.monotonic)
    before: float = 0.0  # shares done before this call
    audited: float = 0.0  # share of the models

    def hear(self, event: Any) -> None:
        if isinstance(event, AuditProgress):
            self.audited = event.share
        elif isinstance(event, Stage):
            self.stage, self.begun, self.before = event, time.monotonic(), 0.0
            self.cells, self.share = {}, {}
        elif isinstance(event, Started):
            self.fresh.add(event.id)
            self.before += event.done / event.steps
            self.share[event.id] = event.done / event.steps
            self.cells[event.id] = f"{event.done / event.steps:.0%}"
        elif isinstance(event, Progress):
            self.share[event.id] = event.done / event.steps
            self.cells[event.id] = f"{event.done / event.steps:.0%}"
        elif isinstance(event, Finished):
            self.share[event.id] = 1.0
            self.before += event.already
            self.cells[event.id] = self._value(event)
        elif isinstance(event, Failed):
            self.share[event.id] = 1.0
            self.cells[event.id] = "failed"
        elif isinstance(event, Waiting):
            self.cells[event.id] = "elsewhere"
        elif isinstance(event, Stopped):
            self.cells[event.id] = "stopped"

    def _value(self, event: Finished) -> str:
        try:
            result = event.record.result
        except InputError:
            return "torn"
        if result is None or not result.is_complete:
            return "diverged"
        try:
            return text_of(self.shown, value_of(result, self.shown))
        except (InputError, KeyError, TypeError):
            return "done"

    @property
    def shown(self) -> str:
        """Tuning is judged by the validation set."""
        tuning = self.stage is not None and self.stage.title == "tuning"
        return f"validation/{figure_of(self.metric)}" if tuning else self.metric

    @property
    def runs(self) -> int:
        return len({cell.id for cell in self.stage.cells}) if self.stage else 0

    @property
    def done(self) -> int:
        return sum(share >= 1 for share in self.share.values())

    @property
    def left(self) -> float | None:
        """Seconds left, from the share that this call has done so far."""
        did, spent = sum(self.share.values()) - self.before, time.monotonic() - self.begun
        return spent / did * (self.runs - sum(self.share.values())) if did > 0.05 and spent > 2 else None

    def line(self) -> str:
        left = "" if self.left is None or self.done == self.runs else f", about {duration(self.left)} left"
        what = "tuning runs" if self.stage and self.stage.title == "tuning" else "runs"
        return f"{self.done} of {self.runs} {what}{left}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        if self.stage is None:
            yield Text(f"auditing the models, {self.audited:.0%}" if self.audited < 1 else "reading the data")
            return
        seeds = list(dict.fromkeys(cell.seed for cell in self.stage.cells))
        arms: dict[str, dict[int, str]] = {}
        for cell in self.stage.cells:
            arms.setdefault(cell.arm, {})[cell.seed] = cell.id
        rows = [(Text(arm), [self._cell(runs.get(seed)) for seed in seeds]) for arm, runs in arms.items()]
        table = _table("", [f"seed {seed}" for seed in seeds], rows, console)
        if table is not None:
            yield table
        else:  # seed after seed, over as many lines as it takes
            for arm, cells in rows:
                yield arm
                yield Padding.indent(Text("  ").join(cells), 2)
        yield Text(self.line())

    def _cell(self, run: str | None) -> Text:
        from rich.text import Text

        said = self.cells.get(run or "", "·")
        style = "red" if said in ("failed", "diverged") else "cyan" if said.endswith("%") and run in self.fresh else ""
        return Text(said, style=style, justify="right")


@dataclass
class Screen:
    """Shows the events of a study; `hear` is what a workflow listens with."""

    metric: str
    console: Console
    board: Board = field(init=False)
    last: float = field(default_factory=time.monotonic)  # when the last line was printed
    names: dict[str, str] = field(default_factory=dict)  # run → arm and seed

    def __post_init__(self) -> None:
        self.board = Board(self.metric)

    def hear(self, event: Any) -> None:
        self.board.hear(event)
        lines = [event.line] if isinstance(event, Note) else []
        lines += analysis_lines(event) if isinstance(event, Analysed) else []
        for line in lines:
            from rich.text import Text

            self.console.print(Text(line), soft_wrap=not self.console.is_terminal)


class PlainScreen(Screen):
    """Lines for a log: one per finished run, and one every twenty seconds."""

    def hear(self, event: Any) -> None:
        super().hear(event)
        board = self.board
        if isinstance(event, Stage):
            self.names = {cell.id: f"{cell.arm}, seed {cell.seed}" for cell in event.cells}
            self._line(f"{board.runs} {'tuning runs' if event.title == 'tuning' else 'runs'}")
        elif isinstance(event, Failed):
            self._line(f"{self.names.get(event.id)} failed: {event.reason}")
        elif isinstance(event, Finished) and not event.already:
            self._line(f"{self.names.get(event.id)}: {board.shown} {board.cells[event.id]}; {board.line()}")
        elif isinstance(event, NotBegun) and event.runs:
            self._line(f"{event.runs} runs were not begun")
        elif board.stage is not None and time.monotonic() - self.last > 20:
            self._line(board.line())

    def _line(self, text: str) -> None:
        _say(text, self.console)
        self.last = time.monotonic()


class QuietScreen(Screen):
    def hear(self, event: Any) -> None:
        """Show nothing."""


def analysis_lines(event: Analysed) -> list[str]:
    """What an analysis of a sequential study decided, what is open, and how long the rest may take."""
    if event.of == 1:
        return []
    groups = [
        f"{word}: {', '.join(arm for arm, said in event.decided.items() if said == word)}"
        for word in dict.fromkeys(event.decided.values())
    ]
    if event.open:
        groups.append(f"open: {', '.join(event.open)}")
    groups += [f"unresolved: {arm} ({why})" for arm, why in event.stopped.items()]
    number = f"analysis {event.number} of {event.of}" if event.number else "analysis outside the plan"
    lines = [f"{number}, {event.pairs} pairs, {100 * event.spent:.1f} % error spent: {'; '.join(groups)}"]
    if event.next_pairs is not None:
        left = "" if event.seconds_left is None else f"; all analyses take at most {duration(event.seconds_left)} more"
        lines.append(f"next analysis after {event.next_pairs} pairs{left}")
    return lines


@contextmanager
def study_screen(metric: str, console: Console | None = None, *, quiet: bool = False) -> Iterator[Screen]:
    """A screen that suits where this runs: a live table in a terminal or notebook, lines elsewhere."""
    from headtohead.display.console import Console as OwnConsole

    console = console or OwnConsole(stderr=True)
    if quiet:
        yield QuietScreen(metric, console)
    elif in_notebook():
        notebook = Notebook()
        screen = Screen(metric, notebook.console)
        with notebook.showing(lambda: screen.board):
            yield screen
    elif console.is_terminal:
        from rich.live import Live

        screen = Screen(metric, console)
        with Live(screen.board, console=console, refresh_per_second=4):
            yield screen
    else:
        yield PlainScreen(metric, console)


def _say(line: str, console: Console) -> None:
    """Print text without markup: square brackets and colons stay."""
    from rich.text import Text

    console.print(Text(line), soft_wrap=True)


# -- verdicts ----------------------------------------------------------------------------------------------------------

COST = 5  # columns of _cells from the right


def show(verdicts: Verdicts, console: Console) -> None:
    """Verdicts and costs in one table if the screen is wide enough, else in two, else arm by arm. No number is cut."""
    from rich.padding import Padding
    from rich.text import Text

    metric, unit = verdicts.metric, UNITS[figure_of(verdicts.metric)]
    points = "," + POINTS if POINTS in change_text(metric, 0.0) else ""
    names = [metric + (f", {unit}" if unit else ""), f"difference{points}", "95 % interval", "verdict", "alone", "p"]
    sequential = verdicts.planned is not None and len(verdicts.planned.analyses) > 1
    names += ["analysis, error", "estimate"] if sequential else []
    names += ["agree", "r", "parameters", "time", "FLOPs"]
    mean = Text(text_of(metric, verdicts.control_mean))
    rows = [(Text(f"{verdicts.control} (control)"), [mean, *[Text("")] * (len(names) - 1)])]
    rows += [(Text(row.arm + _dropped_mark(row)), _cells(row, metric, sequential)) for row in verdicts]
    title = verdicts.question + (f" ({verdicts.title})" if verdicts.title else "")
    console.print(Text(title, style="italic"))
    wide = [slice(None)]
    for parts in (wide, [slice(-COST), slice(-COST, None)], [slice(4), slice(4, -COST), slice(-COST, None)]):
        tables = [_table("arm", names[part], [(arm, cells[part]) for arm, cells in rows], console) for part in parts]
        if None not in tables:
            for table in tables:
                console.print(table)
            break
    else:
        for arm, cells in rows:
            console.print(Text(arm.plain, style="bold"))
            for name, cell in zip(names, cells, strict=True):
                if cell.plain not in ("", "–"):
                    console.print(Padding.indent(Text.assemble(f"{name}: ", cell), 2))
    for line in lines_under(verdicts):
        _say(line, console)


def _dropped_mark(row: ArmVerdict) -> str:
    return " (dropped)" if row.dropped and "(earlier version" not in row.arm else ""


def _without_unit(text: str) -> str:
    """A difference whose unit stands in the head of the table."""
    return text.removesuffix(POINTS)


def _cells(row: ArmVerdict, metric: str, sequential: bool) -> list[Text]:
    from rich.text import Text

    v = row.verdict
    return [
        Text(text_of(metric, row.mean)),
        Text(_without_unit(change_text(metric, v.difference))),
        Text(_without_unit(interval_text(metric, v.low, v.high))),
        Text(word(row), style=STYLES[v.verdict]),
        Text(_without_unit(interval_text(metric, v.alone_low, v.alone_high))),
        Text(p_text(row)),
        *([Text(analysis_text(row)), Text(_without_unit(change_text(metric, v.estimate)))] if sequential else []),
        Text(f"{v.agree}/{v.pairs}"),
        Text(r_text(row)),
        Text(parameters_text(row)),
        Text(time_text(row)),
        Text(share_text(row.extra_flops)),
    ]


def _table(first: str, names: list[str], rows: list[tuple[Text, list[Text]]], console: Console) -> Table | None:
    """The table, or None if it does not fit. Only arm names, column names and text before a bracket may be wrapped,
    because rich would cut other cells."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    longest = max(_width(Text(first)), *(_width(arm) for arm, _ in rows))
    columns = [[Text(name), *(cells[n] for _, cells in rows)] for n, name in enumerate(names)]
    parted = [
        [
            Text(name.replace("/", "/\n").replace(", ", ",\n")),
            *(Text(c.plain.replace(" (", "\n("), c.style) for c in cells),
        ]
        for name, (_, *cells) in zip(names, columns, strict=True)
    ]
    for chosen, room in ((columns, 2 * NAME), (parted, NAME)):
        widths = [max(map(_width, column)) for column in chosen]
        left = console.width - sum(widths) - 2 * len(names)  # two blanks between columns
        if left >= min(longest, room):
            break
    else:
        return None
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold", width=min(longest, left))
    for name, column, width in zip(names, chosen, widths, strict=True):
        table.add_column(column[0], justify="left" if name == "verdict" else "right", width=width)
    for (arm, _), *cells in zip(rows, *(column[1:] for column in chosen), strict=True):
        table.add_row(arm, *cells)
    return table


def _width(text: Text) -> int:
    return max(line.cell_len for line in text.split(allow_blank=True))
