"""The grid of positions: what may be seen, what is reached, what is depended on."""

from __future__ import annotations

import torch
from torch import nn

from headtohead.auditor import as_language_model
from headtohead.auditor.grid import token_grid
from headtohead.auditor.module import Claims, from_module
from headtohead.auditor.subject import from_spec
from headtohead.model.spec import ModelSpec
from headtohead.parts import Full, Local


class Average(nn.Module):
    """Each output is the mean of the whole text."""

    def __init__(self, vocab: int = 23) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, 8), nn.Linear(8, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        return self.head(x + x.mean(dim=1, keepdim=True))


def test_a_window_is_reached_twice_as_far_through_two_layers():
    grid = token_grid(as_language_model(Local(window=3)))
    assert grid is not None
    assert grid.allowed[8].nonzero().flatten().tolist() == [6, 7, 8]
    assert grid.reached[8].nonzero().flatten().tolist() == [4, 5, 6, 7, 8]
    assert torch.equal(grid.seen, grid.reached)
    assert grid.to_json()["length"] == 16


def test_a_module_that_leaks_is_seen_outside_of_what_is_allowed():
    grid = token_grid(from_module(Average, "Average", Claims(causal=True)))
    assert grid is not None
    assert not grid.allowed[0, 1]
    assert not grid.reached[0, 1]
    assert grid.seen.all()
    windowed = token_grid(from_module(Average, "Average", Claims(causal=True, window=2)))
    assert windowed is not None
    assert windowed.allowed[5].nonzero().flatten().tolist() == [4, 5]
    assert "fewer than 2 away" in windowed.says


def test_a_classifier_has_no_grid():
    assert token_grid(from_spec(ModelSpec(width=16, block=16, pattern=Full()), "it", causal=False)) is None
