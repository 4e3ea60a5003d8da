"""Mamba-2 in nested loops, with groups, padding, pieces and planted bugs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import Full, LanguageModel, parse
from headtohead.errors import InputError
from headtohead.parts.mixers.mamba2 import Mamba2Heads
from helpers.loops import convolved, linear, of_head, rms_norm, silu, softplus
from helpers.mixers import H, both_ways, layer_of, matches, plant
from helpers.models import SMALL, VOCAB

SPECS = [
    "Mamba2(state=5)",
    "Mamba2(state=3, groups=2, expand=1, kernel=3)",
    "Mamba2(state=2, groups=4, kernel=1, skip=False, eps=0.01)",
]


def mamba2(module, x: Tensor) -> Tensor:
    """Mamba-2 from its equation, for one text (n, D)."""
    tokens, groups = x.tolist(), module.groups
    joined = [linear(module.q, t) + linear(module.k, t) + linear(module.v, t) for t in tokens]
    weight, bias = module.convolve.weight.tolist(), module.convolve.bias.tolist()
    mixed = [[silu(a) for a in token] for token in convolved(joined, weight, bias)]
    keys, rates, biases = module.q.out_features, module.decay.log_rate.exp().tolist(), module.decay.bias.tolist()
    outs: list[list[float]] = [[] for _ in tokens]
    for h in range(H):
        S: list[list[float]] = []
        skip = 0.0 if module.skip is None else module.skip[h].item()
        for t, token in enumerate(tokens):
            q = of_head(mixed[t][:keys], h * groups // H, groups)
            k = of_head(mixed[t][keys : 2 * keys], h * groups // H, groups)
            v = of_head(mixed[t][2 * keys :], h, H)
            S = S or [[0.0] * len(v) for _ in k]
            dt = softplus(linear(module.dt, token)[h] + biases[h])
            a = math.exp(-rates[h] * dt)
            S = [[a * S[i][j] + dt * k[i] * v[j] for j in range(len(v))] for i in range(len(k))]
            outs[t] += [sum(q[i] * S[i][j] for i in range(len(k))) + skip * v[j] for j in range(len(v))]
    rows = []
    for token, o in zip(tokens, outs, strict=True):
        gated = [a * silu(z) for a, z in zip(o, linear(module.z, token), strict=True)]
        rows.append(linear(module.out, rms_norm(gated, module.norm.weight.tolist(), module.norm.eps)))
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("spec", SPECS)
def test_mamba2_equals_its_definition(spec):
    matches(layer_of(parse(spec)), mamba2)


def test_mamba2_reads_both_ways_in_a_classifier():
    matches(layer_of(parse(SPECS[1]), Full()), both_ways(mamba2), Full())


BUGS = {
    "steps do not scale what is added": ("dt[..., None] * v", "v"),
    "padding decays the state": ("(kept(y.transpose(1, 2), keep) for y in", "(y.transpose(1, 2) for y in"),
    "state is not carried": ("g, states.get(STATE))", "g, None)"),
    "state is carried twice": ("g, states.get(STATE))", "g, 2 * states[STATE] if STATE in states else None)"),
    "inputs are not carried": ("states.get(INPUTS), keep)", "None, keep)"),
    "padding is convolved": ("states.get(INPUTS), keep)", "states.get(INPUTS), None)"),
    "groups in another order": (
        "repeated(heads(y, self.groups), self.heads // self.groups)",
        "heads(y, self.groups).repeat(1, self.heads // self.groups, 1, 1)",
    ),
    "queries and keys exchanged": ("scan(q, k,", "scan(k, q,"),
    "the norm is before the gate": ("self.norm(joined(o) * F.silu(z))", "self.norm(joined(o)) * F.silu(z)"),
    "the skip adds scaled values": ("self.skip[:, None, None] * v", "self.skip[:, None, None] * dt[..., None] * v"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_the_definition(bug, monkeypatch):
    plant(monkeypatch, Mamba2Heads, *BUGS[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(parse(SPECS[1])), mamba2)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="4 heads cannot share 3 groups"):
        LanguageModel(SMALL.set("mixer", "Mamba2(groups=3)"), VOCAB)
    with pytest.raises(InputError, match=r"least_step 0\.2 is above"):
        parse("Mamba2(least_step=0.2)")
