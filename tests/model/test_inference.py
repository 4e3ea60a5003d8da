"""The copy of a model for generation."""

from __future__ import annotations

import pytest
import torch

from headtohead.interpret.generate import (
    Decoding,
    continued,
)
from headtohead.model.inference import lean
from helpers.models import as_if_trained, causal_spec, variants


@pytest.mark.parametrize("part", variants(), ids=str)
def test_the_lean_copy_gives_the_same_bits(part):
    """The same bits, for every part; and the very weights, not copies of them."""
    model = as_if_trained(causal_spec(part), stir=0.1).model
    copy, ids = lean(model), torch.tensor([[70, 80, 90, 100]])
    with torch.inference_mode():
        assert torch.equal(copy(ids), model(ids))
        for p in model.parameters():
            p.mul_(1.5)
        assert torch.equal(copy(ids), model(ids))
    assert type(copy) is not type(model)
    assert isinstance(copy, type(model))


def test_a_model_with_hooks_is_not_copied():
    model, seen = as_if_trained().model, []
    handle = model.trunk.blocks[0].attention.q.register_forward_hook(lambda *_: seen.append(1))
    assert lean(model) is model
    list(continued(model, torch.tensor([70, 80, 90]), 3, 1, Decoding(top_k=20), cached=True))
    assert len(seen) == 3
    handle.remove()
    assert lean(model) is not model
    assert lean(model.train()) is model
