"""Differential attention against its equation, by nested loops, and its refusals."""

import math

import pytest
import torch

from headtohead import Causal, Differential, InputError, LanguageModel, LayerNorm, Local, OutputGate, PerHead, Rope
from headtohead.model.hooks import WEIGHTS, capture
from helpers.models import SMALL, VOCAB, close, language_model, text

H, d = SMALL.heads, SMALL.dims.head_width
SPEC = SMALL.set("mixer", Differential())


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("pattern", [Causal(), Causal() & PerHead((Local(2), Causal(), Local(4)))], ids=str)
@torch.no_grad()
def test_a_layer_matches_its_equation(kv_heads, pattern):
    model = language_model(SPEC.set("kv_heads", kv_heads).set("pattern", pattern).set("biases.out", False))
    layer, n = model.trunk.blocks[1].attention, 1
    with capture(model, "trunk.blocks.1.attention", read=lambda given, out: (given[0][0], out[0])) as seen:
        model(text(1))
    x, out = seen["trunk.blocks.1.attention"][0]  # (T, D) both
    group, T = H // kv_heads, len(x)
    q = (x @ layer.q.weight.T).view(T, H, d)
    k, v = ((x @ w.T).view(T, kv_heads, d) for w in (layer.k.weight, layer.v.weight))
    b, start = layer.balance, 0.8 - 0.6 * math.exp(-0.3 * n)
    balance = math.exp(sum((b.q1 * b.k1).tolist())) - math.exp(sum((b.q2 * b.k2).tolist())) + start

    def weights(h: int, i: int) -> list[float]:
        seen = [j for j in range(T) if pattern.by_head(H)[h % len(pattern.by_head(H))].allowed(i, j)]
        e = {j: math.exp(float(q[i, h] @ k[j, h // group]) / math.sqrt(d)) for j in seen}
        return [e.get(j, 0.0) / sum(e.values()) for j in range(T)]

    heads = torch.zeros(T, H // 2, 2 * d, dtype=torch.double)
    for i in range(T):
        for h in range(H // 2):
            one, other = weights(h, i), weights(h + H // 2, i)
            for j in range(T):
                pair = torch.cat([v[j, h // group], v[j, (h + H // 2) // group]])
                heads[i, h] += (one[j] - balance * other[j]) * pair
            root = math.sqrt(float(heads[i, h].square().mean()) + 1e-5)
            heads[i, h] = (1 - start) * heads[i, h] / root * layer.norm.weight
    close(out, heads.flatten(1) @ layer.out.weight.T)


def test_both_maps_of_each_pair_can_be_read():
    model = language_model(SPEC)
    with capture(model, WEIGHTS) as seen:
        model(text(2))
    for a in (calls[0] for calls in seen.values()):
        assert a.shape == (2, H, 12, 12)
        torch.testing.assert_close(a.sum(dim=-1), torch.ones(2, H, 12, dtype=torch.double))


def test_the_share_of_the_second_map_grows_with_the_layer():
    model = LanguageModel(SPEC.set("layers", 3), VOCAB)
    starts = [block.attention.balance.start for block in model.trunk.blocks]
    assert starts == pytest.approx([0.2, 0.3555, 0.4707], abs=1e-4)
    fixed = LanguageModel(SPEC.set("mixer.start", 0.3), VOCAB)
    assert [block.attention.balance.start for block in fixed.trunk.blocks] == [0.3, 0.3]


def test_gates_and_fusions_see_half_as_many_heads():
    spec = SPEC.set("gate", OutputGate(per="head")).set("fusion", "Shuffle").set("mixer.norm", LayerNorm())
    layer = language_model(spec).trunk.blocks[0].attention
    assert layer.gate.project.weight.shape == (H // 2, SMALL.width)
    assert sorted(layer.fuse.order) == [0, 1]
    assert layer.norm.weight.shape == (2 * d,)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 1)])
def test_odd_numbers_of_heads_are_refused_in_one_line(heads, kv_heads):
    spec = SMALL.set("heads", heads).set("kv_heads", kv_heads).set("position", Rope())
    with pytest.raises(InputError, match="set even numbers") as error:
        LanguageModel(spec.set("mixer", Differential()), VOCAB)
    assert "\n" not in str(error.value)
