"""Outputs against their equations. Their losses are in tests/model/test_losses.py."""

import math

import pytest
import torch

from headtohead import CappedOutput
from helpers.models import SMALL, VOCAB


@torch.no_grad()
def test_capped_logits_match_their_equation():
    hooks = CappedOutput(cap=2.5).build(SMALL.dims, VOCAB)
    z = torch.linspace(-50, 50, 21, dtype=torch.float64)
    for ours, given in zip(hooks(z).tolist(), z.tolist(), strict=True):
        assert ours == pytest.approx(2.5 * math.tanh(given / 2.5), abs=1e-12)
    assert hooks(z).abs().max() <= 2.5
