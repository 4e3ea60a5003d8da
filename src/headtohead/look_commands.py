"""What `h2h attend` and `h2h heads` do, without reading arguments: runs and texts to maps, screens and files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead import store
from headtohead.commands import given, seeds_of, trained
from headtohead.data.batches import Batch, windows
from headtohead.data.checkpoints import find, is_checkpoint
from headtohead.data.corpora import corpus_named
from headtohead.errors import InputError
from headtohead.inspect import draw as pictures
from headtohead.inspect.evolution import MEASURES, TEXTS, Evolution, evolution
from headtohead.inspect.maps import Maps, attention
from headtohead.inspect.surgery import Surgery, reading, surgery
from headtohead.outcome import find_runs
from headtohead.pretrained.architectures import UnknownArchitecture
from headtohead.tasks import work_on
from headtohead.trained import Trained, load_steps, snapshot_steps

if TYPE_CHECKING:
    from rich.console import Console

Films = list[list[Maps]]  # of each run, its maps from step to step
FRAMES = 20  # steps in a page


def check_out(out: str | None, kinds: Sequence[str]) -> None:
    """Before the work, not after it."""
    kind = "" if out is None else Path(out).suffix.removeprefix(".").lower()
    if out is not None and kind not in kinds:
        raise InputError(f"--out {out}: give a name that ends in {' or '.join('.' + k for k in kinds)}")
    if out is not None and Path(out).is_dir():
        raise InputError(f"--out {out} is a folder: give the name of a file")


def films(
    run: str,
    compare: str | None,
    text: str,
    step: int | None,
    layers: list[int],
    heads: list[int],
    out: str | None,
    film: bool,
) -> Films:
    check_out(out, [*pictures.FORMATS, "html"])
    if film and (out is None or len(layers) != 1 or len(heads) != 1):
        raise InputError("--film draws one head through training: give --layer, --head and --out")
    if film and (compare is not None or step is not None or str(out).lower().endswith(".html")):
        raise InputError("--film is a picture of one run at all its steps: leave out --compare, --step and .html")
    all_steps = step is None and (film or (out is not None and out.lower().endswith(".html")))
    if film and not snapshot_steps(_run(run)):
        raise InputError(f"run {run} kept no weights on the way: train it with --set evaluate.snapshots=20")
    names = [run] if compare is None else [run, compare]
    return [[m.only(layers, heads) for m in _frames(name, text, step, all_steps)] for name in names]


def _run(name: str) -> store.Record:
    """A run, and nothing but a run."""
    if is_checkpoint(name):
        raise InputError(f"{name} is a checkpoint: it has no steps and no seeds to look at")
    return find_runs(name, store.home())[0]


def _frames(name: str, text: str, step: int | None, all_steps: bool) -> Iterator[Maps]:
    try:
        model = trained(name, step)
    except UnknownArchitecture:
        from headtohead.inspect.hugging_face import hub_attention, load_folder

        yield hub_attention(load_folder(find(name).folder), text)  # by its own code, and not by ours
        return
    if not all_steps or model.checkpoint:
        yield attention(model, text)
        return
    record = model.record
    result = record.result or {}
    steps = sorted({*snapshot_steps(record), int(result.get("weights_of", result["steps"]))})
    if len(steps) > FRAMES:
        steps = [steps[round(n * (len(steps) - 1) / (FRAMES - 1))] for n in range(FRAMES)]
    for model in load_steps(record, steps):
        yield attention(model, text)


def last(films: Films) -> list[Maps]:
    return [frames[-1] for frames in films]


def draw(films: Films, kind: str, film: bool) -> bytes:
    if kind == "html":
        from headtohead.inspect.page import page

        return page(films).encode()
    if film:
        return pictures.image(pictures.film(films[0]), kind)
    ends = last(films)
    figure = pictures.grid(ends[0]) if len(ends) == 1 else pictures.comparison(*ends)
    return pictures.image(figure, kind)


def show(films: Films, console: Console) -> None:
    """What the model says, what its heads do, and whether the maps are what they must be."""
    for maps in last(films):
        step = "" if maps.step is None else f", step {maps.step:,}"
        console.print(f"{maps.name}{step}", markup=False)
        said = ", ".join(f"{name!r} {p:.3f}" for name, p in maps.answers)
        asked = {"lm": "next token: ", "classifier": "label: "}.get(maps.task, "")
        console.print(f"{asked}{said or maps.answer()}", markup=False)
        console.print(_heads(maps, console.width))
        for check in maps.checks:
            mark, style = {"proved": ("✓", "green"), "broken": ("✗", "bold red")}.get(check.verdict, ("–", "dim"))
            from rich.text import Text

            console.print(Text.assemble((f"{mark} ", style), (f"{check.name}: ", "bold"), check.says), soft_wrap=True)
        if maps.unknown:
            console.print(f"{maps.unknown} of {maps.real} tokens are unknown to the vocabulary", markup=False)


def _heads(maps: Maps, width: int) -> Any:
    """A line a head: how spread its weight is, how far it looks, and the strongest look of all."""
    from rich.table import Table
    from rich.text import Text

    from headtohead.inspect.summary import summary

    names = ("entropy", "distance", "self", "previous", "first") if width >= 76 else ("entropy",)  # no figure is cut
    table = Table("head", *names, "strongest")
    for row in summary(maps):
        figures = ("–" if math.isnan(row[name]) else f"{row[name]:.2f}" for name in names)
        table.add_row(f"{row['layer']}.{row['head']}", *figures, Text(row["strongest"]))
    return table


# -- over training -----------------------------------------------------------------------------------------------------


def evolve(run: str, text: str | None) -> Iterator[float | Evolution]:
    _run(run)
    records = seeds_of(run)
    trained(records[0].id, None)
    yield from evolution(records, partial(_texts, None if text is None else given(text)))


def _texts(text: str | None, model: Trained) -> Batch:
    """Held-out windows or texts; or the one that was given."""
    if text is None:
        work = work_on(model.spec.arm)
        return work.some(work.held_out(), TEXTS)
    ids = model.vocabulary.encode([text])[0]
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens: attention has no choice there; give a longer one")
    import numpy as np

    length = min(len(ids), model.spec.arm.model.block)
    return windows(np.append(ids, 0), np.array([0]), length)


def show_evolution(found: Evolution, console: Console) -> None:
    from rich.table import Table

    first, final = f"step {found.steps[0]:,}", f"step {found.steps[-1]:,}"
    table = Table("measure", first, final, "change", "95 % interval over seeds", "what it is")
    for name, says in MEASURES.items():
        v = found.values[name].mean(axis=(2, 3))
        change = found.change(name)
        span = f"{change.low:+.3f} … {change.high:+.3f}" if change.pairs > 1 else "–"
        row = (f"{v[0].mean():.3f}", f"{v[-1].mean():.3f}", f"{change.difference:+.3f}", span)
        table.add_row(name, *(cell.replace("-", "−") for cell in row), says)
    console.print(table)
    console.print(found.answer(), markup=False, soft_wrap=True)


def draw_evolution(found: Evolution, kind: str) -> bytes:
    from headtohead.inspect.plots import lines

    return pictures.image(lines(found), kind)


# -- heads -------------------------------------------------------------------------------------------------------------


def operate(run: str, on: str | None, items: int, alone: bool, data: str | None = None) -> Iterator[float | Surgery]:
    model = trained(run, None)
    if not model.checkpoint and data is not None:
        raise InputError(f"run {model.record.id} is measured on its own data: leave out --data")
    if model.task == "encoder":
        raise InputError(model.instead)
    if model.checkpoint and data is None:
        raise InputError(f"{run} is a checkpoint, and brings no texts: give some with --data")
    if data is not None:
        yield from surgery([reading(model, corpus_named(data))], on, items)
    else:
        yield from surgery([model.record] if alone else seeds_of(run), on, items)


def show_surgery(found: Surgery, console: Console) -> None:
    from rich.table import Table

    table = Table("operation", "nats added", "over texts, 95 %", "over seeds, 95 %", "p", "verdict")
    for e in found.effects:
        texts = f"{e.items.low:+.4f} … {e.items.high:+.4f}"
        v = e.seeds
        seeds = ("–", "–", "–") if v is None else (f"{v.low:+.4f} … {v.high:+.4f}", f"{v.p:.3f}", _word(v))
        row = (f"{e.difference:+.4f}", texts, *seeds)
        table.add_row(e.name, *(cell.replace("-", "−") for cell in row))
    console.print(table)
    said = f"{found.set} loss as trained {found.loss:.4f} nats, {found.effects[0].items.items} texts, {found.models}"
    for line in [said, *found.answer()]:
        console.print(line, markup=False, soft_wrap=True)


def _word(verdict: Any) -> str:
    return "descriptive" if verdict.descriptive else str(verdict.verdict)


def draw_surgery(found: Surgery, kind: str) -> bytes:
    from headtohead.inspect.plots import importance

    return pictures.image(importance(found), kind)
