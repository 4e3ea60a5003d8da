"""Linear attention in nested loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, RMSNorm
from headtohead.parts.mixers.linear import LinearAttention, LinearHeads
from helpers.mixers import both_ways, d, layer_of, matches, mixed, plant


def features(x: list[float], kind: str) -> list[float]:
    if kind == "elu":
        return [value + 1 if value > 0 else math.exp(value) for value in x]
    if kind == "relu":
        return [max(value, 0.0) for value in x]
    signed = [math.exp(value) for value in (*x, *(-value for value in x))]
    return [value / sum(signed) for value in signed]


def by_loops(module, x: Tensor) -> Tensor:
    """o_i = Σ_j≤i (φ(q_i)·φ(k_j)) v_j / Σ_j≤i φ(q_i)·φ(k_j), pair by pair."""
    H, groups, kind = module.heads, module.heads // module.kv_heads, module.spec.features
    q, k, v = (f(x).unflatten(-1, (-1, d)) for f in (module.q, module.k, module.v))
    q, k = module.q_norm(q), module.k_norm(k)
    out = []
    for i in range(len(x)):
        said = []
        for h in range(H):
            total, weights = torch.zeros(d, dtype=torch.float64), 0.0
            for j in range(i + 1):
                pair = zip(features(q[i, h].tolist(), kind), features(k[j, h // groups].tolist(), kind), strict=True)
                weight = sum(a * b for a, b in pair)
                total, weights = total + weight * v[j, h // groups], weights + weight
            said.append(total / weights if weights else total)
        out.append(module.out(torch.cat(said)))
    return torch.stack(out)


@pytest.mark.parametrize("kind", ["elu", "relu", "exp"])
@pytest.mark.parametrize("settings", [{}, {"kv_heads": 2, "qk_norm": RMSNorm()}], ids=["plain", "groups"])
def test_a_layer_equals_its_loops(kind, settings):
    mixer = LinearAttention(features=kind)
    matches(layer_of(mixer, **settings), by_loops)
    matches(layer_of(mixer, Full(), **settings), both_ways(by_loops), Full())


@torch.no_grad()
def test_small_features_of_a_query_are_no_small_weights():
    """Weights are shares, so a query with features of 1e-9 weighs values like any other."""
    module = layer_of(LinearAttention(), **{"biases.q": True}).float()
    module.q.weight.zero_()
    module.q.bias.fill_(-20.0)
    expected = by_loops(module.double(), x := torch.randn(5, 8, dtype=torch.float64))
    torch.testing.assert_close(mixed(module.float(), x[None].float())[0].double(), expected, rtol=0, atol=1e-5)


BUGS = {
    "weights that do not sum to one": ("o[..., :-1] / o[..., -1:].clamp(min=self.floor)", "o[..., :-1]"),
    "padding that is read": ("kept(self._features(k), keep)", "self._features(k)"),
    "a state that starts anew in each call": ("state=None if cache is None else cache.states.get(STATE)", "state=None"),
    "keys of the next group": ("self.grouped(k), self.grouped(v)", "self.grouped(k.roll(1, 1)), self.grouped(v)"),
    "keys without features": ("kept(self._features(k), keep)", "kept(k, keep)"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_loops_find_planted_bugs(bug, monkeypatch):
    plant(monkeypatch, LinearHeads, *BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(LinearAttention(), kv_heads=2), by_loops)
