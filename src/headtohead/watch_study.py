"""A study on the screen: a live table of arms × seeds on a terminal, plain lines elsewhere, then the verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headtohead.carry import Carried, Stage, StudyEvent
from headtohead.errors import InputError
from headtohead.metrics import UNITS, figure_of, text_of, value_of
from headtohead.outcome import ArmVerdict, Verdicts
from headtohead.runs import Failed, Finished, NotBegun, Progress, Started, Stopped, Waiting
from headtohead.screen import duration
from headtohead.wording import interval_text, lines_under, share_text, word

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {"better": "bold green", "worse": "bold red", "equivalent": "bold cyan", "unresolved": "yellow"}


@dataclass
class Board:
    """What is known of every run of the stage."""

    metric: str
    stage: Stage | None = None
    said: dict[str, str] = field(default_factory=dict)  # run → what its cell says
    share: dict[str, float] = field(default_factory=dict)  # run → how much of it is done
    fresh: set[str] = field(default_factory=set)  # trained in this call, at least in part
    begun: float = field(default_factory=time.monotonic)
    before: float = 0.0  # shares that were there when this call began

    def hear(self, event: StudyEvent) -> None:
        if isinstance(event, Stage):
            self.stage, self.begun, self.before = event, time.monotonic(), 0.0
            self.said, self.share, self.fresh = {}, {}, set()
        elif isinstance(event, Started):
            self.fresh.add(event.id)
            self.before += event.done / event.steps
            self.share[event.id] = event.done / event.steps
            self.said[event.id] = f"{event.done / event.steps:.0%}"
        elif isinstance(event, Progress):
            self.share[event.id] = event.done / event.steps
            self.said[event.id] = f"{event.done / event.steps:.0%}"
        elif isinstance(event, Finished):
            self.share[event.id] = 1.0
            self.before += event.already
            self.said[event.id] = self._value(event)
        elif isinstance(event, Failed):
            self.share[event.id] = 1.0
            self.said[event.id] = "failed"
        elif isinstance(event, Waiting):
            self.said[event.id] = "elsewhere"
        elif isinstance(event, Stopped):
            self.said[event.id] = "stopped"

    def _value(self, event: Finished) -> str:
        result = event.record.result or {}
        if result.get("status") != "complete":
            return "diverged"
        metric = self.metric
        if self.stage and self.stage.title == "tuning":
            metric = f"validation/{figure_of(metric)}"
        try:
            return text_of(metric, value_of(result, metric))
        except InputError:
            return "done"

    @property
    def runs(self) -> int:
        return len({cell.id for cell in self.stage.cells}) if self.stage else 0

    @property
    def done(self) -> int:
        return sum(share >= 1 for share in self.share.values())

    @property
    def left(self) -> float | None:
        """Seconds, by how much of the work this call has done."""
        did, spent = sum(self.share.values()) - self.before, time.monotonic() - self.begun
        return spent / did * (self.runs - sum(self.share.values())) if did > 0.05 and spent > 2 else None

    def line(self) -> str:
        left = "" if self.left is None or self.done == self.runs else f", about {duration(self.left)} left"
        what = "tuning runs" if self.stage and self.stage.title == "tuning" else "runs"
        return f"{self.done} of {self.runs} {what}{left}"

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self.stage is None:
            return Text("reading the data …")
        seeds = list(dict.fromkeys(cell.seed for cell in self.stage.cells))
        table = Table("", *(f"seed {seed}" for seed in seeds), title_justify="left")
        arms: dict[str, dict[int, str]] = {}
        for cell in self.stage.cells:
            arms.setdefault(cell.arm, {})[cell.seed] = cell.id
        for arm, runs in arms.items():
            table.add_row(Text(arm), *(self._cell(runs.get(seed)) for seed in seeds))
        return Group(table, Text(self.line()))

    def _cell(self, run: str | None) -> Any:
        from rich.text import Text

        said = self.said.get(run or "", "·")
        style = "red" if said in ("failed", "diverged") else "cyan" if said.endswith("%") and run in self.fresh else ""
        return Text(said, style=style, justify="right")


def follow(events: Iterable[StudyEvent], console: Console, metric: str) -> tuple[str | None, int]:
    """Show a study as it goes; returns its folder, nothing if it was stopped, and how many runs were trained."""
    board = Board(metric)
    folder = None
    if console.is_terminal:
        from rich.live import Live

        with Live(board, console=console, refresh_per_second=4):
            for event in events:
                board.hear(event)
                folder = event.folder if isinstance(event, Carried) else folder
        return folder, len(board.fresh)
    last = time.monotonic()
    names: dict[str, str] = {}
    for event in events:
        board.hear(event)
        if isinstance(event, Stage):
            names = {cell.id: f"{cell.arm}, seed {cell.seed}" for cell in event.cells}
            console.print(f"{board.runs} {'tuning runs' if event.title == 'tuning' else 'runs'}", markup=False)
        elif isinstance(event, Carried):
            folder = event.folder
        elif isinstance(event, Failed):
            console.print(f"{names.get(event.id)} failed: {event.reason}", markup=False, soft_wrap=True)
        elif isinstance(event, Finished) and not event.already:
            said = f"{names.get(event.id)}: {metric} {board.said[event.id]}; {board.line()}"
            console.print(said, markup=False, soft_wrap=True)
            last = time.monotonic()
        elif isinstance(event, NotBegun):
            console.print(f"{event.runs} runs were not begun", markup=False)
        elif time.monotonic() - last > 20:
            console.print(board.line(), markup=False)
            last = time.monotonic()
    return folder, len(board.fresh)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def show(verdicts: Verdicts, console: Console) -> None:
    """Verdict and cost in one table where the screen is wide enough, else one below the other."""
    from rich.table import Table
    from rich.text import Text

    metric, unit = verdicts.metric, UNITS[figure_of(verdicts.metric)]
    title = verdicts.question + (f" ({verdicts.title})" if verdicts.title else "")
    said = [metric + (f", {unit}" if unit else ""), "difference", "95 % interval", "p", "verdict"]
    cost = ["agree", "r", "parameters", "time", "FLOPs"]
    wide = console.width >= 60 + max(len(row.arm) for row in verdicts) + sum(map(len, [*said, *cost]))
    for columns, of_control, first in (
        [([*said, *cost], [text_of(metric, verdicts.control_mean)], 0)]
        if wide
        else [(said, [text_of(metric, verdicts.control_mean)], 0), (cost, [], len(said))]
    ):
        table = Table(title=title if first == 0 else None, title_justify="left", pad_edge=False)
        table.add_column("arm", overflow="fold")
        for name in columns:
            table.add_column(name, justify="left" if name == "verdict" else "right")
        empty = [""] * (len(columns) - len(of_control))
        table.add_row(Text(f"{verdicts.control} (control)"), *of_control, *empty)
        for row in verdicts:
            cells = _cells(row, metric)[first : first + len(columns)]
            table.add_row(Text(row.arm + (" (dropped)" if row.dropped else "")), *cells)
        console.print(table)
    for line in lines_under(verdicts):
        console.print(line, markup=False, soft_wrap=True)


def _cells(row: ArmVerdict, metric: str) -> list[Any]:
    from rich.text import Text

    v = row.verdict
    return [
        text_of(metric, row.mean),
        text_of(metric, v.difference, signed=True),
        interval_text(metric, v.low, v.high),
        f"{v.p:.3f}" if v.pairs else "–",
        Text(word(row), style=STYLES[v.verdict]),
        f"{v.agree}/{v.pairs}",
        "–" if v.correlation is None else f"{v.correlation:.2f}",
        "–" if row.extra_parameters is None else f"{row.extra_parameters:+,}".replace("-", "−"),
        share_text(row.extra_time),
        share_text(row.extra_flops),
    ]
