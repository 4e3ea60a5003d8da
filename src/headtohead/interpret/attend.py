"""What `h2h attend` and `h2h heads` compute: names of runs and texts in; maps, measures and pictures out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from headtohead.data.batches import Batch, windows
from headtohead.data.corpora import corpus_named
from headtohead.data.pretrained_checkpoints import find, is_checkpoint
from headtohead.errors import InputError
from headtohead.figures.style import check_out as check_out
from headtohead.interpret import draw as pictures
from headtohead.interpret.evolution import TEXTS, Evolution, evolution
from headtohead.interpret.maps import Maps, attention
from headtohead.interpret.surgery import Surgery, reading, surgery
from headtohead.pretrained.architectures import UnknownArchitecture
from headtohead.run import store
from headtohead.run.load import Trained, load_steps, snapshot_steps
from headtohead.run.named import named, seeds_of
from headtohead.run.studies import find_runs
from headtohead.training.tasks import task_of

Films = list[list[Maps]]  # for each run, its maps from step to step
FRAMES = 20  # steps in a page


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
    """Return the maps of one or two runs on a text: at one step, or at many steps for a film or a page."""
    check_out(out, [*pictures.FORMATS, "html"])
    if film and (out is None or len(layers) != 1 or len(heads) != 1):
        raise InputError("--film draws one head through training: give --layer, --head and --out")
    if film and (compare is not None or step is not None or str(out).lower().endswith(".html")):
        raise InputError("--film is a picture of one run at all its steps: leave out --compare, --step and .html")
    all_steps = step is None and (film or (out is not None and out.lower().endswith(".html")))
    if film and not snapshot_steps(_run(run)):
        raise InputError(f"run {run} has no snapshots of its weights: train it with --set evaluate.snapshots=20")
    names = [run] if compare is None else [run, compare]
    return [[m.only(layers, heads) for m in _frames(name, text, step, all_steps)] for name in names]


def _run(name: str) -> store.Record:
    """Find a run; refuse a checkpoint."""
    if is_checkpoint(name):
        raise InputError(f"{name} is a checkpoint, which has no steps and no seeds: give a run")
    return find_runs(name, store.home())[0]


def _frames(name: str, text: str, step: int | None, all_steps: bool) -> Iterator[Maps]:
    try:
        model = named(name, step)
    except UnknownArchitecture:
        from headtohead.interpret.hugging_face import hub_attention, load_folder

        yield hub_attention(load_folder(find(name).folder), text)  # transformers runs the model
        return
    if not all_steps or model.checkpoint:
        yield attention(model, text)
        return
    record = model.record
    steps = sorted({*snapshot_steps(record), record.require_result().weights_of})
    if len(steps) > FRAMES:
        steps = [steps[round(n * (len(steps) - 1) / (FRAMES - 1))] for n in range(FRAMES)]
    for model in load_steps(record, steps):
        yield attention(model, text)


def last(films: Films) -> list[Maps]:
    """Return the maps of each run at its last step."""
    return [frames[-1] for frames in films]


def draw(films: Films, kind: str, film: bool) -> bytes:
    """Return a page (html) or a picture (png, svg) of the maps."""
    if kind == "html":
        from headtohead.interpret.page import page

        return page(films).encode()
    if film:
        return pictures.image(pictures.film(films[0]), kind)
    ends = last(films)
    figure = pictures.grid(ends[0]) if len(ends) == 1 else pictures.comparison(*ends)
    return pictures.image(figure, kind)


# -- over training -----------------------------------------------------------------------------------------------------


def evolve(run: str, text: str | None) -> Iterator[float | Evolution]:
    """Measure the heads of all seeds of a run's arm at all snapshots: yield the share done, then the result."""
    _run(run)
    records = seeds_of(run)
    named(records[0].id, None)
    yield from evolution(records, partial(_texts, text))


def _texts(text: str | None, model: Trained) -> Batch:
    """Return the given text as a batch; without one, held-out windows or texts."""
    if text is None:
        task = task_of(model.spec.arm)
        return task.sample(task.held_out(), TEXTS)
    ids = model.vocabulary.encode([text])[0]
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens, so attention has no choice: give a longer text")
    length = min(len(ids), model.spec.arm.model.block)
    return windows(np.append(ids, 0), np.array([0]), length)


def draw_evolution(found: Evolution, kind: str) -> bytes:
    """Return a picture of the measures over training."""
    from headtohead.interpret.plots import lines

    return pictures.image(lines(found), kind)


# -- heads -------------------------------------------------------------------------------------------------------------


def operate(run: str, on: str | None, items: int, alone: bool, data: str | None = None) -> Iterator[float | Surgery]:
    """Measure what each head of a run or checkpoint adds: yield the share done, then the result."""
    model = named(run, None)
    if not model.checkpoint and data is not None:
        raise InputError(f"run {model.record.id} is measured on its own data: leave out --data")
    if model.task == "encoder":
        raise InputError(model.instead)
    if model.checkpoint and data is None:
        raise InputError(f"{run} is a checkpoint without texts: give some with --data")
    if data is not None:
        yield from surgery([reading(model, corpus_named(data))], on, items)
    else:
        yield from surgery([model.record] if alone else seeds_of(run), on, items)


def draw_surgery(found: Surgery, kind: str) -> bytes:
    """Return a picture of the effects."""
    from headtohead.interpret.plots import importance

    return pictures.image(importance(found), kind)
