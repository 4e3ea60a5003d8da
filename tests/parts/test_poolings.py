"""Poolings with weights against their equations. Poolings without weights are in tests/conformance."""

import math

import pytest
import torch

from headtohead import AttentionPooling, Classifier, InputError, Mean, Pooling
from helpers.models import CLASSES, SMALL, VOCAB, close, stirred, text
from helpers.registry import forgotten

KEEP = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]).bool()


@pytest.mark.parametrize("heads", [1, 4])
@torch.no_grad()
def test_attention_pooling_matches_its_equation(heads):
    pool, d = stirred(AttentionPooling(heads=heads).build(SMALL.dims)), 16 // heads
    x = torch.randn(3, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out = pool(x, KEEP)
    for row in range(3):
        for h in range(heads):
            part, real = slice(h * d, (h + 1) * d), KEEP[row].nonzero()[:, 0].tolist()
            e = {t: math.exp(float(pool.queries[h] @ x[row, t, part]) / math.sqrt(d)) for t in real}
            expected = sum((e[t] / sum(e.values()) * x[row, t, part] for t in real), torch.zeros(d).double())
            close(out[row, part], expected)


def test_attention_pooling_starts_as_the_mean():
    ours, mean = (Classifier(SMALL.set("pooling", p), VOCAB, CLASSES).double() for p in (AttentionPooling(), Mean()))
    torch.testing.assert_close(ours(text(2)), mean(text(2)))


def test_heads_must_divide_the_width():
    with pytest.raises(InputError, match="divides it"):
        Classifier(SMALL.set("pooling", AttentionPooling(heads=5)), VOCAB, CLASSES)


def test_poolings_without_weights_add_no_names():
    """Weights that were stored before poolings could have some load as they are."""
    assert not [name for name in Classifier(SMALL, VOCAB, CLASSES).state_dict() if "pooling" in name]


def test_a_pooling_without_pool_and_build_is_refused():
    with forgotten():

        class Nothing(Pooling):
            """Nothing."""

        with pytest.raises(InputError, match="neither pool"):
            Classifier(SMALL.set("pooling", Nothing()), VOCAB, CLASSES)(text(1))
