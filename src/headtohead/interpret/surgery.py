"""Head surgery: how the held-out loss of a trained model changes when its heads are silenced, averaged or rearranged.
The model is not trained again.

Shapes: o (B, H, T, d), the outputs of the heads before the output projection.
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
from headtohead.data.corpora import Corpus
from headtohead.data.splits import DataSpec
from headtohead.errors import InputError
from headtohead.parts.fusions import Fusion, FusionHooks
from headtohead.run.load import Trained, load_trained
from headtohead.run.store import Record
from headtohead.spec import Dims, families
from headtohead.stats.clusters import stretches
from headtohead.training.arm import Arm
from headtohead.training.tasks import Task, task_of

ITEMS = 256  # windows or texts
ONE_HEAD_ONLY = "averaging and rearranging heads does not apply: each layer has one head"


class Silenced(FusionHooks):
    """Sets the output of some heads to zero."""

    def __init__(self, before: nn.Module, heads: Sequence[int]) -> None:
        super().__init__()
        self.before, self.heads = before, list(heads)

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        silenced = o.clone()
        silenced[:, self.heads] = 0
        return self.before(silenced, keep)


class Averaged(FusionHooks):
    """Replaces the output of some heads by the mean over all heads."""

    def __init__(self, before: nn.Module, heads: Sequence[int]) -> None:
        super().__init__()
        self.before, self.heads = before, list(heads)

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        averaged = o.clone()
        averaged[:, self.heads] = o.mean(dim=1, keepdim=True)
        return self.before(averaged, keep)


class Swapped(FusionHooks):
    """Exchanges the outputs of two heads."""

    def __init__(self, before: nn.Module, heads: tuple[int, int]) -> None:
        super().__init__()
        self.before, self.heads = before, heads

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        swapped = o.clone()
        swapped[:, list(self.heads)] = o[:, list(reversed(self.heads))]
        return self.before(swapped, keep)


class Rearranged(FusionHooks):
    """Applies the trained fusion, then another one."""

    def __init__(self, before: nn.Module, then: nn.Module) -> None:
        super().__init__()
        self.before, self.then = before, then

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return self.then(self.before(o, keep), keep)


@dataclass(frozen=True)
class Operation:
    """An operation on one head, on one layer, or on every layer."""

    name: str
    layer: int | None  # None: every layer
    head: int | None  # None: all heads
    fusion: Fusion | None = None  # rearranges the heads; None: they are silenced or averaged
    average: bool = False
    other: int | None = None  # the head of the same layer that `head` is swapped with

    def apply(self, before: nn.Module, layer: int, dims: Dims) -> FusionHooks:
        """Return the fusion of one layer with the operation applied. `dims` are those of the outputs of its heads."""
        if self.fusion is not None:
            return Rearranged(before, self.fusion.build(dims, layer).eval())
        if self.head is not None and self.other is not None:
            return Swapped(before, (self.head, self.other))
        heads = range(dims.heads) if self.head is None else [self.head]
        return Averaged(before, heads) if self.average else Silenced(before, heads)


def heads_of(model: nn.Module) -> dict[int, Dims]:
    """Return the sizes of what the heads of each layer put out, for the layers whose heads are fused. Layers are blocks
    here: a block that is applied twice is one layer."""
    trunk: Any = model.trunk
    mixers = {n: block.attention for n, block in enumerate(trunk.blocks)}
    return {n: getattr(mixer, "outputs", trunk.spec.dims) for n, mixer in mixers.items() if hasattr(mixer, "fuse")}


def operations(model: nn.Module) -> list[Operation]:
    """Return all operations: silence each head and each layer, average the heads, and apply every known fusion that
    changes them."""
    layers = heads_of(model)
    if not layers:
        trunk: Any = model.trunk
        raise InputError(
            f"{type(trunk.spec.each('mixer')[0]).__name__} has no heads that could be silenced: give a model with "
            "attention in at least one layer"
        )
    single = [Operation(f"silence {n}.{h}", n, h) for n, dims in layers.items() for h in range(dims.heads)]
    if all(dims.heads == 1 for dims in layers.values()):
        return single
    whole = [Operation(f"silence layer {n}", n, None) for n in layers]
    fusions = [cls() for cls in families()["fusion"].values()]
    arranged = [
        Operation(type(fusion).__name__.lower(), None, None, fusion=fusion)
        for fusion in fusions
        if isinstance(fusion, Fusion) and type(fusion.build(next(iter(layers.values())), 0)) is not FusionHooks
    ]
    return [*single, *whole, Operation("average", None, None, average=True), *arranged]


@contextmanager
def operated(model: nn.Module, operation: Operation) -> Iterator[None]:
    """Apply the operation to the model inside the `with` block."""
    trunk: Any = model.trunk
    layers = [trunk.blocks[n].attention for n in heads_of(model)]
    before = [layer.fuse for layer in layers]
    _apply(model, operation)
    try:
        yield
    finally:
        for layer, fuse in zip(layers, before, strict=True):
            layer.fuse = fuse


def changed_copy(trained: Trained, operations: Sequence[Operation]) -> Trained:
    """Return the model with operations applied in their order. It shares its weights with the given model, which stays
    as it is."""
    shared: dict[int, Any] = {id(t): t for t in (*trained.model.parameters(), *trained.model.buffers())}
    model = copy.deepcopy(trained.model, shared)
    for operation in reversed(operations):  # the one that is applied last receives the heads first
        _apply(model, operation)
    return dataclasses.replace(trained, model=model)


def _apply(model: nn.Module, operation: Operation) -> None:
    trunk: Any = model.trunk
    for n, dims in heads_of(model).items():
        if operation.layer in (None, n):
            layer = trunk.blocks[n].attention
            layer.fuse = operation.apply(layer.fuse, n, dims)


# -- effects -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """The effect of an operation on the held-out loss, over texts and over seeds."""

    name: str
    layer: int | None
    head: int | None
    items: stats.ItemTest  # if only the texts were resampled (same trained models)
    seeds: stats.Verdict | None  # over seeds; None for a single run
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
            "seeds": None if self.seeds is None else self.seeds.to_json(),
            "by_seed": list(self.by_seed),
        }


@dataclass(frozen=True)
class Surgery:
    """The effects of all operations on the runs of an arm, or on a checkpoint."""

    name: str
    set: str
    loss: float  # nats, without operation
    runs: tuple[str, ...]  # ids, or the name of a checkpoint
    seeds: tuple[int, ...]  # empty for a checkpoint
    layers: int
    heads: int
    effects: tuple[Effect, ...]

    @property
    def models(self) -> str:
        """Name the models in short."""
        if len(self.runs) > 1:
            return f"{len(self.runs)} seeds"
        return f"run {self.runs[0][:8]}" if self.seeds else self.runs[0]

    def importance(self) -> np.ndarray:
        """Return what silencing each head adds to the loss (L, H)."""
        grid = np.full((self.layers, self.heads), np.nan)
        for e in self.effects:
            if e.layer is not None and e.head is not None:
                grid[e.layer, e.head] = e.difference
        return grid

    def answer(self) -> list[str]:
        """Summarise the effects in one or two lines."""
        grid = self.importance()
        worst = np.unravel_index(int(np.nanargmax(grid)), grid.shape)
        lines = [
            f"silencing one head adds {np.nanmean(grid):+.4f} nats on average, at most {np.nanmax(grid):+.4f} "
            f"(layer {worst[0]}, head {worst[1]})"
        ]
        arranged = {e.name: e.difference for e in self.effects if e.layer is None}
        if arranged:
            effects = ", ".join(f"{name} {value:+.4f}" for name, value in arranged.items())
            lines.append(f"all heads, without training again: {effects} nats")
        elif self.heads == 1:
            lines.append(ONE_HEAD_ONLY)
        return [line.replace("-", "−") for line in lines]

    def to_json(self) -> dict[str, Any]:
        facts = {k: v for k, v in vars(self).items() if k != "effects"}
        return {**facts, "answer": self.answer(), "effects": [e.to_json() for e in self.effects]}


def reading(checkpoint: Trained, corpus: Corpus) -> Trained:
    """Return a checkpoint with a corpus to measure it on. The classes of a classifier get the order of the data."""
    arm = dataclasses.replace(checkpoint.spec.arm, data=DataSpec(corpus=corpus, validation=0.5, test=0))
    spec = dataclasses.replace(checkpoint.spec, arm=arm)
    if checkpoint.task == "lm":
        return dataclasses.replace(checkpoint, spec=spec)
    data: Any = task_of(arm).data
    order = _order(checkpoint, data.labels, data.says)
    model: Any = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        for tensor in (model.head[2].weight, model.head[2].bias):
            tensor.copy_(tensor[order])
    labels = tuple(checkpoint.labels[n] for n in order)
    return dataclasses.replace(checkpoint, spec=spec, model=model, labels=labels)


def _order(checkpoint: Trained, labels: Sequence[str], says: Sequence[str]) -> list[int]:
    """Return the model's class for each class of the data, matched by name or by number."""
    known = {label.lower(): n for n, label in enumerate(checkpoint.labels)}
    known |= {str(n): n for n in range(len(checkpoint.labels)) if str(n) not in known}
    for names in (says, labels):
        order = [known[name.lower()] for name in names if name.lower() in known]
        if sorted(order) == list(range(len(checkpoint.labels))) and len(order) == len(names):
            return order
    raise InputError(
        f"the data have the labels {', '.join(says)} and {checkpoint.checkpoint} has {', '.join(checkpoint.labels)}: "
        "rename the labels of the data like those of the model, or number them in its order"
    )


def surgery(runs: Sequence[Record | Trained], on: str | None = None, items: int = ITEMS) -> Iterator[float | Surgery]:
    """Measure every operation on all runs, or on a checkpoint, with the same held-out texts: yield the share done, then
    the result."""
    first = _loaded(runs[0])
    arm = first.spec.arm
    task = sampling_task(arm, items)
    name = task.held_out(on)
    todo = operations(first.model)
    total, done = len(runs) * len(todo), 0
    plain: list[np.ndarray] = []  # losses of the items, for each run
    after: dict[str, list[np.ndarray]] = {op.name: [] for op in todo}
    weights, clusters = np.ones(0), np.ones(0)
    for run in runs:
        trained = _loaded(run)
        if trained.spec.arm.model.dims != arm.model.dims:
            raise InputError(
                f"run {trained.record.id} has other layers or heads than run {first.record.id}: give runs of one arm"
            )
        losses, weights, clusters = item_losses(task, trained.model, name)
        plain.append(losses)
        for op in todo:
            with operated(trained.model, op):
                after[op.name].append(item_losses(task, trained.model, name)[0])
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
        heads=max(dims.heads for dims in heads_of(first.model).values()),
        effects=tuple(effect(op, plain, after[op.name], weights, clusters, judged.get(op.name)) for op in todo),
    )


def _loaded(run: Record | Trained) -> Trained:
    return load_trained(run) if isinstance(run, Record) else run


def sampling_task(arm: Arm, items: int = ITEMS) -> Task:
    """Return the arm's task, whose evaluations during training read that many windows or texts."""
    return task_of(dataclasses.replace(arm, evaluate=dataclasses.replace(arm.evaluate, along=items)))


@torch.inference_mode()
def item_losses(
    task: Task, model: nn.Module, name: str, whole: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the loss of each window or text, its number of tokens as weight, and its cluster: of a sample of the set,
    or of the whole set."""
    found = task.evaluate(model, name, "cpu", last=whole).items
    loss = found["loss"]
    if "start" not in found:
        return loss, found.get("tokens", np.ones(len(loss))).astype(float), np.arange(len(loss))
    return loss, found["tokens"].astype(float), stretches(found["start"], found["tokens"])


def effect(
    op: Operation,
    plain: list[np.ndarray],
    after: list[np.ndarray],
    weights: np.ndarray,
    clusters: np.ndarray,
    seeds: stats.Verdict | None,
) -> Effect:
    """Return the effect of an operation on the losses of the items, for each run before and after it."""
    changes = [b - a for a, b in zip(plain, after, strict=True)]
    items = stats.over_items(np.mean(changes, axis=0), weights, clusters)
    by_seed = tuple(float(np.average(c, weights=weights)) for c in changes)
    return Effect(op.name, op.layer, op.head, items, seeds, by_seed)
