"""Dropout by its definition: each value zero with probability p, the others scaled so that the mean stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtohead.auditor.trace import DropoutOff
from headtohead.parts.sequence.dropout import LEVELS, Dropout, dropout


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.9])
def test_dropout_zeroes_the_share_and_keeps_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 1003)  # no multiple of four
    y = dropout(x, p)
    n = x.numel()
    assert abs((y == 0).float().mean().item() - p) < 5 * (p * (1 - p) / n) ** 0.5 + 1 / LEVELS
    assert y.mean().item() == pytest.approx(1, abs=5 * (p / (1 - p) / n) ** 0.5)
    assert len(y.unique()) == 2


def test_dropped_neighbours_are_independent():
    """Four values share one draw of 64 bits."""
    torch.manual_seed(0)
    zero = (dropout(torch.ones(400_000), 0.5) == 0).float().view(-1, 4)
    assert (torch.corrcoef(zero.T) - torch.eye(4)).abs().max() < 0.02
    after = torch.corrcoef(torch.stack([zero[:-1, 3], zero[1:, 0]]))[0, 1]
    assert abs(after) < 0.02


def test_dropout_gradients_pass_where_values_do():
    torch.manual_seed(0)
    x = torch.randn(50, 7, requires_grad=True)
    y = dropout(x, 0.3)
    y.sum().backward()
    assert torch.equal(x.grad, (y.detach() != 0) * (LEVELS / (LEVELS - round(0.3 * LEVELS))))


def test_dropout_follows_its_random_stream():
    x = torch.ones(64)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(dropout(x, 0.5))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


@pytest.mark.parametrize(("p", "share"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_0_and_1_keeps_all_and_nothing(p, share):
    assert torch.equal(dropout(torch.ones(10), p), torch.full((10,), share))


def test_dropout_is_off_in_evaluation():
    layer = Dropout(0.5)
    x = torch.ones(100)
    assert (layer(x) == 0).any()
    assert layer.eval()(x) is x


def test_the_audit_can_switch_dropout_off():
    x = torch.ones(100)
    with DropoutOff():
        assert torch.equal(nn.Sequential(Dropout(0.5)).train()(x), x)
