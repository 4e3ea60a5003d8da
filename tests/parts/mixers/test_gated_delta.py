"""Gated DeltaNet in nested loops, with grouped key heads, padding, pieces and planted bugs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, LanguageModel, parse
from headtohead.errors import InputError
from headtohead.parts.mixers.gated_delta import GatedDelta, GatedDeltaHeads
from helpers.loops import convolved, length_one, linear, of_head, rms_norm, sigmoid, silu, softplus
from helpers.mixers import H, both_ways, layer_of, matches, plant
from helpers.models import SMALL, VOCAB

SPECS = [
    "GatedDelta",
    "GatedDelta(negative=True, kernel=1)",
    "GatedDelta(sharing=2, expand=2, kernel=3)",
    "GatedDelta(sharing=4, kernel=2, eps=0.01)",
]


def gated_delta(module, x: Tensor) -> Tensor:
    """Gated DeltaNet from its equation, for one text (n, D)."""
    spec: GatedDelta = module.spec
    tokens, key_heads = x.tolist(), H // spec.sharing
    joined = [linear(module.q, t) + linear(module.k, t) + linear(module.v, t) for t in tokens]
    convolution = module.convolve.weight.tolist()
    mixed = [[silu(a) for a in token] for token in convolved(joined, convolution)]
    keys = module.q.out_features
    rates, biases = module.decay.log_rate.exp().tolist(), module.decay.bias.tolist()
    outs: list[list[float]] = [[] for _ in tokens]
    for h in range(H):
        S: list[list[float]] = []
        for t, token in enumerate(tokens):
            key_head = h * key_heads // H
            q = length_one(of_head(mixed[t][:keys], key_head, key_heads))
            k = length_one(of_head(mixed[t][keys : 2 * keys], key_head, key_heads))
            v = of_head(mixed[t][2 * keys :], h, H)
            S = S or [[0.0] * len(v) for _ in k]
            beta = (2 if spec.negative else 1) * sigmoid(linear(module.beta, token)[h])
            a = math.exp(-rates[h] * softplus(linear(module.g, token)[h] + biases[h]))
            recalled = [a * sum(k[i] * S[i][j] for i in range(len(k))) for j in range(len(v))]
            S = [[a * S[i][j] + beta * k[i] * (v[j] - recalled[j]) for j in range(len(v))] for i in range(len(k))]
            o = [sum(q[i] * S[i][j] for i in range(len(k))) / math.sqrt(len(k)) for j in range(len(v))]
            z = of_head(linear(module.z, token), h, H)
            normed = rms_norm(o, module.norm.weight.tolist(), spec.eps)
            outs[t] += [b * silu(c) for b, c in zip(normed, z, strict=True)]
    return torch.tensor([linear(module.out, row) for row in outs], dtype=torch.float64)


@pytest.mark.parametrize("spec", SPECS)
def test_gated_delta_equals_its_definition(spec):
    matches(layer_of(parse(spec)), gated_delta)


def test_gated_delta_reads_both_ways_in_a_classifier():
    matches(layer_of(parse(SPECS[2]), Full()), both_ways(gated_delta), Full())


BUGS = {
    "keys are not normalised": ("unit(heads(y, self.key_heads))", "heads(y, self.key_heads)"),
    "padding decays the state": ("kept(self.decay(g)[1].transpose(1, 2), keep)", "self.decay(g)[1].transpose(1, 2)"),
    "padding is written": (
        "kept(write_strength(beta, self.spec.negative), keep)",
        "write_strength(beta, self.spec.negative)",
    ),
    "state is not carried": ("beta, g, states.get(STATE))", "beta, g, None)"),
    "inputs are not carried": ("states.get(INPUTS), keep)", "None, keep)"),
    "padding is convolved": ("states.get(INPUTS), keep)", "states.get(INPUTS), None)"),
    "key heads in another order": (
        "repeated(unit(heads(y, self.key_heads)), self.spec.sharing)",
        "unit(heads(y, self.key_heads)).repeat(1, self.spec.sharing, 1, 1)",
    ),
    "queries are not scaled": ("q * self.scale", "q"),
    "the gate is left out": ("self.norm(o) * F.silu(heads(z, self.heads))", "self.norm(o)"),
    "the gate is inside the norm": (
        "self.norm(o) * F.silu(heads(z, self.heads))",
        "self.norm(o * F.silu(heads(z, self.heads)))",
    ),
    "no activation after the convolution": ("F.silu(qkv)", "qkv"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_the_definition(bug, monkeypatch):
    plant(monkeypatch, GatedDeltaHeads, *BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(parse(SPECS[2])), gated_delta)


def test_heads_that_cannot_share_keys_are_refused():
    with pytest.raises(InputError, match="4 heads are not groups of 3"):
        LanguageModel(SMALL.set("mixer", "GatedDelta(sharing=3)"), VOCAB)
