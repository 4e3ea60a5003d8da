"""The delta rule against its definition: chunks, pieces, gradients, extreme inputs; DeltaNet in loops; planted bugs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, LanguageModel, parse
from headtohead.parts.mixers.delta import DeltaHeads, DeltaNet, _states_before, delta_scan, unit
from helpers.loops import length_one, linear, of_head, rms_norm, sigmoid, silu
from helpers.mixers import H, both_ways, drawn, layer_of, matches, plant, planted
from helpers.models import SMALL, VOCAB, text

B, DK, DV = 2, 4, 5
Inputs = tuple[Tensor, ...]


def inputs(T: int, heads: int = 3) -> Inputs:
    """q, k, v, β in (0, 2), g and the state before. Keys have length one."""
    draw = torch.Generator().manual_seed(T)
    q, k, v, state = (
        torch.randn(B, heads, *shape, generator=draw, dtype=torch.float64)
        for shape in ((T, DK), (T, DK), (T, DV), (DK, DV))
    )
    beta, g = (torch.rand(B, heads, T, generator=draw, dtype=torch.float64) for _ in range(2))
    return q, k / k.norm(dim=-1, keepdim=True), v, 2 * beta, -2 * g, state


def loops(q: list, k: list, v: list, beta: list, g: list | None, S: list) -> tuple[list, list]:
    """o and the last state of one head, in plain numbers:

    S_t = a_t · S_(t−1) − a_t β_t k_tᵀ (k_t S_(t−1)) + β_t k_tᵀ v_t,  o_t = q_t S_t
    """
    rows, columns, o = range(len(S)), range(len(S[0])), []
    for t in range(len(k)):
        a = 1.0 if g is None else math.exp(g[t])
        recalled = [sum(k[t][i] * S[i][j] for i in rows) for j in columns]
        S = [
            [a * S[i][j] - a * beta[t] * k[t][i] * recalled[j] + beta[t] * k[t][i] * v[t][j] for j in columns]
            for i in rows
        ]
        o.append([sum(q[t][i] * S[i][j] for i in rows) for j in columns])
    return o, S


def by_definition(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor) -> Inputs:
    o, last = torch.zeros_like(v), torch.zeros_like(state)
    for b in range(len(q)):
        for h in range(q.shape[1]):
            lists = [None if x is None else x[b, h].tolist() for x in (q, k, v, beta, g, state)]
            o[b, h], last[b, h] = (torch.tensor(x, dtype=torch.float64) for x in loops(*lists))
    return o, last


def same(found: Inputs, expected: Inputs, tolerance: float = 1e-10) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("T", [1, 2, 7, 16, 33, 130])
@pytest.mark.parametrize("decays", [False, True])
def test_the_scan_equals_its_definition_for_any_chunk(T, decays):
    q, k, v, beta, g, state = inputs(T)
    g = g if decays else None
    expected = by_definition(q, k, v, beta, g, state)
    for chunk in (1, 2, 3, 5, 16, 33, 64, 1000):
        same(delta_scan(q, k, v, beta, g, state, chunk), expected)


def test_no_state_is_a_state_of_zeros():
    *given, state = inputs(9)
    same(delta_scan(*given, None, 4), delta_scan(*given, 0 * state, 4), tolerance=0)


@pytest.mark.parametrize("sizes", [[1] * 9, [3, 6], [1, 1, 4, 3], [8, 1]])
def test_a_text_in_pieces_gives_the_same_with_gradients(sizes):
    """Also the gradients with respect to everything before, through the state that is carried."""
    *given, state = inputs(9)
    results = []
    for pieces in ([9], sizes):
        leaves = [x.clone().requires_grad_() for x in (*given, state)]
        outs, carried, start = [], leaves[-1], 0
        for size in pieces:
            o, carried = delta_scan(*(x[:, :, start : start + size] for x in leaves[:-1]), carried, 4)
            outs.append(o)
            start += size
        out = torch.cat(outs, dim=2)
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        gradients = torch.autograd.grad((out * weights).sum() + carried.square().sum(), leaves)
        results.append((out.detach(), carried.detach(), *gradients))
    same(results[1], results[0])


@pytest.mark.parametrize(("T", "chunk"), [(1, 3), (5, 3), (8, 4)])
def test_gradients_are_those_of_the_definition(T, chunk):
    given = [x.requires_grad_() for x in inputs(T)]
    assert torch.autograd.gradcheck(lambda *x: delta_scan(*x, chunk), given, fast_mode=True)


def test_beta_one_stores_the_value_exactly():
    """Read with the key that was just written, the state answers the value, whatever it held before."""
    q, k, v, beta, g, state = inputs(40)
    o, _ = delta_scan(k, k, v, torch.ones_like(beta), g, state, 16)
    same((o,), (v,))
    _, unchanged = delta_scan(q, k, v, 0 * beta, 0 * g, state, 16)
    same((unchanged,), (state,))


LONG = 4096


@pytest.mark.parametrize("strong", [-0.01, -20.0, -160.0, -1e4])
def test_long_texts_with_strong_decays_are_exact_in_single_precision(strong):
    """Half of the decays are strong; those after them must not lose digits. Gradients are finite."""
    q, k, v, beta, g, state = (x[:1, :1] for x in inputs(LONG))
    g = torch.where(g < -1, strong, g / 100)
    expected, _ = delta_scan(q, k, v, beta, g, state)
    leaves = [x.float().requires_grad_() for x in (q, k, v, beta, g, state)]
    o, last = delta_scan(*leaves)
    assert float((o.detach() - expected).abs().max() / expected.abs().max()) < 5e-6
    assert all(x.isfinite().all() for x in torch.autograd.grad(o.sum() + last.sum(), leaves))


@pytest.mark.parametrize("beta", [0.999, 1.0, 1.9])
@pytest.mark.parametrize("keys", ["random", "equal"])
def test_long_texts_without_decay_stay_bounded(beta, keys):
    q, k, v, strength, _, _ = (x[:1, :1].float() for x in inputs(LONG))
    k = k[:, :, :1].expand_as(k) if keys == "equal" else k
    strength = torch.full_like(strength, beta)
    o, _ = delta_scan(q, k, v, strength)
    expected, _ = delta_scan(*(x.double() for x in (q, k, v, strength)))
    assert float((o - expected).abs().max() / expected.abs().max()) < 1e-5


BUGS = {
    "chunk boundary off by one": (
        "state = new + move @ state",
        "state = new + (before[-2:][0] if len(before) > 1 else move @ state)",
    ),
    "a chunk begins without its state": ("before.append(state)", "before.append(0 * state)"),
    "decay applied twice": (
        "right = torch.cat([v, k * since], dim=-1)",
        "right = torch.cat([v, k * since * since], dim=-1)",
    ),
    "the chunk's own tokens are not recalled": (".tril(-1)", ".tril(-2)"),
    "decay between tokens is left out": ("* between).tril(-1)", ").tril(-1)"),
    "decay to the end is left out": ("ends = (k * until)", "ends = (k * 1)"),
    "old state is not forgotten": ("decay - ends @ w", "decay + 0 * ends @ w"),
    "old state is not corrected in outputs": ("u = u - w @ states", "u = u - 0 * (w @ states)"),
    "queries see the state without decay": ("o = (q * since) @ states", "o = q @ states"),
    "tokens see later tokens": ("(q @ k.transpose(-1, -2) * between) @ u", "(q @ k.transpose(-1, -2)) @ u"),
    "β is not applied to values": ("dim=-1) * beta\n", "dim=-1) * torch.cat([0 * v + 1, 0 * k + beta], dim=-1)\n"),
    "one step forgets the decay": ("state = state if g is None else state * g.exp()[..., None]\n", "\n"),
    "one step reads before it writes": (
        "return q @ state, state\n    g =",
        "return q @ (state - k.transpose(-1, -2) * v), state\n    g =",
    ),
    "one step adds without correction": ("(v - k @ state)", "v"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_the_definition(bug):
    scan = planted(*BUGS[bug], delta_scan, _states_before)[0]
    differences = []
    for T in (1, 9):
        q, k, v, beta, g, state = inputs(T)
        found, expected = scan(q, k, v, beta, g, state, 3), by_definition(q, k, v, beta, g, state)
        differences += [float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)]
    assert max(differences) > 1e-3


# -- the whole mixer --------------------------------------------------------------------------------------------------

ACTIVATIONS = {
    "silu": silu,
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x + 1 if x > 0 else math.exp(x),
    "identity": lambda x: x,
}


def delta_net(module, x: Tensor) -> Tensor:
    """DeltaNet from its equation, for one text (n, D)."""
    spec: DeltaNet = module.spec
    act, outs = ACTIVATIONS[spec.activation], []
    tokens, counts = x.tolist(), (H, module.kv_heads, module.kv_heads)
    for h in range(H):
        q, k, v = (
            [of_head([act(a) for a in linear(layer, token)], h * count // H, count) for token in tokens]
            for layer, count in zip((module.q, module.k, module.v), counts, strict=True)
        )
        beta = [(2 if spec.negative else 1) * sigmoid(linear(module.beta, token)[h]) for token in tokens]
        zeros = [[0.0] * len(v[0]) for _ in k[0]]
        o, _ = loops([length_one(y) for y in q], [length_one(y) for y in k], v, beta, None, zeros)
        outs.append([rms_norm(y, module.norm.weight.tolist(), spec.eps) for y in o])
    rows = [linear(module.out, [a for h in range(H) for a in outs[h][t]]) for t in range(len(tokens))]
    return torch.tensor(rows, dtype=torch.float64)


SPECS = ["DeltaNet", "DeltaNet(negative=True)", *(f"DeltaNet(activation={name})" for name in ACTIVATIONS)]


@pytest.mark.parametrize("spec", SPECS)
def test_delta_net_equals_its_definition(spec):
    matches(layer_of(parse(spec)), delta_net)


def test_heads_may_share_keys_and_values():
    matches(layer_of(parse("DeltaNet"), kv_heads=2), delta_net)


def test_delta_net_reads_both_ways_in_a_classifier():
    matches(layer_of(parse("DeltaNet"), Full()), both_ways(delta_net), Full())


MIXER_BUGS = {
    "keys are not normalised": ("unit(k)", "k"),
    "queries are not normalised": ("unit(q)", "q"),
    "state is not stored": ("cache.states[STATE] = state", "cache.states[STATE] = 0 * state"),
    "padding is written": (
        "kept(write_strength(beta, self.spec.negative), keep)",
        "write_strength(beta, self.spec.negative)",
    ),
    "the norm is left out": ("self.norm(o)", "o"),
}


@pytest.mark.parametrize("bug", MIXER_BUGS)
def test_a_bug_planted_in_delta_net_breaks_the_definition(bug, monkeypatch):
    plant(monkeypatch, DeltaHeads, *MIXER_BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(parse("DeltaNet(activation=elu)")), delta_net)


def test_states_of_two_texts_do_not_mix():
    """A row of the batch does not depend on the others, and a cache begins without a state."""
    model = drawn(LanguageModel(SMALL.set("mixer", "DeltaNet"), VOCAB))
    ids = text(3)
    with torch.no_grad():
        together = model(ids, cache=model.new_cache())
        alone = [model(ids[n : n + 1], cache=model.new_cache())[0] for n in range(3)]
    torch.testing.assert_close(together, torch.stack(alone), rtol=0, atol=1e-12)


def test_unit_has_length_one_and_keeps_zeros():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    y = unit(x)
    torch.testing.assert_close(y, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
