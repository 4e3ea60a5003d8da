"""Embeddings against their equations; padding, cache and causality are in tests/conformance."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import BigramHash, LanguageModel, Smear
from headtohead.parts.embeddings import NO_TOKEN, hash_of, previous
from headtohead.parts.sequence.state import LayerCache
from helpers.models import SMALL, VOCAB, close, stirred, text

KEEP = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]).bool()
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]])


def vectors(ids: Tensor) -> Tensor:
    return torch.randn(*ids.shape, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("keep", [None, KEEP], ids=["whole texts", "holes"])
@torch.no_grad()
def test_bigrams_match_their_equation(keep):
    hooks, x = stirred(BigramHash(size=50).build(SMALL.dims)), vectors(IDS)
    out = hooks(x, IDS, keep, None)
    for row in range(3):
        before = NO_TOKEN
        for t in range(6):
            if keep is None or keep[row, t]:
                index = int(hash_of(torch.tensor(before), IDS[row, t])) % 50
                close(out[row, t], x[row, t] + hooks.bigrams.weight[index])
                before = int(IDS[row, t])


def test_previous_tokens_continue_over_calls():
    """Calls that hold only padding keep the last token."""
    last, found = None, []
    for part in (slice(0, 1), slice(1, 3), slice(3, 5), slice(5, 6)):
        before, last = previous(IDS[:, part], KEEP[:, part], last)
        found.append(before)
    whole, end = previous(IDS, KEEP)
    assert torch.equal(torch.cat(found, dim=1)[KEEP], whole[KEEP])
    assert torch.equal(last, end)
    assert end[:, 0].tolist() == [9, 8, NO_TOKEN]
    assert whole[KEEP].tolist() == [NO_TOKEN, 3, 1, 1, NO_TOKEN, 5, 3, 5]


def test_pairs_are_spread_over_the_table():
    """All pairs of 200 tokens: as many rows are used, and the fullest is as full, as with random rows."""
    a, b = torch.meshgrid(torch.arange(200), torch.arange(200), indexing="ij")
    rows = torch.bincount((hash_of(a, b) % 4096).flatten(), minlength=4096)
    assert float((rows > 0).float().mean()) == pytest.approx(1 - math.exp(-(200**2) / 4096), abs=0.01)
    assert rows.max() < 35, "the mean is 9.8"
    large = torch.tensor(250_000)
    assert 0 <= int(hash_of(large, large)) < 2**31


@torch.no_grad()
def test_order_of_a_pair_matters():
    model = stirred(LanguageModel(SMALL.set("embedding", BigramHash()), VOCAB))
    assert int(hash_of(torch.tensor(3), torch.tensor(5))) != int(hash_of(torch.tensor(5), torch.tensor(3)))
    ids = text(1)
    other = ids.clone()
    other[0, 4] = ids[0, 4] % (VOCAB - 1) + 1
    embedded, changed = (model.trunk._embed(x, torch.arange(12)[None], None) for x in (ids, other))
    differs = (embedded != changed).any(dim=-1)[0].nonzero()[:, 0].tolist()
    assert differs == [4, 5], "a token and the one after it"


@pytest.mark.parametrize("keep", [None, KEEP], ids=["whole texts", "holes"])
@torch.no_grad()
def test_smear_matches_its_equation(keep):
    hooks, x, cache = stirred(Smear().build(SMALL.dims)), vectors(IDS), LayerCache()
    out = hooks(x, IDS, keep, cache)
    for row in range(3):
        before = torch.zeros(16, dtype=torch.float64)
        for t in range(6):
            if keep is None or keep[row, t]:
                gate = 1 / (1 + math.exp(-float(x[row, t] @ hooks.gate.weight[0])))
                close(out[row, t], x[row, t] + float(hooks.scale) * gate * before)
                before = x[row, t]
        close(cache.states["last"][row, 0], before)
