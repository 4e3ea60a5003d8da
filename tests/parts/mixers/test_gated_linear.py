"""Gated linear attention in nested loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, RMSNorm
from headtohead.parts.mixers.gated_linear import GatedLinear, GatedLinearHeads
from helpers.mixers import both_ways, d, layer_of, matches, plant

SHORT = GatedLinear(rank=2, temperature=0.5)  # gates that forget within a few tokens


def by_loops(module, x: Tensor) -> Tensor:
    """o_i = norm( Σ_j≤i Σ_c q_ic k_jc Π_t=j+1…i α_tc v_j / sqrt(d) ) ⊙ silu(z_i), channel by channel."""
    groups = module.heads // module.kv_heads
    q, k, v = (f(x).unflatten(-1, (-1, d)) for f in (module.q, module.k, module.v))
    q, k = module.q_norm(q), module.k_norm(k)
    alpha = (1 / (1 + torch.exp(-module.up(module.down(x))))).pow(1 / module.temperature).unflatten(-1, (-1, d))
    out = []
    for i in range(len(x)):
        said = []
        for h in range(module.heads):
            o, g = torch.zeros(d, dtype=torch.float64), h // groups
            for j in range(i + 1):
                score = 0.0
                for c in range(d):
                    decay = 1.0
                    for t in range(j + 1, i + 1):
                        decay *= float(alpha[t, g, c])
                    score += float(q[i, h, c] * k[j, g, c]) * decay
                o = o + score / math.sqrt(d) * v[j, g]
            o = o / math.sqrt(float(o.square().mean()) + 1e-5) * module.norm.weight
            if module.z is not None:
                z = module.z(x[i]).unflatten(-1, (-1, d))[h]
                o = o * z / (1 + torch.exp(-z))
            said.append(o)
        out.append(module.out(torch.cat(said)))
    return torch.stack(out)


@pytest.mark.parametrize("mixer", [GatedLinear(), SHORT, GatedLinear(gated=False)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"kv_heads": 2, "qk_norm": RMSNorm()}], ids=["plain", "groups"])
def test_a_layer_equals_its_loops(mixer, settings):
    matches(layer_of(mixer, **settings), by_loops)
    matches(layer_of(mixer, Full(), **settings), both_ways(by_loops), Full())


def test_gates_start_slow():
    """With weights near zero a state loses 4.2 % at each token: sigmoid(0)^(1/16) = 0.958."""
    module = layer_of(GatedLinear())
    assert module.temperature == 16
    assert math.isclose(0.5 ** (1 / module.temperature), 0.9576, abs_tol=1e-4)


BUGS = {
    "gates that forget too fast": (" / self.temperature", ""),
    "a gate of the queries' heads": ("heads(gates, self.kv_heads)", "heads(gates, self.kv_heads).roll(1, -1)"),
    "padding that forgets": ("g = kept(F.logsigmoid(heads(gates, self.kv_heads)) / self.temperature, keep)",
                             "g = F.logsigmoid(heads(gates, self.kv_heads)) / self.temperature"),
    "one decay for all channels": ("self.grouped(v), self.grouped(g)", "self.grouped(v), self.grouped(g).mean(-1)"),
    "a state that starts anew in each call": ("None if cache is None else cache.states.get(STATE)", "None"),
    "scores that are not scaled": ("scan(self.scale * q,", "scan(q,"),
    "a gate without a norm": ("o = self.norm(o)", "o = o"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_the_loops_find_planted_bugs(bug, monkeypatch):
    plant(monkeypatch, GatedLinearHeads, *BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(SHORT, kv_heads=2), by_loops)
