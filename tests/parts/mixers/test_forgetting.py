"""Forgetting attention in nested loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import (
    Alibi,
    Attention,
    Causal,
    Full,
    LanguageModel,
    Local,
    ModelSpec,
    NoPosition,
    Pattern,
    Position,
    Rope,
    explicit,
)
from headtohead.parts.mixers.forgetting import Forgetting, ForgettingHeads, Forgotten
from helpers.mixers import DIMS, H, d, layer_of, matches, mixed, plant
from helpers.models import SMALL, VOCAB, T, text

POSITIONS = [NoPosition(), Rope(theta=20.0), Alibi()]
PATTERNS = [Causal(), Causal() & Local(3), Full()]


def by_loops(position: Position = NoPosition(), pattern: Pattern = Causal(), start: float = 0.0):  # noqa: B008
    """a_ij ∝ exp( <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias_ij − Σ of −log f_t for t between j and i )."""

    def definition(module, x: Tensor) -> Tensor:
        kv, hooks = module.head_counts[1], position.build(DIMS).double()
        q, k, v = (f(x).unflatten(-1, (-1, d)) for f in (module.q, module.k, module.v))
        f = 1 / (1 + torch.exp(-(module.forget(x) + start)))  # (n, H)

        def place(i: int) -> Tensor:
            return torch.tensor([[[[i]]]])

        out = []
        for i in range(len(x)):
            said = []
            for h in range(H):
                g, total, o = h * kv // H, 0.0, torch.zeros(d, dtype=torch.float64)
                for j in range(len(x)):
                    if not pattern.allowed(i, j):
                        continue
                    rows = q[i, h].expand(1, H, 1, d), k[j, g].expand(1, H, 1, d)
                    score = float(hooks.rotate(rows[0], place(i))[0, h, 0] @ hooks.rotate(rows[1], place(j))[0, h, 0])
                    bias = hooks.bias(*rows, place(i), place(j))
                    score = score / math.sqrt(d) + (0.0 if bias is None else float(bias.expand(1, H, 1, 1)[0, h]))
                    for t in range(min(i, j) + 1, max(i, j) + 1):
                        score += math.log(float(f[t, h]))
                    total, o = total + math.exp(score), o + math.exp(score) * v[j, g]
                said.append(o / total)
            out.append(module.out(torch.cat(said)))
        return torch.stack(out)

    return definition


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_layer_equals_its_loops(position, pattern):
    module = layer_of(Forgetting(), pattern, kv_heads=2)
    matches(module, by_loops(position, pattern), pattern, position)
    with explicit(module):
        matches(module, by_loops(position, pattern), pattern, position)


def test_the_start_of_the_gates_is_added():
    matches(layer_of(Forgetting(start=2.0)), by_loops(start=2.0))


@torch.no_grad()
def test_gates_that_forget_nothing_give_attention():
    """With f = 1 the mixer is multi-head attention, with the same weights from the same seed."""
    spec = ModelSpec(width=8, heads=4, layers=1, block=T)
    plain, ours = (LanguageModel(spec.set("mixer", m), VOCAB, 3).eval() for m in (Attention(), Forgetting()))
    shared = dict(ours.named_parameters())
    assert all(torch.equal(p, shared[name]) for name, p in plain.named_parameters())
    ours.trunk.blocks[0].attention.forget.weight.zero_()
    ours.trunk.blocks[0].attention.forget.bias.fill_(60.0)
    torch.testing.assert_close(ours(text(2)), plain(text(2)))


@torch.no_grad()
def test_a_long_text_with_strong_gates_stays_finite():
    """Sums of 2,000 gates that forget nearly all, in single precision."""
    module = layer_of(Forgetting()).float()
    module.forget.bias.fill_(-40.0)
    assert torch.isfinite(mixed(module, torch.randn(1, 2000, 8))).all()


def test_maps_are_those_of_the_outputs():
    spec = SMALL.set("mixer", Forgetting())
    assert spec.mixer.maps
    assert isinstance(LanguageModel(spec, VOCAB).trunk.blocks[0].attention, ForgettingHeads)


BUGS = {
    "a gate that remembers what it should forget": ("F.logsigmoid(gates + self.start)", "F.logsigmoid(-gates)"),
    "padding that forgets": ("kept(F.logsigmoid(gates + self.start), mask.keep)", "F.logsigmoid(gates + self.start)"),
    "sums that start anew in each call": ("before[..., -1:] + sums", "sums"),
    "sums without those of earlier calls": ("torch.cat([before, before[..., -1:] + sums], dim=-1)",
                                            "torch.cat([before * 0, sums], dim=-1)"),
    "gates of one token only": (".cumsum(dim=-1)", ""),
    "a text without its cache": ("cache.states[SUMS] = sums", "cache.states[SUMS] = sums[..., :1].expand_as(sums)"),
}  # fmt: skip
BUGS_OF_THE_BIAS = {
    "later keys that are preferred": ("-(rows - self.sums[:, :, None, :]).abs()", "rows - self.sums[:, :, None, :]"),
    "earlier keys that are preferred": ("-(rows - self.sums", "(rows - self.sums"),
    "the first queries' sums": ("-q.shape[2] :, None]", ": q.shape[2], None]"),
    "a position that is dropped": ("forgotten if bias is None else forgotten + bias", "forgotten"),
    "queries that are not rotated": ("return self.position.rotate(x, i)", "return x"),
}


@pytest.mark.parametrize("bug", [*BUGS, *BUGS_OF_THE_BIAS])
def test_the_loops_find_planted_bugs(bug, monkeypatch):
    plant(monkeypatch, ForgettingHeads if bug in BUGS else Forgotten, *(BUGS | BUGS_OF_THE_BIAS)[bug])
    with pytest.raises(AssertionError):
        _everything_matches()


def _everything_matches() -> None:
    for position in POSITIONS:
        matches(layer_of(Forgetting()), by_loops(position), position=position)
    matches(layer_of(Forgetting(), Full()), by_loops(pattern=Full()), Full())
