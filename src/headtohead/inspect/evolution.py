"""How attention came about: what each head does at every step whose weights were kept, over the seeds of an arm.

Shapes: S steps, N seeds, L layers, H heads; B texts, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headtohead import stats
from headtohead.data.batches import Batch
from headtohead.errors import InputError
from headtohead.store import Record, plain
from headtohead.taps import WEIGHTS, capture
from headtohead.trained import Trained, load_steps, snapshot_steps

if TYPE_CHECKING:
    import pandas as pd

TEXTS = 32  # windows or texts that are looked at

MEASURES = {
    "entropy": "nats: 0 where all weight is on one token",
    "sharpness": "1 − entropy / that of equal weights: 0 even, 1 all on one token",
    "distance": "tokens from the query to where its weight is, on average",
    "self": "weight of a token on itself",
    "previous": "weight on the token before",
    "first": "weight on the first token",
    "overlap": "weight in common with the other heads of the layer, on average: 1 where they are alike",
}


@dataclass(frozen=True)
class Evolution:
    """Every measure of every head, at every step, for every seed."""

    name: str
    steps: tuple[int, ...]
    seeds: tuple[int, ...]
    values: dict[str, np.ndarray]  # measure → (S, N, L, H)
    texts: int

    def frame(self) -> pd.DataFrame:
        """A row for each step, seed, layer and head."""
        import pandas as pd

        shape = next(iter(self.values.values())).shape
        index = np.meshgrid(self.steps, self.seeds, np.arange(shape[2]), np.arange(shape[3]), indexing="ij")
        named = dict(zip(("step", "seed", "layer", "head"), (x.ravel() for x in index), strict=True))
        return pd.DataFrame(named | {name: v.ravel() for name, v in self.values.items()})

    def change(self, measure: str, layer: int | None = None, head: int | None = None) -> stats.Verdict:
        """From the first step to the last, paired by seed."""
        v = self.values[measure]
        v = v if layer is None else v[:, :, layer : layer + 1]
        v = v if head is None else v[..., head : head + 1]
        v = v.mean(axis=(2, 3))  # (S, N)
        return stats.compare(v[0], v[-1])

    def answer(self) -> str:
        """Does attention sharpen?"""
        v = self.values["entropy"].mean(axis=(2, 3))
        change = self.change("entropy")
        span = f"entropy {v[0].mean():.3f} → {v[-1].mean():.3f} nats from step {self.steps[0]:,} to {self.steps[-1]:,}"
        heads = self.values["entropy"]
        fell = int(((heads[-1] - heads[0]).mean(axis=0) < 0).sum())
        of = f"it falls in {fell} of {heads.shape[2] * heads.shape[3]} heads"
        if change.pairs < stats.LEAST_PAIRS:
            moved = v[-1].mean() - v[0].mean()
            word = "hardly changes" if abs(moved) < 0.01 else "sharpens" if moved < 0 else "blurs"
            few = f"{change.pairs} seed{'s' if change.pairs > 1 else ''}, descriptive only"
            return f"attention {word}: {span}; {of} ({few})"
        word = {"better": "sharpens", "worse": "blurs"}.get(change.verdict, "neither sharpens nor blurs for certain")
        return (
            f"attention {word}: {span}, change {change.difference:+.3f} ({change.low:+.3f} … {change.high:+.3f}), "
            f"p {change.p:.3f}, {change.pairs} seeds; {of}"
        ).replace("-", "−")

    def to_json(self) -> dict[str, Any]:
        said = {"name": self.name, "steps": self.steps, "seeds": self.seeds, "texts": self.texts}
        return {**said, "answer": self.answer(), "values": plain({k: v.tolist() for k, v in self.values.items()})}


def evolution(records: Sequence[Record], batch: Callable[[Trained], Batch]) -> Iterator[float | Evolution]:
    """The share done, run by run and step by step; then the whole. `batch` gives the texts to look at, the same for
    every run: it is asked once."""
    steps = common_steps(records)
    texts: Batch | None = None
    found: dict[str, list[list[np.ndarray]]] = {name: [[] for _ in steps] for name in MEASURES}
    first: Trained | None = None
    for n, record in enumerate(records):
        for s, trained in enumerate(load_steps(record, steps)):
            first = first or trained
            texts = texts or batch(trained)
            for name, value in measured(trained, texts).items():
                found[name][s].append(value)
            yield (n * len(steps) + s + 1) / (len(records) * len(steps))
    assert first is not None
    assert texts is not None
    arm = first.spec.arm
    yield Evolution(
        name=f"{arm.task} on {arm.data.corpus.name}",
        steps=tuple(steps),
        seeds=tuple(int(r.spec["seed"]) for r in records),
        values={name: np.array(value) for name, value in found.items()},
        texts=len(texts.ids),
    )


def common_steps(records: Sequence[Record]) -> list[int]:
    """Steps that every run has weights of."""
    kept = [set(snapshot_steps(r)) | {0, int((r.result or {}).get("steps", 0))} for r in records]
    steps = sorted(set.intersection(*kept))
    if not any(snapshot_steps(r) for r in records):
        raise InputError(
            f"run {records[0].id} kept no weights on the way: train it with --set evaluate.snapshots=20 to keep twenty"
        )
    return steps


@torch.inference_mode()
def measured(trained: Trained, texts: Batch) -> dict[str, np.ndarray]:
    """Each measure (L, H), the mean over all queries that have a choice."""
    ids = torch.from_numpy(texts.ids)
    keep = torch.ones_like(ids, dtype=torch.bool) if texts.keep is None else torch.from_numpy(texts.keep)
    with capture(trained.model, WEIGHTS) as seen:
        trained.model.trunk(ids, None if texts.keep is None else keep)  # type: ignore[operator]
    T = ids.shape[1]
    i, j = torch.arange(T)[:, None], torch.arange(T)[None, :]
    allowed = trained.spec.arm.model.pattern.allowed(i, j) & keep[:, None, :]  # (B, T, T)
    choice = (allowed.sum(dim=-1) > 1) & keep  # (B, T)
    layers = [_of_layer(calls[0], allowed, choice) for calls in seen.values()]
    return {name: np.stack([layer[name] for layer in layers]) for name in MEASURES}


def _of_layer(a: Tensor, allowed: Tensor, choice: Tensor) -> dict[str, np.ndarray]:
    """a (B, H, T, T) → each measure (H,)."""
    a = a.float()
    T = a.shape[-1]
    w = choice[:, None].float()  # (B, 1, T)

    def mean(x: Tensor, w: Tensor = w) -> np.ndarray:  # (B, H, T) → (H,)
        return ((x * w).sum(dim=(0, 2)) / w.sum()).double().numpy()

    entropy = torch.special.entr(a).sum(dim=-1)
    most = allowed.sum(dim=-1).clamp(min=2).float().log()[:, None]
    away = (torch.arange(T)[:, None] - torch.arange(T)[None, :]).abs().float()
    previous = torch.nn.functional.pad(a.diagonal(offset=-1, dim1=-2, dim2=-1), (1, 0))
    return {
        "entropy": mean(entropy),
        "sharpness": mean(1 - entropy / most),
        "distance": mean((a * away).sum(dim=-1)),
        "self": mean(a.diagonal(dim1=-2, dim2=-1)),
        "previous": mean(previous, w * (torch.arange(T) > 0)),  # of those that have one
        "first": mean(a[..., 0]),
        "overlap": _overlap(a, mean),
    }


def _overlap(a: Tensor, mean: Callable[[Tensor], np.ndarray]) -> np.ndarray:
    """Of each head with the others of its layer: Σ_j min(a_j, b_j), the mean over the others."""
    H = a.shape[1]
    if H == 1:
        return np.full(1, math.nan)
    shared = [[a[:, g].minimum(a[:, h]).sum(dim=-1) for h in range(H)] for g in range(H)]  # each (B, T)
    each = torch.stack([torch.stack([shared[g][h] for h in range(H) if h != g]).mean(dim=0) for g in range(H)], dim=1)
    return mean(each)
