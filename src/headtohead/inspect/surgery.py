"""Head surgery: what becomes of a trained model's held-out loss when its heads are silenced, replaced by their average,
or arranged in another way, at test time and without training again.

Shapes: o (B, H, T, d), what the heads say, before the output projection.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headtohead import stats
from headtohead.attention import Attention
from headtohead.data.corpora import Corpus
from headtohead.data.splits import DataSpec
from headtohead.errors import InputError
from headtohead.parts.fusions import Fusion, FusionHooks
from headtohead.spec import Dims, families
from headtohead.store import Record
from headtohead.tasks import Work, work_on
from headtohead.trained import Trained, load_trained

ITEMS = 256  # windows or texts


class Silenced(FusionHooks):
    """Some heads say nothing."""

    def __init__(self, before: nn.Module, heads: Sequence[int]) -> None:
        super().__init__()
        self.before, self.heads = before, list(heads)

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        quiet = o.clone()
        quiet[:, self.heads] = 0
        return self.before(quiet, keep)


class Averaged(FusionHooks):
    """Every head says what all heads say on average."""

    def __init__(self, before: nn.Module) -> None:
        super().__init__()
        self.before = before

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return self.before(o.mean(dim=1, keepdim=True).expand_as(o), keep)


class Rearranged(FusionHooks):
    """As trained, and then as another fusion has it."""

    def __init__(self, before: nn.Module, then: nn.Module) -> None:
        super().__init__()
        self.before, self.then = before, then

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return self.then(self.before(o, keep), keep)


@dataclass(frozen=True)
class Operation:
    """What is done: to one head, to a layer, or to every layer."""

    name: str
    layer: int | None  # none: every layer
    head: int | None  # none: all heads
    fusion: Fusion | None = None  # how they are arranged; none: they are silenced, or averaged
    average: bool = False

    def apply(self, before: FusionHooks, layer: int, attention: Attention, dims: Dims) -> FusionHooks:
        heads = attention.q.out_features // attention.head_width
        if self.fusion is not None:
            return Rearranged(before, self.fusion.build(dims, layer).eval())
        if self.average:
            return Averaged(before)
        return Silenced(before, range(heads) if self.head is None else [self.head])


def operations(dims: Dims) -> list[Operation]:
    """Each head and each layer silenced; heads averaged; and every way to arrange heads that there is, with its usual
    knobs, but for those that leave them as they are."""
    single = [Operation(f"silence {n}.{h}", n, h) for n in range(dims.layers) for h in range(dims.heads)]
    if dims.heads == 1:
        return single
    whole = [Operation(f"silence layer {n}", n, None) for n in range(dims.layers)]
    fusions = [cls() for cls in families()["fusion"].values()]
    arranged = [
        Operation(type(fusion).__name__.lower(), None, None, fusion=fusion)
        for fusion in fusions
        if isinstance(fusion, Fusion) and type(fusion.build(dims, 0)) is not FusionHooks
    ]
    return [*single, *whole, Operation("average", None, None, average=True), *arranged]


@contextmanager
def operated(model: nn.Module, operation: Operation) -> Iterator[None]:
    """The model with the operation done to it, for the time being."""
    dims: Any = model.spec.dims  # type: ignore[union-attr]
    layers = [m for m in model.modules() if isinstance(m, Attention)]
    before = [layer.fuse for layer in layers]
    for n, layer in enumerate(layers):
        if operation.layer in (None, n):
            layer.fuse = operation.apply(layer.fuse, n, layer, dims)
    try:
        yield
    finally:
        for layer, fuse in zip(layers, before, strict=True):
            layer.fuse = fuse


# -- its effect --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """Of an operation on the held-out loss: over the texts of these checkpoints, and over seeds."""

    name: str
    layer: int | None
    head: int | None
    items: stats.ItemTest  # other texts, these checkpoints
    seeds: stats.Verdict | None  # other seeds; none where there is one run
    by_seed: tuple[float, ...]  # the change in each run

    @property
    def difference(self) -> float:
        return float(np.mean(self.by_seed))

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.name,
            "layer": self.layer,
            "head": self.head,
            "difference": self.difference,
            "items": dataclasses.asdict(self.items),
            "seeds": None if self.seeds is None else dataclasses.asdict(self.seeds),
            "by_seed": list(self.by_seed),
        }


@dataclass(frozen=True)
class Surgery:
    name: str
    set: str
    loss: float  # as trained, nats
    runs: tuple[str, ...]  # or the name of a checkpoint
    seeds: tuple[int, ...]  # of runs
    layers: int
    heads: int
    effects: tuple[Effect, ...]

    @property
    def models(self) -> str:
        """Which they are, in short."""
        if len(self.runs) > 1:
            return f"{len(self.runs)} seeds"
        return f"run {self.runs[0][:8]}" if self.seeds else self.runs[0]

    def importance(self) -> np.ndarray:
        """(L, H): what silencing each head adds to the loss."""
        grid = np.full((self.layers, self.heads), np.nan)
        for e in self.effects:
            if e.layer is not None and e.head is not None:
                grid[e.layer, e.head] = e.difference
        return grid

    def answer(self) -> list[str]:
        """Are heads experts?"""
        grid = self.importance()
        worst = np.unravel_index(int(np.nanargmax(grid)), grid.shape)
        lines = [
            f"one head less costs {np.nanmean(grid):+.4f} nats on average, at most {np.nanmax(grid):+.4f} "
            f"(layer {worst[0]}, head {worst[1]})"
        ]
        arranged = {e.name: e.difference for e in self.effects if e.layer is None}
        if arranged:
            said = ", ".join(f"{name} {value:+.4f}" for name, value in arranged.items())
            lines.append(f"all heads, without training again: {said} nats")
        return [line.replace("-", "−") for line in lines]

    def to_json(self) -> dict[str, Any]:
        said = {k: v for k, v in vars(self).items() if k != "effects"}
        return {**said, "answer": self.answer(), "effects": [e.to_json() for e in self.effects]}


def reading(checkpoint: Trained, corpus: Corpus) -> Trained:
    """A checkpoint with texts to measure it on. A classifier's classes are put into the order of the data's."""
    arm = dataclasses.replace(checkpoint.spec.arm, data=DataSpec(corpus=corpus, validation=0.5, test=0))
    spec = dataclasses.replace(checkpoint.spec, arm=arm)
    if checkpoint.task == "lm":
        return dataclasses.replace(checkpoint, spec=spec)
    data: Any = work_on(arm).data
    order = _order(checkpoint, data.labels, data.says)
    model: Any = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        for tensor in (model.head[2].weight, model.head[2].bias):
            tensor.copy_(tensor[order])
    labels = tuple(checkpoint.labels[n] for n in order)
    return dataclasses.replace(checkpoint, spec=spec, model=model, labels=labels)


def _order(checkpoint: Trained, labels: Sequence[str], says: Sequence[str]) -> list[int]:
    """The model's class of each class of the data: by what they are called, or by number."""
    known = {label.lower(): n for n, label in enumerate(checkpoint.labels)}
    known |= {str(n): n for n in range(len(checkpoint.labels)) if str(n) not in known}
    for names in (says, labels):
        order = [known[name.lower()] for name in names if name.lower() in known]
        if sorted(order) == list(range(len(checkpoint.labels))) and len(order) == len(names):
            return order
    raise InputError(
        f"the data have the labels {', '.join(says)} and {checkpoint.checkpoint} has {', '.join(checkpoint.labels)}: "
        "name the data's like the model's, or number them in its order"
    )


def surgery(runs: Sequence[Record | Trained], on: str | None = None, items: int = ITEMS) -> Iterator[float | Surgery]:
    """The share done, then the whole: every operation on every run, or on a checkpoint, on the same held-out texts."""
    first = _loaded(runs[0])
    arm = first.spec.arm
    work = work_on(dataclasses.replace(arm, evaluate=dataclasses.replace(arm.evaluate, along=items)))
    name = work.held_out(on)
    todo = operations(arm.model.dims)
    total, done = len(runs) * len(todo), 0
    plain: list[np.ndarray] = []  # of each run, the items' losses
    after: dict[str, list[np.ndarray]] = {op.name: [] for op in todo}
    weights = np.ones(0)
    for run in runs:
        trained = _loaded(run)
        if trained.spec.arm.model.dims != arm.model.dims:
            raise InputError(
                f"run {trained.record.id} has other layers or heads than run {first.record.id}: give one arm's runs"
            )
        losses, weights = _losses(work, trained.model, name)
        plain.append(losses)
        for op in todo:
            with operated(trained.model, op):
                after[op.name].append(_losses(work, trained.model, name)[0])
            done += 1
            yield done / total
    means = [float(np.average(x, weights=weights)) for x in plain]
    changed = {name: [float(np.average(x, weights=weights)) for x in runs] for name, runs in after.items()}
    judged = stats.compare_all(means, changed) if len(runs) > 1 else {}
    records = [run for run in runs if isinstance(run, Record)]
    yield Surgery(
        name=f"{arm.task} on {arm.data.corpus.name}",
        set=name,
        loss=float(np.mean(means)),
        runs=tuple(r.id for r in records) or (first.checkpoint,),
        seeds=tuple(int(r.spec["seed"]) for r in records),
        layers=arm.model.layers,
        heads=arm.model.heads,
        effects=tuple(_effect(op, plain, after[op.name], weights, judged.get(op.name)) for op in todo),
    )


def _loaded(run: Record | Trained) -> Trained:
    return load_trained(run) if isinstance(run, Record) else run


@torch.inference_mode()
def _losses(work: Work, model: nn.Module, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each window or text, and how many tokens each is a mean of."""
    found = work.look(model, name, "cpu", last=False).items
    loss = found["loss"]
    return loss, found["tokens"].astype(float) if "tokens" in found else np.ones(len(loss))


def _effect(
    op: Operation,
    plain: list[np.ndarray],
    after: list[np.ndarray],
    weights: np.ndarray,
    seeds: stats.Verdict | None,
) -> Effect:
    changes = [b - a for a, b in zip(plain, after, strict=True)]
    items = stats.over_items(np.mean(changes, axis=0), weights)
    by_seed = tuple(float(np.average(c, weights=weights)) for c in changes)
    return Effect(op.name, op.layer, op.head, items, seeds, by_seed)
