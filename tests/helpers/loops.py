"""Vectors as lists of plain numbers, for definitions in nested loops."""

from __future__ import annotations

import math

from torch import nn

Vector = list[float]


def linear(layer: nn.Linear, x: Vector) -> Vector:
    y = [sum(w * a for w, a in zip(row, x, strict=True)) for row in layer.weight.tolist()]
    return y if layer.bias is None else [a + b for a, b in zip(y, layer.bias.tolist(), strict=True)]


def of_head(x: Vector, h: int, heads: int) -> Vector:
    """The share of one head in the vector of all heads."""
    width = len(x) // heads
    return x[h * width : (h + 1) * width]


def length_one(x: Vector, eps: float = 1e-6) -> Vector:
    size = math.sqrt(sum(a * a for a in x) + eps)
    return [a / size for a in x]


def rms_norm(x: Vector, gain: Vector, eps: float) -> Vector:
    size = math.sqrt(sum(a * a for a in x) / len(x) + eps)
    return [a / size * g for a, g in zip(x, gain, strict=True)]


def silu(x: float) -> float:
    return x * sigmoid(x)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def convolved(tokens: list[Vector], weight: list[Vector], bias: Vector | None = None) -> list[Vector]:
    """Each channel of each token: bias + Σ_s w_s · (the token s before it), the last weight for the token itself."""
    K = len(weight[0])
    return [
        [
            (0.0 if bias is None else bias[c])
            + sum(weight[c][K - 1 - s] * tokens[t - s][c] for s in range(min(K, t + 1)))
            for c in range(len(weight))
        ]
        for t in range(len(tokens))
    ]
