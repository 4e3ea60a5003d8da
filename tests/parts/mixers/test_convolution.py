"""The gated short convolution in nested loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead import Full
from headtohead.parts.mixers.convolution import ConvolutionMixer, GatedConvolution
from headtohead.parts.sequence import shifts
from helpers.mixers import both_ways, layer_of, matches, plant

KERNELS = [2, 3, 5, 20]  # the last is longer than the text


def by_loops(module, x: Tensor) -> Tensor:
    """y_t = W_out ( c_t ⊙ Σ_r w_r ⊙ b_(t−r) ⊙ h_(t−r) ), channel by channel; zeros before the text."""
    weight, (b, c, h) = module.convolve.weight, module.into(x).chunk(3, dim=-1)
    D, K = weight.shape
    out = []
    for t in range(len(x)):
        y = [0.0] * D
        for channel in range(D):
            for r in range(min(K, t + 1)):
                y[channel] += float(weight[channel, K - 1 - r] * b[t - r, channel] * h[t - r, channel])
        out.append(module.out(c[t] * torch.tensor(y, dtype=torch.float64)))
    return torch.stack(out)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_layer_equals_its_loops(kernel):
    matches(layer_of(ConvolutionMixer(kernel=kernel)), by_loops)
    matches(layer_of(ConvolutionMixer(kernel=kernel), Full()), both_ways(by_loops), Full())


BUGS = {
    "a state that starts anew in each call": ("None if cache is None else cache.states.get(INPUTS)", "None"),
    "a gate after the convolution": ("self.convolve(b * h", "self.convolve(h"),
    "a gate that is forgotten": ("self.out(c * y)", "self.out(y)"),
    "padding that is taken for a token": ("cache.states.get(INPUTS), keep)", "cache.states.get(INPUTS), None)"),
}
BUGS_OF_THE_SHIFT = {
    "a convolution one step ahead": ("inputs[:, r : r + T]", "inputs[:, r + 1 : r + 1 + T]"),
    "a filter that is turned round": ("weight[:, r])", "weight[:, K - 2 - r])"),
    "a state that is one token late": ("return y, inputs[:, T:]", "return y, inputs[:, T - 1 : -1]"),
    "tokens left where padding was": ("_pick(y, order.argsort(dim=1))", "y"),
    "a state with padding": ("_pick(inputs, ends)", "inputs[:, T:]"),
}


@pytest.mark.parametrize("bug", [*BUGS, *BUGS_OF_THE_SHIFT])
def test_the_loops_find_planted_bugs(bug, monkeypatch):
    thing = GatedConvolution if bug in BUGS else shifts.causal_convolution
    plant(monkeypatch, thing, *(BUGS | BUGS_OF_THE_SHIFT)[bug])
    with pytest.raises(AssertionError):
        matches(layer_of(ConvolutionMixer(kernel=4)), by_loops)
