"""What `h2h search` does, without its options: texts to a search, a search on the screen."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headtohead.errors import InputError
from headtohead.metrics import text_of, value_of
from headtohead.runs import Failed, Finished, NotBegun, Progress, Started
from headtohead.screen import duration, figures
from headtohead.search import Forecast, Point, Proposed, Searched, SearchEvent, ranked, value_text
from headtohead.study import split_values

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 30  # trials on the screen
FRESH_SEEDS = 5  # to train the chosen arm with


def read_over(given: list[str]) -> dict[str, str]:
    """FIELD=VALUES texts by field."""
    over: dict[str, str] = {}
    for said in given:
        path, equals, values = (part.strip() for part in said.partition("="))
        if not equals or not path or not split_values(values):
            raise InputError(
                f"--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH, such as train.batch=16,32, not '{said}'"
            )
        if path in over:
            raise InputError(f"--over {path} is given twice: name all its values in one, parted by commas")
        over[path] = values
    return over


def typed(command: str, task: Any, options: dict[str, Any]) -> list[str]:
    """The words of a command: h2h train classifier --data sst2."""
    words = ["h2h", command, *([str(task)] if task is not None else [])]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{option}", str(one)]
    return words


def more_seeds(said: dict[str, Any], words: Sequence[str]) -> str:
    """The command that trains the chosen arm anew; `words` train the arm that was searched from. Its seeds are others
    than the one that it was chosen with."""
    chosen = next(trial for trial in said["trials"] if trial["number"] == said["chosen"])
    point = sorted(chosen["settings"].items(), key=lambda item: item[0].count("."))  # a part before its own settings
    settings = [word for path, value in point for word in ("--set", f"{path}={value_text(value)}")]
    return shlex.join([*words, *settings, "--seed", str(said["seed"] + 1), "--seeds", str(FRESH_SEEDS)])


# -- on the way --------------------------------------------------------------------------------------------------------


@dataclass
class Board:
    """What is known of the trials so far."""

    metric: str = ""
    of: int = 0
    names: dict[str, str] = field(default_factory=dict)  # run → its trial
    share: dict[str, float] = field(default_factory=dict)  # run → how much of it is done
    before: float = 0.0  # shares that were there when this call began
    lost: int = 0  # trials without a run
    begun: float = field(default_factory=time.monotonic)

    def hear(self, event: SearchEvent) -> list[str]:
        """The lines that an event is worth."""
        if isinstance(event, Forecast):
            self.begun = time.monotonic()
            return [forecast_text(event)]
        if isinstance(event, Proposed):
            return self._proposed(event)
        if isinstance(event, Started | Progress):
            self.share[event.id] = event.done / event.steps
            self.before += self.share[event.id] if isinstance(event, Started) else 0
        elif isinstance(event, Finished):
            self.share[event.id] = 1.0
            self.before += event.already
            return [] if event.already else [f"{self.names[event.id]}: {self._figure(event)}; {self.line()}"]
        elif isinstance(event, Failed):
            self.share[event.id] = 1.0
            return [f"{self.names[event.id]} failed: {event.reason}"]
        elif isinstance(event, NotBegun) and event.runs:
            return [f"{event.runs} trials were not begun"]
        return []

    def _proposed(self, event: Proposed) -> list[str]:
        self.metric, self.of = event.metric, event.of
        lines = []
        for trial in event.trials:
            name = f"trial {trial.number + 1} of {self.of}: {short_text(trial.point)}"
            if trial.spec is None:
                lines.append(f"{name} failed: {trial.why}")
                self.lost += 1
            else:
                self.names[trial.spec.id] = name
        return lines

    def _figure(self, event: Finished) -> str:
        try:
            result = event.record.result or {}
            if result["status"] != "complete":
                return str(result["ended"])
            return f"{self.metric} {text_of(self.metric, value_of(result, self.metric))}"
        except (InputError, KeyError):
            return "its result cannot be read"

    @property
    def done(self) -> float:
        return sum(self.share.values()) + self.lost

    def line(self) -> str:
        did, spent = self.done - self.lost - self.before, time.monotonic() - self.begun
        left = f", about {duration(spent / did * (self.of - self.done))} left" if did > 0.05 and spent > 2 else ""
        finished = sum(share >= 1 for share in self.share.values()) + self.lost
        return f"{finished} of {self.of} trials" + (left if finished < self.of else "")


def follow(events: Iterable[SearchEvent], console: Console) -> Searched | Forecast | None:
    """Show a search as it goes; returns its end, or a forecast if that was all, or nothing if it was stopped."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    board, last, end = Board(), time.monotonic(), None
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("reading the data", total=None)
        for event in events:
            end = event if isinstance(event, Searched | Forecast) else None
            lines = board.hear(event)
            if not lines and not console.is_terminal and time.monotonic() - last > 20:
                lines = [board.line()]
            for line in lines:
                bar.console.print(Text(line), soft_wrap=True)
                last = time.monotonic()
            if board.of:
                bar.update(task, total=board.of, completed=board.done, description=board.line())
    return end


def forecast_text(said: Forecast) -> str:
    if not said.trials:
        return "every trial is in the store: nothing is left to train"
    one = f"{said.trials} trial{'s' if said.trials > 1 else ''} to train, {said.jobs} at a time"
    return one + ("" if said.seconds is None else f": about {duration(said.seconds)} on a machine at rest")


def short_text(point: Point) -> str:
    """batch=16, lr=0.001"""
    named = zip(short_names(list(point)), point.values(), strict=True)
    return ", ".join(f"{name}={value_text(value)}" for name, value in named)


def short_names(paths: list[str]) -> list[str]:
    """The last part of each path, or as many as tell them apart."""

    def last(path: str, parts: int) -> str:
        return ".".join(path.split(".")[-parts:])

    most = max(path.count(".") + 1 for path in paths)
    enough = next(n for n in range(1, most + 1) if len({last(path, n) for path in paths}) == len(paths))
    return [last(path, enough) for path in paths]


# -- at the end --------------------------------------------------------------------------------------------------------


def show(said: dict[str, Any], folder: str, more: str, console: Console) -> None:
    """The trials, the best first; the chosen one with its test figures, and how far to believe them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = ranked(said["trials"], said["metric"])
    cells = [_cells(rank, row, said["metric"]) for rank, row in enumerate(rows[:SHOWN], 1)]
    names = ["rank", *short_names(list(said["over"])), said["metric"], "seconds", "run"]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in names:
        table.add_column(Text(name), justify="left" if name == "run" else "right", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row), style="bold" if row is cells[0] else "")
    if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
        console.print(table)
    else:  # trial by trial: no figure is ever cut
        for row in cells:
            console.print(Text(", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True) if cell)))
    for line in lines_under(said, rows, folder, more):
        console.print(Text(line), soft_wrap=True)


def _cells(rank: int, row: dict[str, Any], metric: str) -> list[str]:
    there = row["value"] is not None
    figure = text_of(metric, row["value"]) if there else row["status"]
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
    return [
        str(rank) if there else "–",
        *map(value_text, row["settings"].values()),
        figure,
        seconds,
        (row["run"] or "")[:8],
    ]


def lines_under(said: dict[str, Any], rows: list[dict[str, Any]], folder: str, more: str) -> list[str]:
    best, metric, tests = rows[0], said["metric"], figures(said["test"])
    lines = [f"… and {len(rows) - SHOWN:,} trials more; --json has them all"] if len(rows) > SHOWN else []
    failed = {row["why"]: row for row in rows if row["status"] == "failed"}
    lines += [f"failed at {short_text(row['settings'])}: {why}" for why, row in list(failed.items())[:3]]
    at, figure = short_text(best["settings"]), text_of(metric, best["value"])
    lines.append(f"chosen: {at}, {metric} {figure} (run {best['run'][:8]})")
    if said["tied"]:
        lines.append(f"{said['tied']} more had the same figure: the first that was tried is taken")
    lines.append(f"its test figures, read once and for it alone: {tests}" if tests else "there is no test set to read")
    lines += [f"warning: {warning}" for warning in said["warnings"]]
    lines.append(
        f"the best of {len(rows)} looks better on the validation set than it is: it was chosen for that figure"
        + (", and not for those of the test" if tests else "")
    )
    for path in () if said["tied"] else said["edges"]:
        end = f"{path}={value_text(best['settings'][path])}"
        lines.append(f"{end} is the smallest or largest that was tried: a better one may lie beyond")
    return [*lines, f"one seed is one draw; train it with others: {more}", f"picture: {folder}/grid.png"]
