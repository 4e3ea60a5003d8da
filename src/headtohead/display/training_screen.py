"""Runs on the screen: a bar with loss, speed and time left on a terminal, plain lines elsewhere, results as a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headtohead.display.notebook import Notebook, in_notebook
from headtohead.run.events import Evaluated, Event, Finished, NotBegun, Progress, ShownWarnings, Started, Stopped
from headtohead.run.store import Record

if TYPE_CHECKING:
    from rich.console import Console

    from headtohead.run.forecast import Forecast


@dataclass
class RunScreen:
    """Shows the events of runs; `hear` is what `train_runs` listens with."""

    console: Console
    several: bool = False  # more than one run: lines carry the run's id
    last: float = field(default_factory=time.monotonic)  # when the last line was printed
    warned: ShownWarnings = field(default_factory=ShownWarnings)

    def hear(self, event: Event) -> None:
        """Print a line for every evaluation, and one every ten seconds between them, so that a log stays short."""
        name = f"{event.id[:8]} " if self.several else ""
        if isinstance(event, Started):
            for line in _opening(event, self.warned):
                self._line(line)
        elif isinstance(event, Evaluated):
            self._line(f"{name}step {event.done}: {figures(event.values)}")
        elif isinstance(event, Progress) and time.monotonic() - self.last > 10:
            self._line(f"{name}step {event.done} of {event.steps}: {_said(event)}")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)
        self.last = time.monotonic()


@dataclass
class BarScreen(RunScreen):
    """A bar per run with loss, speed and time left."""

    bars: Any = None
    tasks: dict[str, Any] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        if isinstance(event, Started):
            for line in _opening(event, self.warned):
                self.bars.console.print(line, markup=False)
            self.tasks[event.id] = self.bars.add_task(event.id[:8], total=event.steps, completed=event.done, said="")
        elif isinstance(event, Progress):
            self.bars.update(self.tasks[event.id], completed=event.done, said=_said(event))
        elif isinstance(event, Evaluated):
            self.bars.console.print(f"{event.id[:8]} step {event.done}: {figures(event.values)}", markup=False)


class QuietRunScreen(RunScreen):
    def hear(self, event: Event) -> None:
        """Show nothing."""


@contextmanager
def run_screen(runs: int = 1, console: Console | None = None, *, quiet: bool = False) -> Iterator[RunScreen]:
    """A screen that suits where this runs: bars in a terminal or notebook, lines elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from headtohead.display.console import Console as OwnConsole

    console = console or OwnConsole(stderr=True)
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    ]
    if quiet:
        yield QuietRunScreen(console)
    elif in_notebook():
        notebook = Notebook()
        bars = Bars(*columns, console=notebook.console, auto_refresh=False)
        with notebook.showing(bars.get_renderable):
            yield BarScreen(notebook.console, bars=bars)
    elif console.is_terminal:
        with Bars(*columns, console=console) as bars:
            yield BarScreen(console, bars=bars)
    else:
        yield RunScreen(console, several=runs > 1)


def _opening(event: Started, warned: ShownWarnings) -> list[str]:
    sets = event.facts["sets"]
    sizes = ", ".join(f"{name} {_size(s)}" for name, s in sets.items())
    lines = [
        f"run {event.id}: {event.parameters:,} parameters, {event.steps:,} steps",
        f"data: vocabulary {event.facts['vocabulary']:,}, {sizes}",
        *(f"warning: {warning}" for warning in (*warned.new(event.arm_warnings), *event.damaged)),
    ]
    return [*lines, f"going on at step {event.done:,}"] if event.done else lines


def _size(facts: dict[str, Any]) -> str:
    """The size of a set, from its facts."""
    if "examples" in facts:
        return "new examples in every step" if facts["examples"] is None else f"{facts['examples']:,} examples"
    return f"{facts['texts']:,} texts" if "texts" in facts else f"{facts['tokens']:,} tokens"


def _said(event: Progress) -> str:
    return f"loss {event.loss:.3f}, {event.tokens_per_second:,.0f} tokens/s, {duration(event.seconds_left)} left"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def forecast_line(forecast: Forecast) -> str:
    """A forecast in one line: of one run, and of all."""
    each, runs, jobs = forecast.each, forecast.runs, forecast.jobs
    if not runs:
        return "forecast: everything is trained already"
    if forecast.seconds is None:
        return f"forecast: {runs} runs, {jobs} at a time; none of them could be timed"
    if each is None:
        return f"forecast: {duration(forecast.seconds)} for {runs} runs, {jobs} at a time"
    step = f"{each.steps:,} steps of {1000 * each.step_seconds:.0f} ms, evaluations {duration(each.evaluation_seconds)}"
    whole = f"; {runs} runs, {jobs} at a time: {duration(forecast.seconds)}" if runs > 1 else ""
    return f"forecast: {duration(each.seconds)} per run ({step}){whole}"


FIGURES = {"accuracy": "{:.1%}", "perplexity": "{:.2f}", "loss": "{:.3f}", "bits_per_byte": "{:.3f} bits/byte"}


def figures(values: dict[str, Any]) -> str:
    """The main figure of each set: accuracy, else perplexity."""
    sets = dict.fromkeys(key.partition("/")[0] for key in values if "/" in key)
    said = []
    for name in sets:
        for figure in ("accuracy", "perplexity"):
            value = values.get(f"{name}/{figure}")
            if value is not None:
                said.append(f"{name} {figure} " + FIGURES[figure].format(value))
                break
    return ", ".join(said)


def show_result(record: Record, console: Console) -> None:
    """The results of a finished run, set by set."""
    from rich.table import Table
    from rich.text import Text

    result = record.result
    assert result is not None
    if not result.is_complete:
        ended = f"{result.ended} (seed {record.spec['seed']})"
        console.print(f"run {record.id} {ended}: lower the learning rate, or clip gradients", markup=False)
        return
    values = result.values
    names = list(dict.fromkeys(key.partition("/")[0] for key in values))
    if not names:
        console.print(f"run {record.id} is complete; no set was measured", markup=False)
        return
    measured = ("accuracy", "exact_match", "macro_f1", "loss", "perplexity", "bits_per_byte")
    shown = [f for f in measured if f"{names[0]}/{f}" in values]
    title = f"Run {record.id}, seed {record.spec['seed']}"
    table = Table("set", *(f.replace("_", " ") for f in shown), title=title, title_justify="left")
    for name in names:
        cells = (values[f"{name}/{f}"] for f in shown)
        table.add_row(
            Text(name),
            *(
                f"{c:.1%}" if f in ("accuracy", "exact_match") else f"{c:.4g}"
                for f, c in zip(shown, cells, strict=True)
            ),
        )
    console.print(table)
    if limits := _limits(result.data):
        console.print(limits, markup=False, soft_wrap=True)
    confusion = values.get("test/confusion")
    if confusion:
        says = result.labels
        table = Table("truth \\ predicted", title="Test set", title_justify="left")
        for name in says:
            table.add_column(Text(name))
        for name, row in zip(says, confusion, strict=True):
            table.add_row(Text(name), *map(str, row))
        console.print(table)
    best, along = result.best, record.spec["arm"]["evaluate"]["along"]
    if best:
        said = f"best evaluation during training: {best.figure} {best.value:.4g} at step {best.step}"
        sample = f" (evaluations during training use up to {along} samples; this table uses all)" if along else ""
        console.print(said + sample, markup=False, soft_wrap=True)
    times = record.times
    if times.seconds is not None and times.step_ms is not None:
        spent = f"trained in {duration(times.seconds)}, {times.step_ms:.1f} ms a step"
        console.print(f"{spent}; {record.folder}", markup=False, soft_wrap=True)


def _limits(data: dict[str, Any]) -> str:
    """The best possible result on generated examples, and the result of guessing."""
    if "guess" not in data:
        return ""
    best, guess = data["sets"]["test"]["optimum"], data["guess"]
    return (
        f"best possible: accuracy {best['accuracy']:.1%}, loss {best['loss']:.4g}; "
        f"guessing: {guess['accuracy']:.1%}, {guess['loss']:.4g}"
    )


def show_end(ended: list[Event], console: Console, seeds: dict[str, int]) -> None:
    warned = ShownWarnings()
    for event in ended:
        if isinstance(event, Finished):
            if event.already:
                console.print(f"run {event.id} is in the store already", markup=False)
                for warning in warned.new(event.record.result.warnings if event.record.result else ()):
                    console.print(f"warning: {warning}", markup=False, soft_wrap=not console.is_terminal)
            show_result(event.record, console)
        elif isinstance(event, NotBegun):
            console.print(f"{event.runs} runs were not begun: give the same command again", markup=False)
        elif isinstance(event, Stopped):
            console.print(
                f"run {event.id} (seed {seeds[event.id]}) stopped at step {event.done:,} of {event.steps:,}, "
                f"everything is saved; continue with: h2h train --resume {event.id[:8]}",
                markup=False,
                soft_wrap=True,
            )
    over_seeds = _mean_and_sd(ended)
    if over_seeds:
        console.print(over_seeds, markup=False, soft_wrap=True)


def _mean_and_sd(ended: list[Event]) -> str:
    """The main figure of each held-out set, over the completed seeds."""
    records = [event.record.result for event in ended if isinstance(event, Finished)]
    values = [r.values for r in records if r and r.is_complete]
    if len(values) < 2:
        return ""
    said = []
    for name in dict.fromkeys(key.partition("/")[0] for key in values[0]):
        figure = next((f for f in ("accuracy", "perplexity") if f"{name}/{f}" in values[0]), None)
        if figure is None or name == "train":
            continue
        measured = [v[f"{name}/{figure}"] for v in values]
        mean, sd = statistics.mean(measured), statistics.stdev(measured)
        said.append(f"{name} {figure} {FIGURES[figure].format(mean)} (sd {FIGURES[figure].format(sd)})")
    return f"mean over {len(values)} seeds: {', '.join(said)}" if said else ""
