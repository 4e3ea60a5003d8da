"""How attention develops: measures of each head at every snapshot of training, over the seeds of an arm.

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
from headtohead.interpret.maps import mapped
from headtohead.interpret.summary import shares
from headtohead.model.hooks import WEIGHTS, capture, in_order
from headtohead.parts import Layer
from headtohead.parts.sequence.mask import allowed_pairs
from headtohead.run.load import Trained, load_steps, snapshot_steps
from headtohead.run.store import Record

if TYPE_CHECKING:
    import pandas as pd

TEXTS = 32  # windows or texts that are measured

MEASURES = {
    "entropy": "nats: 0 if all weight is on one token",
    "sharpness": "1 − entropy / entropy of equal weights: 0 equal, 1 all on one token",
    "distance": "mean distance from the query to the keys, in tokens",
    "self": "weight of a token on itself",
    "previous": "weight on the previous token",
    "first": "weight on the first token",
    "overlap": "mean weight shared with each other head of the layer: 1 if all are equal",
}


ONE_HEAD = "each layer has one head"
NO_CHOICE = "no token sees more than one token"


@dataclass(frozen=True)
class Evolution:
    """Every measure of every head, at every step, for every seed."""

    name: str
    steps: tuple[int, ...]
    seeds: tuple[int, ...]
    values: dict[str, np.ndarray]  # measure → (S, N, L, H)
    texts: int
    layers: tuple[int, ...]  # numbers of the layers in `values`

    @property
    def not_applicable(self) -> dict[str, str]:
        """Return the measures that this model cannot have, with the reasons."""
        one_head = self.values["entropy"].shape[3] == 1
        return {
            name: ONE_HEAD if name == "overlap" and one_head else NO_CHOICE
            for name, v in self.values.items()
            if not np.isfinite(v).all()
        }

    def frame(self) -> pd.DataFrame:
        """Return a data frame with one row for each step, seed, layer and head."""
        import pandas as pd

        shape = next(iter(self.values.values())).shape
        index = np.meshgrid(self.steps, self.seeds, self.layers, np.arange(shape[3]), indexing="ij")
        named = dict(zip(("step", "seed", "layer", "head"), (x.ravel() for x in index), strict=True))
        return pd.DataFrame(named | {name: v.ravel() for name, v in self.values.items()})

    def change(self, measure: str, layer: int | None = None, head: int | None = None) -> stats.Verdict:
        """Compare the last step with the first, paired by seed."""
        v = self.values[measure]
        v = v if layer is None else v[:, :, [self.layers.index(layer)]]
        v = v if head is None else v[..., head : head + 1]
        v = v.mean(axis=(2, 3))  # (S, N)
        return stats.compare(v[0], v[-1])

    def answer(self) -> str:
        """Say whether attention sharpens."""
        if "entropy" in self.not_applicable:
            return f"whether attention sharpens does not apply: {self.not_applicable['entropy']}"
        v = self.values["entropy"].mean(axis=(2, 3))
        change = self.change("entropy")
        span = f"entropy {v[0].mean():.3f} → {v[-1].mean():.3f} nats from step {self.steps[0]:,} to {self.steps[-1]:,}"
        heads = self.values["entropy"]
        falling = int(((heads[-1] - heads[0]).mean(axis=0) < 0).sum())
        of = f"it falls in {falling} of {heads.shape[2] * heads.shape[3]} heads"
        if change.pairs < stats.LEAST_PAIRS:
            moved = v[-1].mean() - v[0].mean()
            word = "hardly changes" if abs(moved) < 0.01 else "sharpens" if moved < 0 else "blurs"
            few = f"{change.pairs} seed{'s' if change.pairs > 1 else ''}, descriptive only"
            return f"attention {word}: {span}; {of} ({few})"
        word = {"better": "sharpens", "worse": "blurs"}.get(change.verdict, "shows no clear change")
        return (
            f"attention {word}: {span}, change {change.difference:+.3f} ({change.low:+.3f} … {change.high:+.3f}), "
            f"p {change.p:.3f}, {change.pairs} seeds; {of}"
        ).replace("-", "−")

    def to_json(self) -> dict[str, Any]:
        facts = {"name": self.name, "steps": self.steps, "seeds": self.seeds, "texts": self.texts}
        absent = self.not_applicable
        values = {name: None if name in absent else v.tolist() for name, v in self.values.items()}
        return {**facts, "answer": self.answer(), "values": values, "not_applicable": absent}


def evolution(records: Sequence[Record], batch: Callable[[Trained], Batch]) -> Iterator[float | Evolution]:
    """Measure all heads of all runs at their common steps: yield the share done, then the result.

    `batch` is called once and returns the texts, which are the same for every run.
    """
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
        layers=tuple(number for number, _ in mapped(first.model)),
    )


def common_steps(records: Sequence[Record]) -> list[int]:
    """Return the steps at which every run has weights."""
    stored = [set(snapshot_steps(r)) | {0, r.result.steps if r.result else 0} for r in records]
    steps = sorted(set.intersection(*stored))
    if not any(snapshot_steps(r) for r in records):
        raise InputError(
            f"run {records[0].id} has no snapshots of its weights: train it with --set evaluate.snapshots=20"
        )
    return steps


@torch.inference_mode()
def measured(trained: Trained, texts: Batch) -> dict[str, np.ndarray]:
    """Return each measure (L, H), averaged over all queries with more than one allowed key."""
    ids = torch.from_numpy(texts.ids)
    keep = torch.ones_like(ids, dtype=torch.bool) if texts.keep is None else torch.from_numpy(texts.keep)
    layers = mapped(trained.model)
    with capture(trained.model, WEIGHTS) as seen:
        trained.model.trunk(ids, None if texts.keep is None else keep)  # type: ignore[operator]
    weights = in_order(trained.model, seen)
    spec = trained.spec.arm.model
    found = [_of_layer(a, spec.layer(n), keep) for a, (_, n) in zip(weights, layers, strict=True)]
    return {name: np.stack([layer[name] for layer in found]) for name in MEASURES}


def _of_layer(a: Tensor, layer: Layer, keep: Tensor) -> dict[str, np.ndarray]:
    """Return each measure (H,) for the weights a (B, H, T, T) of one layer, without padding (keep is (B, T))."""
    a = shares(a.float())
    H, T = a.shape[1], a.shape[-1]
    i = torch.arange(T)
    allowed = allowed_pairs(layer.pattern, H, i[None, None, :, None], i[None, None, None, :]) & keep[:, None, None, :]
    w = ((allowed.sum(dim=-1) > 1) & keep[:, None]).float()  # (B, H|1, T): queries with a choice

    def mean(x: Tensor, w: Tensor = w) -> np.ndarray:  # (B, H, T) → (H,)
        return ((x * w).sum(dim=(0, 2)) / w.sum(dim=(0, 2))).double().numpy()

    entropy = torch.special.entr(a).sum(dim=-1)
    most = allowed.sum(dim=-1).clamp(min=2).float().log()
    away = (torch.arange(T)[:, None] - torch.arange(T)[None, :]).abs().float()
    previous = torch.nn.functional.pad(a.diagonal(offset=-1, dim1=-2, dim2=-1), (1, 0))
    return {
        "entropy": mean(entropy),
        "sharpness": mean(1 - entropy / most),
        "distance": mean((a * away).sum(dim=-1)),
        "self": mean(a.diagonal(dim1=-2, dim2=-1)),
        "previous": mean(previous, w * (torch.arange(T) > 0)),  # the first token has none
        "first": mean(a[..., 0]),
        "overlap": _overlap(a, mean),
    }


def _overlap(a: Tensor, mean: Callable[[Tensor], np.ndarray]) -> np.ndarray:
    """Return for each head the mean of Σ_j min(a_j, b_j) over the other heads b of its layer."""
    H = a.shape[1]
    if H == 1:
        return np.full(1, math.nan)
    shared = [[a[:, g].minimum(a[:, h]).sum(dim=-1) for h in range(H)] for g in range(H)]  # each (B, T)
    each = torch.stack([torch.stack([shared[g][h] for h in range(H) if h != g]).mean(dim=0) for g in range(H)], dim=1)
    return mean(each)
