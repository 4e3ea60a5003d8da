"""The cache: positions continue, and caches share nothing."""

from __future__ import annotations

import pytest
import torch

from headtohead import (
    InputError,
    Learned,
    Rope,
)
from helpers.models import SMALL, T, close, language_model, places, text


@pytest.mark.parametrize("position", [Learned(), Rope()], ids=str)
def test_a_text_that_grows_beyond_the_block_is_refused(position):
    model = language_model(SMALL.set("position", position))
    cache = model.new_cache()
    model(text(2, T - 1), cache=cache)
    model(text(2, 1), cache=cache)
    with pytest.raises(InputError, match=rf"^.*{T + 1} tokens.*block is {T}.*larger block.*$"):
        model(text(2, 1), cache=cache)
    assert cache.length == T, "what was refused is not remembered"
    assert all(layer.k.shape[2] == T for layer in cache.layers)


@torch.no_grad()
def test_positions_continue_in_the_cache():
    model, ids = language_model(SMALL), text(2, 6)
    keep = torch.tensor([[1, 1, 1], [0, 0, 1]]).bool()
    cache = model.new_cache()
    places(model, ids[:, :3], keep, cache=cache)
    assert places(model, ids[:, 3:5], cache=cache).tolist() == [[3, 4], [1, 2]]
    assert places(model, ids[:, 5:], cache=cache).tolist() == [[5], [3]]
    assert cache.positions.shape == (2, 6)
    assert cache.keep.tolist() == [[True] * 6, [False, False, True, True, True, True]]
    plain = model.new_cache()
    places(model, ids[:, :4], cache=plain)
    assert places(model, ids[:, 4:], cache=plain).tolist() == [[4, 5]]


@torch.no_grad()
def test_caches_share_nothing():
    model = language_model(SMALL)
    one, other = model.new_cache(), model.new_cache()
    model(text(1, 4), cache=one)
    assert (one.length, other.length) == (4, 0)
    close(model(text(1, 4), cache=other), model(text(1, 4)))
