"""Fast random weights: the distribution that was asked for, the same bits for the same seed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtohead.auditor.draws import SMALLEST, TABLE, FastDraws, add_noise_

SHAPES = [(400, 300), (1100, 1000), (3, 5)]


def drawn(shape: tuple[int, ...], seed: int, fill=nn.init.normal_) -> torch.Tensor:
    torch.manual_seed(seed)
    with FastDraws():
        return fill(torch.empty(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_seed_determines_the_weights(shape):
    assert torch.equal(drawn(shape, 1), drawn(shape, 1))
    assert not torch.equal(drawn(shape, 1), drawn(shape, 2))


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda w: nn.init.normal_(w, 3.0, 0.5), 3.0, 0.5),
        (lambda w: nn.init.normal_(w, std=0.02), 0.0, 0.02),
        (lambda w: nn.init.uniform_(w, -1.0, 2.0), 0.5, 3 / 12**0.5),
        (nn.init.xavier_uniform_, 0.0, (2 / 2100) ** 0.5),
        (lambda w: nn.init.trunc_normal_(w, std=0.1), 0.0, 0.1),
        (lambda w: torch.randn(w.shape), 0.0, 1.0),
        (lambda w: torch.rand(w.shape), 0.5, 1 / 12**0.5),
    ],
)
def test_weights_have_the_distribution_that_was_asked_for(fill, mean, std):
    w = drawn((1100, 1000), 0, fill)
    assert float(w.mean()) == pytest.approx(mean, abs=0.01 * max(std, 0.1))
    assert float(w.std()) == pytest.approx(std, rel=0.01)
    assert not (w[1:] == w[:-1]).all(dim=1).any()


def test_generators_are_asked_and_seeds_differ_between_tensors():
    own = torch.Generator().manual_seed(5)
    with FastDraws():
        a, b = (torch.empty(400, 300).normal_(generator=own) for _ in range(2))
        own.manual_seed(5)
        assert torch.equal(a, torch.empty(400, 300).normal_(generator=own))
    assert not torch.equal(a, b)


def test_small_tensors_are_as_torch_draws_them():
    torch.manual_seed(3)
    wanted = torch.randn(4, 7)
    assert wanted.numel() < SMALLEST
    assert torch.equal(drawn((4, 7), 3), wanted)


@pytest.mark.parametrize("size", [SMALLEST, TABLE, TABLE + 17, 2 * TABLE + 3, 10])
def test_noise_is_added(size):
    p = torch.ones(size)
    add_noise_(p, torch.tensor(0.1), torch.Generator().manual_seed(0))
    assert (p != 1).float().mean() > 0.99
    if size > 1000:
        assert float((p - 1).std()) == pytest.approx(0.1, rel=0.02)
