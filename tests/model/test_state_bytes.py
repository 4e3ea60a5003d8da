"""The bytes that are listed are those of a real cache."""

import pytest
import torch

from headtohead import LanguageModel, Mixer, ModelSpec, breakdown, families
from headtohead.model.state_bytes import StateBytes, state_bytes
from headtohead.spec import is_builtin
from helpers.models import SMALL, VOCAB, text

MIXERS = [c() for c in families()["mixer"].values() if is_builtin(c)]


@pytest.mark.parametrize("spec", [SMALL.set("mixer", m).set("block", 70) for m in MIXERS], ids=lambda s: str(s.mixer))
@torch.no_grad()
def test_bytes_are_those_of_a_cache(spec):
    said, model = state_bytes(spec), LanguageModel(spec, VOCAB).eval()
    assert said is not None
    for pieces in ([1], [5], [3, 1, 1, 40], [70]):
        cache, start, ids = model.new_cache(), 0, text(1, 70)
        for size in pieces:
            model(ids[:, start : start + size], cache=cache)
            start += size
        assert said.after(start) == cache.bytes


def test_keys_and_values_are_counted_by_their_formula():
    assert state_bytes(SMALL) == StateBytes(0, 2 * 2 * 16 * 4)  # keys and values, two layers, width 16, four bytes
    assert state_bytes(SMALL.set("kv_heads", 1)) == StateBytes(0, 2 * 2 * 4 * 4)
    assert state_bytes(SMALL.set("loops.times", 3)) == StateBytes(0, 3 * 2 * 2 * 16 * 4)
    retained = state_bytes(SMALL.set("mixer", "Retention"))
    assert retained == StateBytes(2 * 4 * 4 * 4 * 4, 0)  # two layers, four heads of 4 × 4 numbers, four bytes
    assert str(retained) == "512 bytes for each text, however long"
    mixed = state_bytes(SMALL.set("mixer", "Retention + Attention"))
    assert str(mixed) == "128 bytes for each token, and 256 bytes for each text"


def test_large_models_are_not_allocated():
    large = ModelSpec(width=1 << 14, heads=64, layers=2, block=1 << 20)
    assert breakdown(large, 10).total > 1 << 31
    assert state_bytes(large) == StateBytes(0, 2 * 2 * (1 << 14) * 4)


class _Reads(torch.nn.Module):
    def forward(self, x, mask, position, cache, memo):
        return x * float(x.sum())


def test_a_part_that_reads_values_is_not_known(monkeypatch):
    monkeypatch.setattr(type(SMALL.mixer), "build", lambda *_: _Reads())
    assert isinstance(SMALL.mixer, Mixer)
    assert state_bytes(SMALL) is None
