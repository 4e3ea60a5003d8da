"""Attention maps, their evolution and the effects of heads on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from headtohead.interpret.evolution import MEASURES, Evolution
from headtohead.interpret.maps import Maps
from headtohead.interpret.summary import summary
from headtohead.interpret.surgery import Surgery

if TYPE_CHECKING:
    from rich.console import Console

MARKS = {"proved": ("✓", "green"), "broken": ("✗", "bold red"), "not claimed": ("–", "dim")}


def show_maps(runs: Sequence[Maps], console: Console) -> None:
    """Print each model's prediction, a row for each head, and the checks of the maps."""
    for maps in runs:
        step = "" if maps.step is None else f", step {maps.step:,}"
        console.print(f"{maps.name}{step}", markup=False)
        kind = {"lm": "next token: ", "classifier": "label: "}.get(maps.task, "")
        answers = ", ".join(f"{name!r} {p:.3f}" for name, p in maps.answers)
        console.print(f"{kind}{answers or maps.answer()}", markup=False)
        console.print(_heads(maps, console.width))
        for line in maps.silences:
            console.print(f"– {line}", style="dim", markup=False, soft_wrap=True)
        for check in maps.checks:
            mark, style = MARKS[check.verdict]
            console.print(Text.assemble((f"{mark} ", style), (f"{check.name}: ", "bold"), check.says), soft_wrap=True)
        if maps.unknown:
            console.print(f"{maps.unknown} of {maps.real} tokens are unknown to the vocabulary", markup=False)


def _heads(maps: Maps, width: int) -> Table:
    """One row for each head: its measures and its strongest weight on another token."""
    measures = ("entropy", "distance", "self", "previous", "first") if width >= 76 else ("entropy",)
    table = Table("head", *measures, "strongest")
    for row in summary(maps):
        values = ("–" if math.isnan(row[name]) else f"{row[name]:.2f}" for name in measures)
        table.add_row(f"{row['layer']}.{row['head']}", *values, Text(row["strongest"]))
    return table


def show_evolution(found: Evolution, console: Console) -> None:
    """Print each measure at the first and the last step, with the interval of its change over seeds."""
    first, final = f"step {found.steps[0]:,}", f"step {found.steps[-1]:,}"
    table = Table("measure", first, final, "change", "95 % interval over seeds", "what it is")
    for name, meaning in MEASURES.items():
        if name in found.not_applicable:
            table.add_row(name, "–", "–", "–", "–", f"does not apply: {found.not_applicable[name]}")
            continue
        v = found.values[name].mean(axis=(2, 3))
        change = found.change(name)
        interval = f"{change.low:+.3f} … {change.high:+.3f}" if change.pairs > 1 else "–"
        row = (f"{v[0].mean():.3f}", f"{v[-1].mean():.3f}", f"{change.difference:+.3f}", interval)
        table.add_row(name, *(cell.replace("-", "−") for cell in row), meaning)
    console.print(table)
    console.print(found.answer(), markup=False, soft_wrap=True)


def show_surgery(found: Surgery, console: Console) -> None:
    """Print the effect of each operation on the loss, over texts and over seeds."""
    table = Table("operation", "nats added", "over texts, 95 %", "over seeds, 95 %", "p", "verdict")
    for e in found.effects:
        v = e.seeds
        seeds = ("–", "–", "–")
        if v is not None:
            verdict = "descriptive" if v.descriptive else str(v.verdict)
            seeds = (f"{v.low:+.4f} … {v.high:+.4f}", f"{v.p:.3f}", verdict)
        texts = f"{e.items.low:+.4f} … {e.items.high:+.4f}" if e.items.has_interval else "–"
        row = (f"{e.difference:+.4f}", texts, *seeds)
        table.add_row(e.name, *(cell.replace("-", "−") for cell in row))
    console.print(table)
    loss = f"{found.set} loss as trained {found.loss:.4f} nats, {found.effects[0].items.items} texts, {found.models}"
    for line in [loss, *found.answer()]:
        console.print(line, markup=False, soft_wrap=True)
