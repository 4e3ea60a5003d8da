"""Count parameters per component, on the model itself but without allocating its weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel

_COMPONENTS = {  # the component of a parameter is set by the first piece of its name that is listed here
    "tokens": "token embedding",
    "embedding": "token embedding",
    "position": "position",
    "attention": "attention",
    "feedforward": "feed-forward",
    "around_attention": "norms",
    "around_feedforward": "norms",
    "embedding_norm": "norms",
    "last": "norms",
    "before_attention": "convolutions",
    "before_feedforward": "convolutions",
    "in_feedforward": "convolutions",
    "pooling": "head",
    "head": "head",
    "output": "head",
}


@dataclass(frozen=True)
class Row:
    component: str
    weights: int  # matrices
    others: int  # biases and gains

    @property
    def total(self) -> int:
        return self.weights + self.others


@dataclass(frozen=True)
class Breakdown:
    """Parameters per component. `str()` prints the table."""

    rows: tuple[Row, ...]
    idle: int = 0  # parameters that a token does not use: those of experts that were not chosen

    @property
    def total(self) -> int:
        return sum(row.total for row in self.rows)

    @property
    def active(self) -> int:
        """Count the parameters that one token uses."""
        return self.total - self.idle

    @property
    def weights(self) -> int:
        """Count token embedding, attention and feed-forward matrices, without biases, norms, positions and head."""
        return sum(
            row.weights for row in self.rows if row.component in ("token embedding", "attention", "feed-forward")
        )

    def to_json(self) -> dict[str, object]:
        rows = [
            {"component": r.component, "weights": r.weights, "biases_and_gains": r.others, "total": r.total}
            for r in self.rows
        ]
        active = {"active": self.active} if self.idle else {}
        return {"rows": rows, "total": self.total, **active, "weights_without_bias_norm_position_or_head": self.weights}

    def __str__(self) -> str:
        head = f"{'component':<17}{'weights':>12}{'biases, gains':>15}{'total':>12}"
        lines = [f"{r.component:<17}{r.weights:>12,}{r.others:>15,}{r.total:>12,}" for r in self.rows]
        weights, others = (sum(column) for column in zip(*((r.weights, r.others) for r in self.rows), strict=True))
        lines.append(f"{'total':<17}{weights:>12,}{others:>15,}{self.total:>12,}")
        lines += [f"{'used by a token':<44}{self.active:>12,}"] if self.idle else []
        return "\n".join([head, *lines])


def breakdown(spec: ModelSpec, vocab: int, classes: int | None = None) -> Breakdown:
    """Count the parameters of a language model, or of a classifier if `classes` is given.

    Examples:
        >>> h2h.breakdown(h2h.ModelSpec(width=32, layers=1), vocab=100).total
        20096
    """
    with torch.device("meta"):
        return count(LanguageModel(spec, vocab) if classes is None else Classifier(spec, vocab, classes))


def count(model: nn.Module) -> Breakdown:
    """Count a model of this package as it is."""
    counts: dict[str, list[int]] = {c: [0, 0] for c in dict.fromkeys(_COMPONENTS.values()) if c != "convolutions"}
    for name, p in model.named_parameters():
        component = next(_COMPONENTS[piece] for piece in name.split(".") if piece in _COMPONENTS)
        counts.setdefault(component, [0, 0])[p.ndim < 2] += p.numel()
    return Breakdown(tuple(Row(component, *pair) for component, pair in counts.items()), idle_parameters(model))


def idle_parameters(model: nn.Module) -> int:
    """Count the parameters that one token does not use. A module with such parameters says so in `idle`."""
    return sum(int(getattr(module, "idle", 0)) for module in model.modules())
