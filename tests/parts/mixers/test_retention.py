"""Retention in nested loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, InputError, LayerNorm, NoPosition, Position, Rope
from headtohead.parts.mixers.retention import Retention, RetentionHeads
from helpers.mixers import DIMS, both_ways, d, layer_of, matches, plant


def by_loops(position: Position = NoPosition(), first: float = 5.0):  # noqa: B008
    """o_i = norm( Σ_j≤i γ_h^(i−j) <rotate(q_i, i), rotate(k_j, j)> v_j ) ⊙ silu(z_i), pair by pair."""

    def definition(module, x: Tensor) -> Tensor:
        hooks = position.build(DIMS).double()
        groups = module.heads // module.kv_heads
        q, k, v = (f(x).unflatten(-1, (-1, d)) for f in (module.q, module.k, module.v))
        q, k = module.q_norm(q), module.k_norm(k)

        def turned(y: Tensor, i: int) -> Tensor:
            return hooks.rotate(y[None, None, None], torch.tensor([[[[i]]]])).view(-1)

        out = []
        for i in range(len(x)):
            said = []
            for h in range(module.heads):
                gamma, o = 1 - 2 ** (-first - h), torch.zeros(d, dtype=torch.float64)
                for j in range(i + 1):
                    score = turned(q[i, h], i) @ turned(k[j, h // groups], j)
                    o = o + gamma ** (i - j) * score * v[j, h // groups]
                mean = o.mean()
                o = (o - mean) / math.sqrt(float((o - mean).square().mean()) + 1e-5)
                if module.z is not None:
                    z = module.z(x[i]).unflatten(-1, (-1, d))[h]
                    o = o * z / (1 + torch.exp(-z))
                said.append(o)
            out.append(module.out(torch.cat(said)))
        return torch.stack(out)

    return definition


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"kv_heads": 2, "qk_norm": LayerNorm(), "biases.v": True}], ids=["plain", "groups"]
)
def test_a_layer_equals_its_loops(gated, settings):
    mixer = Retention(gated=gated)
    matches(layer_of(mixer, **settings), by_loops())
    matches(layer_of(mixer, Full(), **settings), both_ways(by_loops()), Full())


def test_rotated_queries_and_keys_equal_the_loops():
    """Rope turns by real positions, with padding around the text and with a cache."""
    module = layer_of(Retention(first=1.5))
    matches(module, by_loops(Rope(theta=20.0), 1.5), position=Rope(theta=20.0))


def test_heads_of_width_one_are_refused():
    with pytest.raises(InputError, match="width 1 would be zero"):
        layer_of(Retention(), head_width=1)


BUGS = {
    "one decay for all heads": ("-spec.first - h", "-spec.first"),
    "heads that forget too alike": ("-spec.first - h", "-spec.first - h / 2"),
    "padding that fades the state": ("g = kept(x.new_tensor(self.decays).expand(*q.shape[:3]), keep)",
                                     "g = x.new_tensor(self.decays).expand(*q.shape[:3])"),
    "a state that starts anew in each call": ("None if cache is None else cache.states.get(STATE)", "None"),
    "a norm over all heads": ("o = F.layer_norm(o, o.shape[-1:], eps=self.eps)",
                              "o = F.layer_norm(o.transpose(1, 3), o.shape[1:2], eps=self.eps).transpose(1, 3)"),
    "a gate before the norm": ("o = F.layer_norm(o, o.shape[-1:], eps=self.eps)", "o = o * 1.01"),
    "keys that are not rotated": ("position.rotate(k, mask.i)]", "k]"),
    "values that are rotated": ("(*rotated, v)", "(*rotated, position.rotate(v, mask.i))"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_the_loops_find_planted_bugs(bug, monkeypatch):
    plant(monkeypatch, RetentionHeads, *BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(Retention(first=1.5)), by_loops(Rope(theta=20.0), 1.5), position=Rope(theta=20.0))
