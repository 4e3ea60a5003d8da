"""One attention layer in nested Python loops, straight from the equation, against both code paths.

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )   over j allowed and kept
    out  = fuse( a · v )

What each position does to it is written here once more, from its paper and in plain numbers, never by its own hooks:
only learned numbers are read from the part. All in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from headtohead import (
    Alibi,
    Biases,
    Causal,
    Dims,
    Disentangled,
    Full,
    Learned,
    Local,
    ModelSpec,
    NoNorm,
    NoPosition,
    Pattern,
    Position,
    Prefix,
    RelativeBias,
    RMSNorm,
    Rope,
    Sinks,
    Sinusoidal,
    explicit,
    families,
)
from headtohead.parts.mixers.attention import MultiHead
from headtohead.parts.sequence.mask import Mask
from headtohead.spec import is_builtin
from helpers.models import attention_layer, memo_of

Vector = list[float]

D, H, d, LAYERS, BLOCK = 8, 4, 4, 2, 128
DIMS = Dims(width=D, heads=H, head_width=d, layers=LAYERS, block=BLOCK)
LAYER = 1  # not the first, so that a layer's own weights cannot be taken from another

# Four texts of seven tokens: positions with gaps, padding on the left, padding on the right, and nothing but padding.
POSITIONS = [[0, 1, 2, 5, 11, 40, 100], [0, 0, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]
KEEP = [[1] * 7, [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0] * 7]
B, T = len(POSITIONS), len(POSITIONS[0])


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def plus(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def linear(layer: torch.nn.Linear, x: Vector) -> Vector:
    y = [dot(row, x) for row in layer.weight.tolist()]
    return y if layer.bias is None else plus(y, layer.bias.tolist())


def of_head(x: Vector, h: int) -> Vector:
    return x[h * d : (h + 1) * d]


# -- positions, each from its paper; H heads, and h counts from 0 -----------------------------------------------------


class Equation:
    """A position that changes nothing."""

    atol = 1e-12

    def __init__(self, spec: Position, part: torch.nn.Module) -> None:
        self.spec, self.part = spec, part

    def added(self, i: int) -> Vector:
        """What is added to the embedding of the token at i."""
        return [0.0] * D

    def turned(self, x: Vector, i: int) -> Vector:
        """A query or key at i."""
        return x

    def score(self, q: Vector, k: Vector, h: int, i: int, j: int) -> float:
        return dot(q, k) / math.sqrt(d)


class LearnedEquation(Equation):
    def added(self, i: int) -> Vector:
        return self.part.table.weight[i].tolist()


class SinusoidalEquation(Equation):
    """Vaswani et al.: PE(i, 2m) = sin(i / 10000^(2m/D)), PE(i, 2m+1) = cos(i / 10000^(2m/D))."""

    atol = 3e-6  # the part keeps its frequencies in float32

    def added(self, i: int) -> Vector:
        waves = [0.0] * D
        for m in range(D // 2):
            waves[2 * m] = math.sin(i / self.spec.base ** (2 * m / D))
            waves[2 * m + 1] = math.cos(i / self.spec.base ** (2 * m / D))
        return [self.spec.amplitude * w for w in waves]


class AlibiEquation(Equation):
    """Press et al.: the slopes are a geometric sequence that starts at 2^(−8/H) with that same ratio."""

    def score(self, q: Vector, k: Vector, h: int, i: int, j: int) -> float:
        ratio = 1 / 2 ** (8 / H)
        slope = ratio
        for _ in range(h):
            slope *= ratio
        slope = slope if self.spec.slope is None else self.spec.slope
        return dot(q, k) / math.sqrt(d) - slope * abs(i - j)


class RopeEquation(Equation):
    """Su et al.: the pair m is multiplied by the rotation matrix of the angle i · θ_m, θ_m = 10000^(−2m/r)."""

    atol = 3e-6  # the part keeps its frequencies in float32

    def turned(self, x: Vector, i: int) -> Vector:
        r = int(self.spec.fraction * d)
        y = list(x)
        for m in range(r // 2):
            angle = i / self.spec.theta ** (2 * m / r)
            rotation = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            pair = [x[m], x[m + r // 2]]  # which two numbers make a pair is a convention; this is Llama's
            y[m], y[m + r // 2] = dot(rotation[0], pair), dot(rotation[1], pair)
        return y


class DisentangledEquation(Equation):
    """He et al., equations 3 and 4: δ(i, j) is 0 for i − j ≤ −s, 2s − 1 for i − j ≥ s, and i − j + s between.

    Their text indexes the position-to-content term with δ(j, i), all their released code with δ(i, j). A checkpoint
    needs the latter, so that is the one meant here; test_deberta proves it.
    """

    def score(self, q: Vector, k: Vector, h: int, i: int, j: int) -> float:
        s, terms = self.spec.span, self.spec.terms
        delta = 0 if i - j <= -s else 2 * s - 1 if i - j >= s else i - j + s
        vector = self.part.table.weight[delta].tolist()
        total, count = dot(q, k), 1
        if terms in ("both", "content-to-position"):
            total, count = total + dot(q, of_head(linear(self.part.keys[LAYER], vector), h)), count + 1
        if terms in ("both", "position-to-content"):
            total, count = total + dot(k, of_head(linear(self.part.queries[LAYER], vector), h)), count + 1
        return total / math.sqrt(count * d)


class RelativeBiasEquation(Equation):
    """Raffel et al., section 2.1: the first half of a side's buckets hold an offset each, the others ever more, up to
    max_distance, beyond which all offsets share the last."""

    def score(self, q: Vector, k: Vector, h: int, i: int, j: int) -> float:
        s = self.spec
        side = s.buckets // 2 if s.sides == "both" else s.buckets
        distance = abs(i - j) if s.sides == "both" else max(i - j, 0)
        exact = side // 2
        if distance < exact:
            bucket = distance
        elif distance >= s.max_distance:
            bucket = side - 1
        else:
            bucket = exact + math.floor((side - exact) * math.log(distance / exact, s.max_distance / exact))
        if s.sides == "both" and j > i:
            bucket += side
        root = math.sqrt(d) if s.scaled else 1.0
        return dot(q, k) / root + self.part.table[bucket, h].item()


EQUATIONS: dict[type[Position], type[Equation]] = {
    NoPosition: Equation,
    Learned: LearnedEquation,
    Sinusoidal: SinusoidalEquation,
    Alibi: AlibiEquation,
    Rope: RopeEquation,
    Disentangled: DisentangledEquation,
    RelativeBias: RelativeBiasEquation,
}
POSITION_DEFAULTS = [cls() for cls in families()["position"].values() if is_builtin(cls)]
POSITION_VARIANTS = [
    Sinusoidal(base=50.0, amplitude=0.3),
    Alibi(slope=1.0),
    Rope(theta=100.0),
    Rope(fraction=0.5),
    Disentangled(span=2),
    Disentangled(span=3, terms="content-to-position"),
    Disentangled(span=3, terms="position-to-content"),
    RelativeBias(buckets=8, max_distance=50),
    RelativeBias(buckets=8, max_distance=50, sides="past"),
    RelativeBias(buckets=8, max_distance=50, scaled=False),
]

PATTERNS: dict[Pattern, Callable[[int, int], bool]] = {
    Full(): lambda _i, _j: True,
    Causal(): lambda i, j: j <= i,
    Local(2): lambda i, j: abs(i - j) <= 1,
    Causal() & Local(3): lambda i, j: j in (i, i - 1, i - 2),
    Sinks(first=1, window=2): lambda i, j: j == 0 or abs(i - j) <= 1,
    Causal() | Prefix(3): lambda i, j: j <= i or j <= 2,
}


# -- the layer, by loops ----------------------------------------------------------------------------------------------


def by_loops(
    layer: MultiHead, eq: Equation, allowed: Callable[[int, int], bool], e: list[list[Vector]]
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """What the heads say (B, H, T, d), the layer's output (B, T, D), and how many rows had nothing to look at."""
    group = layer.q.out_features // layer.k.out_features
    heads = torch.zeros(B, H, T, d, dtype=torch.double)
    out = torch.zeros(B, T, D, dtype=torch.double)
    empty = 0
    for b in range(B):
        p = POSITIONS[b]
        x = [plus(e[b][t], eq.added(p[t])) for t in range(T)]
        q, k, v = ([linear(f, x[t]) for t in range(T)] for f in (layer.q, layer.k, layer.v))
        for t in range(T):
            seen = [u for u in range(T) if KEEP[b][u] and allowed(p[t], p[u])]
            empty += not seen
            said: Vector = []
            for h in range(H):
                qh = eq.turned(normed(layer.q_norm, of_head(q[t], h)), p[t])
                scores = []
                for u in seen:
                    ku = eq.turned(normed(layer.k_norm, of_head(k[u], h // group)), p[u])
                    scores.append(eq.score(qh, ku, h, p[t], p[u]))
                total = sum(math.exp(s) for s in scores)
                o = [0.0] * d
                for s, u in zip(scores, seen, strict=True):
                    o = plus(o, [math.exp(s) / total * value for value in of_head(v[u], h // group)])
                heads[b, h, t] = torch.tensor(o, dtype=torch.double)
                said += o
            out[b, t] = torch.tensor(linear(layer.out, said), dtype=torch.double)
    return heads, out, empty


def normed(norm: torch.nn.Module, x: Vector) -> Vector:
    if isinstance(norm, torch.nn.Identity):
        return x
    root = math.sqrt(dot(x, x) / len(x) + norm.eps)
    return [value / root * g for value, g in zip(x, norm.weight.tolist(), strict=True)]


def compare(position: Position, pattern: Pattern, kv_heads: int = H, qk_norm=NoNorm(), biases=Biases()) -> int:  # noqa: B008
    torch.manual_seed(0)
    part = position.build(DIMS)
    spec = ModelSpec(
        width=DIMS.width,
        heads=DIMS.heads,
        head_width=DIMS.head_width,
        layers=DIMS.layers,
        block=DIMS.block,
        kv_heads=kv_heads,
        biases=biases,
        qk_norm=qk_norm,
    )
    layer = attention_layer(spec, LAYER)
    for p in [*part.parameters(), *layer.parameters()]:
        torch.nn.init.normal_(p, std=0.6)
    part, layer = part.double().eval(), layer.double().eval()
    e = torch.randn(B, T, D, dtype=torch.double)

    eq = EQUATIONS[type(position)](position, part)
    heads, out, empty = by_loops(layer, eq, PATTERNS[pattern], e.tolist())

    i, keep = torch.tensor(POSITIONS), torch.tensor(KEEP, dtype=torch.bool)
    rows, columns = i[:, None, :, None], i[:, None, None, :]
    reach = Mask.of(pattern.allowed(rows, columns) & keep[:, None, None, :], rows, columns, keep)
    fused: list[torch.Tensor] = []
    layer.fuse.register_forward_hook(lambda _module, _given, o: fused.append(o))
    with torch.no_grad():
        x = part.embed(e, i)
        fast = layer(x, reach, part.layer(LAYER), None, memo_of(x))
        with explicit(layer):
            slow = layer(x, reach, part.layer(LAYER), None, memo_of(x))

    for ours, o in zip((fast, slow), fused, strict=True):
        torch.testing.assert_close(o, heads, rtol=0, atol=eq.atol)
        torch.testing.assert_close(ours, out, rtol=0, atol=eq.atol)
        nothing = ~reach_of_loops(pattern)[:, None, :, None].expand_as(o)
        assert (o[nothing] == 0).all()
    return empty


def reach_of_loops(pattern: Pattern) -> torch.Tensor:
    """(B, T): whether the row has anything to look at."""
    allowed = PATTERNS[pattern]
    return torch.tensor(
        [[any(KEEP[b][u] and allowed(p[t], p[u]) for u in range(T)) for t in range(T)] for b, p in enumerate(POSITIONS)]
    )


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("position", [*POSITION_DEFAULTS, *POSITION_VARIANTS], ids=str)
def test_a_layer_matches_its_equation(position, pattern):
    if type(position) not in EQUATIONS:
        pytest.skip(f"{type(position).__name__} has no second derivation in this file")
    assert compare(position, pattern) >= T  # at the least, the text that is all padding


def test_rows_with_nothing_allowed_give_zeros():
    assert compare(NoPosition(), Local(2)) > T


@pytest.mark.parametrize("position", [Rope(), Alibi(), Disentangled(span=3), RelativeBias()], ids=str)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_shared_keys_and_values_match_the_equation(position, kv_heads):
    compare(position, Causal(), kv_heads=kv_heads)


def test_biases_and_normed_q_and_k_match_the_equation():
    compare(Rope(), Causal(), kv_heads=2, qk_norm=RMSNorm(), biases=Biases(q=True, k=True, v=True, out=True))
