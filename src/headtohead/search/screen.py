"""`h2h search` on the screen: options to a search, progress, and the result."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headtohead.display.training_screen import duration, figures
from headtohead.errors import InputError
from headtohead.outcome.metrics import text_of, value_of
from headtohead.run.events import Failed, Finished, NotBegun, Progress, Started
from headtohead.run.forecast import Forecast
from headtohead.run.searches import SearchRecord, TrialRecord
from headtohead.search import Point, Proposed, Searched, SearchEvent, ranked, value_text
from headtohead.spec import split_values

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 30  # trials on the screen
FRESH_SEEDS = 5  # that the suggested command trains the chosen arm with


def read_over(given: list[str]) -> dict[str, str]:
    """The values of `--over FIELD=VALUES` options, by field."""
    over: dict[str, str] = {}
    for option in given:
        path, equals, values = (part.strip() for part in option.partition("="))
        if not equals or not path or not split_values(values):
            raise InputError(
                f"--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH, such as train.batch=16,32, not '{option}'"
            )
        if path in over:
            raise InputError(f"--over {path} is given twice: give all values in one list, separated by commas")
        over[path] = values
    return over


def typed(command: str, task: Any, options: dict[str, Any]) -> list[str]:
    """The words of a command: h2h train classifier --data sst2."""
    words = ["h2h", command, *([str(task)] if task is not None else [])]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{option}", str(one)]
    return words


def more_seeds(search: SearchRecord, words: Sequence[str]) -> str:
    """The command that trains the chosen arm with other seeds than that of the search. `words` are the command that
    trains the arm without the chosen settings."""
    point = sorted(search.best.settings.items(), key=lambda item: item[0].count("."))  # a part before its own settings
    settings = [word for path, value in point for word in ("--set", f"{path}={value_text(value)}")]
    return shlex.join([*words, *settings, "--seed", str(search.seed + 1), "--seeds", str(FRESH_SEEDS)])


# -- progress ----------------------------------------------------------------------------------------------------------


@dataclass
class Board:
    """The progress of the trials."""

    metric: str = ""
    of: int = 0
    names: dict[str, str] = field(default_factory=dict)  # run → its trial
    share: dict[str, float] = field(default_factory=dict)  # run → how much of it is done
    before: float = 0.0  # shares that were done when this call began
    lost: int = 0  # trials without a run
    begun: float = field(default_factory=time.monotonic)

    def hear(self, event: SearchEvent) -> list[str]:
        """The lines to print for an event."""
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
            return [f"{event.runs} trials were not started"]
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
            result = event.record.require_result()
            if not result.is_complete:
                return result.ended
            return f"{self.metric} {text_of(self.metric, value_of(result, self.metric))}"
        except InputError:
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
    """Show the progress of a search. Returns its end, a forecast if that was asked for, or None if it was stopped."""
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


def forecast_text(forecast: Forecast) -> str:
    if not forecast.runs:
        return "every trial is in the store: nothing to train"
    trials = f"{forecast.runs} trial{'s' if forecast.runs > 1 else ''} to train, {forecast.jobs} at a time"
    seconds = forecast.seconds
    return trials + ("" if seconds is None else f": about {duration(seconds)} if the machine has nothing else to do")


def short_text(point: Point) -> str:
    """batch=16, lr=0.001"""
    named = zip(short_names(list(point)), point.values(), strict=True)
    return ", ".join(f"{name}={value_text(value)}" for name, value in named)


def short_names(paths: list[str]) -> list[str]:
    """The last part of each path; more parts where they are needed to tell paths apart."""

    def last(path: str, parts: int) -> str:
        return ".".join(path.split(".")[-parts:])

    most = max(path.count(".") + 1 for path in paths)
    enough = next(n for n in range(1, most + 1) if len({last(path, n) for path in paths}) == len(paths))
    return [last(path, enough) for path in paths]


# -- result ------------------------------------------------------------------------------------------------------------


def show(search: SearchRecord, folder: str, more: str, console: Console) -> None:
    """Print the trials, the best first, then the chosen one with its test values and what they mean."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    trials = ranked(search.trials, search.metric)
    cells = [_cells(rank, trial, search.metric) for rank, trial in enumerate(trials[:SHOWN], 1)]
    names = ["rank", *short_names(list(search.over)), search.metric, "seconds", "run"]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in names:
        table.add_column(Text(name), justify="left" if name == "run" else "right", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row), style="bold" if row is cells[0] else "")
    if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
        console.print(table)
    else:  # trial by trial, so that no value is cut off
        for row in cells:
            console.print(Text(", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True) if cell)))
    for line in lines_under(search, trials, folder, more):
        console.print(Text(line), soft_wrap=True)


def _cells(rank: int, trial: TrialRecord, metric: str) -> list[str]:
    return [
        "–" if trial.value is None else str(rank),
        *map(value_text, trial.settings.values()),
        trial.status if trial.value is None else text_of(metric, trial.value),
        "" if trial.seconds is None else f"{trial.seconds:.1f}",
        (trial.run or "")[:8],
    ]


def lines_under(search: SearchRecord, trials: list[TrialRecord], folder: str, more: str) -> list[str]:
    """The lines below the table; `trials` are ranked."""
    best, metric, tests = search.best, search.metric, figures(search.test)
    lines = [f"… and {len(trials) - SHOWN:,} trials more; --json has them all"] if len(trials) > SHOWN else []
    failed = {trial.why: trial for trial in trials if trial.status == "failed"}
    lines += [f"failed at {short_text(trial.settings)}: {why}" for why, trial in list(failed.items())[:3]]
    value = "" if best.value is None else text_of(metric, best.value)
    lines.append(f"chosen: {short_text(best.settings)}, {metric} {value} (run {(best.run or '')[:8]})")
    if search.tied:
        lines.append(f"{search.tied} more had the same value: the first that was tried is chosen")
    lines.append(f"its test values, evaluated once and only for it: {tests}" if tests else "there is no test set")
    lines += [f"warning: {warning}" for warning in search.warnings]
    lines.append(
        f"the best of {len(trials)} looks better on the validation set than it is, because it was chosen by that value"
        + ("; the test values do not have this problem" if tests else "")
    )
    for path in () if search.tied else search.edges:
        end = f"{path}={value_text(best.settings[path])}"
        lines.append(f"{end} is the smallest or largest that was tried: a better one may lie beyond")
    return [*lines, f"one seed is one random draw; train the choice with others: {more}", f"picture: {folder}/grid.png"]
