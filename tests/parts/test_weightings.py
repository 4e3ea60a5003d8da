"""Weightings against their definitions: by bisection or loops, with gradients, and with keys that may not be seen."""

import math

import pytest
import torch
from torch import Tensor

from headtohead import (
    Entmax15,
    LearnedSinks,
    OffByOne,
    Sigmoid,
    Softmax,
    Sparsemax,
    Weighting,
    families,
)
from headtohead.spec import is_builtin
from helpers.models import SMALL, VOCAB, close

B, H, TQ, TK = 2, 4, 5, 7
EVERY = [cls() for cls in families()["weighting"].values() if is_builtin(cls)] + [Sigmoid(n="keys"), Sigmoid(n="one")]
every = pytest.mark.parametrize("weighting", EVERY, ids=str)


def built(weighting: Weighting) -> torch.nn.Module:
    module = weighting.build(SMALL.set("block", 16).layer(0, VOCAB)).double()
    with torch.no_grad():
        for n, p in enumerate(module.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel(), dtype=torch.float64).view_as(p) + n)
    return module


def scores(scale: float = 2.0, hidden: bool = True) -> Tensor:
    """Random scores, with −inf for some keys: query i sees the first i + 1 keys."""
    s = scale * torch.randn(B, H, TQ, TK, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return s.masked_fill(torch.arange(TK) > torch.arange(TQ)[:, None], -torch.inf) if hidden else s


def by_bisection(row: list[float], weight) -> list[float]:
    """Weights weight(s, τ) of one row, with τ such that they sum to one."""
    low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        if sum(weight(s, middle) for s in row) > 1:
            low = middle
        else:
            high = middle
    return [weight(s, low) for s in row]


def sinks(head: int) -> float:
    return -1 + 2 * head / (H - 1)


DEFINITIONS = {
    Softmax(): lambda row, _head: [math.exp(s) / sum(map(math.exp, row)) for s in row],
    OffByOne(): lambda row, _head: [math.exp(s) / (1 + sum(map(math.exp, row))) for s in row],
    LearnedSinks(): lambda row, h: [math.exp(s) / (math.exp(sinks(h)) + sum(map(math.exp, row))) for s in row],
    Sigmoid(): lambda row, _head: [1 / (1 + 16 * math.exp(-s)) for s in row],
    Sigmoid(n="keys"): lambda row, _head: [1 / (1 + len(row) * math.exp(-s)) for s in row],
    Sigmoid(n="one"): lambda row, _head: [1 / (1 + math.exp(-s)) for s in row],
    Sparsemax(): lambda row, _head: by_bisection(row, lambda s, t: max(s - t, 0.0)),
    Entmax15(): lambda row, _head: by_bisection(row, lambda s, t: max(s / 2 - t, 0.0) ** 2),
}


@every
@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0])
@torch.no_grad()
def test_weights_are_those_of_the_definition(weighting, scale):
    s = scores(scale)
    a = built(weighting)(s)
    for b in range(B):
        for h in range(H):
            for i in range(TQ):
                expected = DEFINITIONS[weighting](s[b, h, i, : i + 1].tolist(), h)
                torch.testing.assert_close(a[b, h, i, : i + 1].tolist(), expected, rtol=1e-9, atol=1e-9)
                assert (a[b, h, i, i + 1 :] == 0).all()


@every
def test_gradients_are_those_of_differences(weighting):
    s = scores(hidden=False).requires_grad_()
    assert torch.autograd.gradcheck(built(weighting), (s,))


@every
def test_keys_that_are_not_seen_leave_no_trace(weighting):
    """In weights, in the gradient, and as NaN; also where a query sees nothing, except with softmax."""
    s = scores()
    if weighting != Softmax():
        s[0, 0, 0] = -torch.inf
    s.requires_grad_()
    a = built(weighting)(s)
    (a * torch.randn(a.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).sum().backward()
    hidden = torch.isinf(s.detach())
    assert torch.isfinite(a).all()
    assert torch.isfinite(s.grad).all()
    assert (a[hidden] == 0).all()
    assert (s.grad[hidden] == 0).all()


@every
@pytest.mark.parametrize("scale", [0.1, 30.0, 1e4])
@torch.no_grad()
def test_claims_about_sums_and_zeros_hold(weighting, scale):
    a = built(weighting).float()(scores(scale).float())
    total = a.sum(dim=-1)
    assert (a >= 0).all()
    if weighting.sums_to_one:
        torch.testing.assert_close(total, torch.ones_like(total))
    if weighting.at_most_one:
        assert (total <= 1 + 1e-6).all()
    if scale == 0.1 and weighting.dense:
        assert (a[~torch.isinf(scores())] > 0).all()


@pytest.mark.parametrize("weighting", [Sparsemax(), Entmax15()], ids=str)
@torch.no_grad()
def test_equal_scores_have_equal_weights(weighting):
    s = torch.tensor([[[[1.0, 1.0, 0.9, 1.0], [3.0, 0.0, 0.0, -9.0]]]], dtype=torch.float64)
    a = built(weighting)(s)[0, 0]
    assert a[0, 0] == a[0, 1] == a[0, 3] > a[0, 2] > 0
    close(a[1], torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


@torch.no_grad()
def test_sinks_at_zero_are_softmax_off_by_one():
    module = LearnedSinks().build(SMALL.layer(0, VOCAB)).double()
    close(module(scores()), built(OffByOne())(scores()))


@torch.no_grad()
def test_a_query_can_attend_to_nothing():
    low = torch.full((1, H, 1, TK), -30.0, dtype=torch.float64)
    for weighting in (OffByOne(), LearnedSinks(), Sigmoid()):
        assert built(weighting)(low).sum() < 1e-6
