"""Runs on the screen: a bar with loss, speed and time left on a terminal, plain lines elsewhere, results as a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headtohead.runs import Event, Finished, Looked, NotBegun, Progress, Started, Stopped
from headtohead.store import Record

if TYPE_CHECKING:
    from rich.console import Console


def follow(events: Iterable[Event], console: Console, runs: int) -> list[Event]:
    """Show events as they come; returns how each run ended."""
    return _bars(events, console) if console.is_terminal else _lines(events, console, runs)


def _bars(events: Iterable[Event], console: Console) -> list[Event]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    ]
    ended: list[Event] = []
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}
        for event in events:
            if isinstance(event, Started):
                for line in _opening(event):
                    bars.console.print(line, markup=False)
                tasks[event.id] = bars.add_task(event.id[:8], total=event.steps, completed=event.done, said="")
            elif isinstance(event, Progress):
                bars.update(tasks[event.id], completed=event.done, said=_said(event))
            elif isinstance(event, Looked):
                bars.console.print(f"{event.id[:8]} step {event.done}: {figures(event.values)}", markup=False)
            else:
                ended.append(event)
    return ended


def _lines(events: Iterable[Event], console: Console, runs: int) -> list[Event]:
    """A line for every look, and one every ten seconds between them, so that a log stays short."""
    ended: list[Event] = []
    last = time.monotonic()
    for event in events:
        name = f"{event.id[:8]} " if runs > 1 else ""
        if isinstance(event, Started):
            for line in _opening(event):
                console.print(line, markup=False, soft_wrap=True)
        elif isinstance(event, Looked):
            console.print(f"{name}step {event.done}: {figures(event.values)}", markup=False, soft_wrap=True)
            last = time.monotonic()
        elif isinstance(event, Progress):
            if time.monotonic() - last > 10:
                console.print(f"{name}step {event.done} of {event.steps}: {_said(event)}", markup=False, soft_wrap=True)
                last = time.monotonic()
        else:
            ended.append(event)
    return ended


def _opening(event: Started) -> list[str]:
    sets = event.facts["sets"]
    sizes = ", ".join(
        f"{name} {s['texts']:,} texts" if "texts" in s else f"{name} {s['tokens']:,} tokens" for name, s in sets.items()
    )
    lines = [
        f"run {event.id}: {event.parameters:,} parameters, {event.steps:,} steps",
        f"data: vocabulary {event.facts['vocabulary']:,}, {sizes}",
        *(f"warning: {warning}" for warning in event.warnings),
    ]
    return [*lines, f"going on at step {event.done:,}"] if event.done else lines


def _said(event: Progress) -> str:
    return f"loss {event.loss:.3f}, {event.tokens_per_second:,.0f} tokens/s, {duration(event.seconds_left)} left"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


FIGURES = {"accuracy": "{:.1%}", "perplexity": "{:.2f}", "loss": "{:.3f}", "bits_per_byte": "{:.3f} bits/byte"}


def figures(values: dict[str, Any]) -> str:
    """The figure that matters of each set: accuracy, else perplexity."""
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
    """A finished run: what came of it, set by set."""
    from rich.table import Table
    from rich.text import Text

    result = record.result
    assert result is not None
    if result["status"] != "complete":
        ended = f"{result['ended']} (seed {record.spec['seed']})"
        console.print(f"run {record.id} {ended}: lower the learning rate, or clip gradients", markup=False)
        return
    values = result["values"]
    names = list(dict.fromkeys(key.partition("/")[0] for key in values))
    if not names:
        console.print(f"run {record.id} is complete; no set was measured", markup=False)
        return
    shown = [f for f in ("accuracy", "macro_f1", "loss", "perplexity", "bits_per_byte") if f"{names[0]}/{f}" in values]
    title = f"Run {record.id}, seed {record.spec['seed']}"
    table = Table("set", *(f.replace("_", " ") for f in shown), title=title, title_justify="left")
    for name in names:
        cells = (values[f"{name}/{f}"] for f in shown)
        table.add_row(
            Text(name), *(f"{c:.1%}" if f == "accuracy" else f"{c:.4g}" for f, c in zip(shown, cells, strict=True))
        )
    console.print(table)
    confusion = values.get("test/confusion")
    if confusion:
        says = result["data"]["says"]
        table = Table("truth \\ predicted", title="Test set", title_justify="left")
        for name in says:
            table.add_column(Text(name))
        for name, row in zip(says, confusion, strict=True):
            table.add_row(Text(name), *map(str, row))
        console.print(table)
    best, along = result["best"], record.spec["arm"]["evaluate"]["along"]
    if best:
        said = f"best of the looks on the way: {best['figure']} {best['value']:.4g} at step {best['step']}"
        sample = f" (a look reads at most {along} windows or texts of a set, the table all)" if along else ""
        console.print(said + sample, markup=False, soft_wrap=True)
    times = record.times
    if times:
        spent = f"trained in {duration(times['seconds'])}, {times['step_ms']:.1f} ms a step"
        console.print(f"{spent}; {record.folder}", markup=False, soft_wrap=True)


def show_end(ended: list[Event], console: Console, seeds: dict[str, int]) -> None:
    for event in ended:
        if isinstance(event, Finished):
            if event.already:
                console.print(f"run {event.id} is in the store already", markup=False)
            show_result(event.record, console)
        elif isinstance(event, NotBegun):
            console.print(f"{event.runs} runs were not begun: give the same command again", markup=False)
        elif isinstance(event, Stopped):
            console.print(
                f"run {event.id} (seed {seeds[event.id]}) stopped at step {event.done:,} of {event.steps:,}, "
                f"everything is saved; go on with: h2h train --resume {event.id[:8]}",
                markup=False,
                soft_wrap=True,
            )
    over_seeds = _mean_and_sd(ended)
    if over_seeds:
        console.print(over_seeds, markup=False, soft_wrap=True)


def _mean_and_sd(ended: list[Event]) -> str:
    """The figure that matters of each held-out set, over the seeds that were trained to their end."""
    records = [event.record.result for event in ended if isinstance(event, Finished)]
    values = [r["values"] for r in records if r and r["status"] == "complete"]
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
