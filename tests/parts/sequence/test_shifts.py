"""Causal convolutions against their definition: padding anywhere, a text in pieces, gradients, planted bugs."""

import pytest
import torch
from torch import Tensor

from headtohead.parts.sequence import shifts
from headtohead.parts.sequence.shifts import ShortConvolution, causal_convolution
from helpers.mixers import planted

B, T, C = 5, 7, 3
KEEP = torch.tensor(
    [[1] * T, [0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 1, 1, 0], [0] * T]
).bool()  # fmt: skip


def inputs(K: int) -> tuple[Tensor, ...]:
    """x, weight, bias and the inputs before x; x is zero at padding, as layers get it."""
    draw = torch.Generator().manual_seed(0)
    shapes = (B, T, C), (C, K), (C,), (B, K - 1, C)
    x, *others = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return x * KEEP[:, :, None], *others


def by_definition(x: Tensor, weight: Tensor, bias: Tensor, last: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """y_t = b + Σ_s w_s · (the input s real tokens before t), in plain loops; zeros at padding."""
    K = weight.shape[1]
    y, end = torch.zeros_like(x), torch.zeros_like(last)
    for b in range(B):
        for c in range(C):
            before = last[b, :, c].tolist()
            for t in range(T):
                if keep[b, t]:
                    before.append(x[b, t, c].item())
                    y[b, t, c] = bias[c] + sum(weight[c, K - 1 - s] * before[-1 - s] for s in range(K))
            for r in range(K - 1):
                end[b, r, c] = before[len(before) - (K - 1) + r]
    return y, end


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("K", [1, 2, 4, T, T + 3])
@pytest.mark.parametrize("padded", [False, True])
def test_the_convolution_equals_its_definition(K, padded):
    x, weight, bias, last = inputs(K)
    keep = KEEP if padded else torch.ones_like(KEEP)
    y, end = causal_convolution(x, weight, bias, last, KEEP if padded else None)
    expected, expected_end = by_definition(x, weight, bias, last, keep)
    same(y * keep[:, :, None], expected)
    same(end, expected_end)


def test_nothing_before_a_text_is_zeros():
    x, weight, bias, last = inputs(4)
    for found, expected in zip(
        causal_convolution(x, weight, bias, None, KEEP),
        causal_convolution(x, weight, bias, 0 * last, KEEP),
        strict=True,
    ):
        assert torch.equal(found, expected)
    assert torch.equal(causal_convolution(x, weight)[0], causal_convolution(x, weight, 0 * bias)[0])


@pytest.mark.parametrize("sizes", [[1] * T, [3, 4], [2, 1, 4]])
@pytest.mark.parametrize("padded", [False, True])
def test_a_text_in_pieces_gives_the_same(sizes, padded):
    x, weight, bias, last = inputs(4)
    keep = KEEP if padded else None
    whole, end = causal_convolution(x, weight, bias, last, keep)
    pieces, start = [], 0
    for size in sizes:
        now = slice(start, start + size)
        y, last = causal_convolution(x[:, now], weight, bias, last, None if keep is None else keep[:, now])
        pieces.append(y)
        start += size
    real = torch.ones_like(KEEP) if keep is None else keep
    same(torch.cat(pieces, dim=1)[real], whole[real])
    same(last, end)


def test_gradients_are_those_of_the_definition():
    given = [x.requires_grad_() for x in inputs(3)]

    def real(*args: Tensor) -> tuple[Tensor, Tensor]:
        y, last = causal_convolution(*args, KEEP)
        return y * KEEP[:, :, None], last

    assert torch.autograd.gradcheck(real, given, fast_mode=True)


BUGS = {
    "one token ahead": ("inputs[:, r : r + T], weight[:, r]", "inputs[:, r + 1 : r + 1 + T], weight[:, r]"),
    "filter turned round": ("inputs[:, r : r + T], weight[:, r]", "inputs[:, r : r + T], weight[:, K - 2 - r]"),
    "the past is forgotten": ("if last is None else last", "if last is None else 0 * last"),
    "padding is a token": ("(~keep).int()", "(keep & False).int()"),
    "padding is stored": ("ends = keep.sum(dim=1, keepdim=True)", "ends = T + 0 * keep.sum(dim=1, keepdim=True)"),
    "real tokens stay in front": ("_pick(y, order.argsort(dim=1))", "y"),
    "last inputs too early": ("return y, inputs[:, T:]", "return y, inputs[:, T - 1 : -1]"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_the_definition(bug):
    (convolve,) = planted(*BUGS[bug], causal_convolution)
    x, weight, bias, last = inputs(4)
    differences = []
    for keep in (None, KEEP):
        real = torch.ones_like(KEEP) if keep is None else KEEP
        y, end = convolve(x, weight, bias, last, keep)
        expected, expected_end = by_definition(x, weight, bias, last, real)
        differences += [float((y - expected)[real].abs().max()), float((end - expected_end).abs().max())]
    assert max(differences) > 1e-3


def test_the_module_is_its_function():
    module = ShortConvolution(C, 4, bias=True).double()
    x, _, _, last = inputs(4)
    expected = shifts.causal_convolution(x, module.weight, module.bias, last, KEEP)
    assert all(torch.equal(a, b) for a, b in zip(module(x, last, KEEP), expected, strict=True))
    assert all(p.abs().max() <= 0.5 for p in module.parameters())
