"""Checks of maps: a sound model passes, and each planted fault is called broken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from headtohead import Causal, Local, Prefix
from headtohead.interpret import checks
from headtohead.interpret.maps import attention
from headtohead.parts.mixers.attention import MultiHead
from helpers.models import SMALL, as_if_trained


def verdict_of(found, name):
    return next(check for check in found.checks if check.name == name)


def planted(bug, monkeypatch):
    """A bug in the attention that maps are read from."""
    plain = MultiHead._explicit

    def explicit(self, q, k, v, bias, reach, scale):
        return plain(self, q, k, v, bias, bug(reach), scale)

    monkeypatch.setattr(MultiHead, "_explicit", explicit)
    return attention(as_if_trained(SMALL.set("pattern", Causal() & Local(4))), "nine tok.")


def test_a_sound_model_passes_every_check():
    found = attention(as_if_trained(SMALL.set("pattern", Causal() & Local(3))), "nine tok.")
    assert {c.name: c.verdict for c in found.checks} == {
        "rows": "proved",
        "padding": "proved",
        "future": "proved",
        "reach": "proved",
        "block": "not claimed",
        "used": "proved",
        "prediction": "proved",
    }
    assert (found.real, found.cut, len(found.tokens)) == (9, 0, 12)
    assert found.tokens[9:] == ("<pad>",) * 3
    assert found.weights[:, :, 5, :3].max() == 0
    assert found.weights[:, :, 5, 3:6].min() > 0


def test_a_text_is_cut_to_the_block_and_the_rest_ignored():
    trained = as_if_trained()
    one, other = attention(trained, "twelve bytes, more"), attention(trained, "twelve bytes: less")
    assert (one.real, one.cut, len(one.tokens)) == (12, 6, 12)
    assert verdict_of(one, "block").verdict == "proved"
    assert verdict_of(one, "padding").verdict == "not claimed"
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.answers == other.answers


def test_a_row_with_nothing_allowed_is_not_broken():
    trained = as_if_trained(SMALL.set("pattern", Local(1) & Prefix(2)))
    found = attention(trained, "nine tok.")
    assert found.weights[:, :, 4].max() == 0
    assert verdict_of(found, "rows").verdict == "proved"
    assert "without allowed keys" in verdict_of(found, "rows").says


def test_attention_to_the_future_is_broken(monkeypatch):
    ahead = lambda r: dataclasses.replace(r, allowed=r.allowed | (r.j == r.i + 1))
    found = planted(ahead, monkeypatch)
    assert {c.name for c in found.checks if c.broken} >= {"future", "reach", "used"}
    assert not found.ok


def test_attention_to_padding_is_broken(monkeypatch):
    found = planted(lambda r: dataclasses.replace(r, allowed=torch.ones_like(r.allowed)), monkeypatch)
    assert verdict_of(found, "padding").broken


@pytest.mark.parametrize("window", [3, 5])
def test_a_window_off_by_one_is_broken(window, monkeypatch):
    found = planted(lambda r: dataclasses.replace(r, allowed=(r.j <= r.i) & (r.i - r.j < window)), monkeypatch)
    assert verdict_of(found, "reach").broken
    says = verdict_of(found, "reach").says
    assert ("forbids" in says) if window == 5 else ("allows" in says)


def test_rows_that_do_not_sum_to_one_are_broken(monkeypatch):
    plain = torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda self, dim: 0.99 * plain(self, dim=dim))
    assert verdict_of(attention(as_if_trained(), "nine tok."), "rows").broken


def test_a_fused_path_that_differs_is_broken(monkeypatch):
    plain = MultiHead._sdpa
    monkeypatch.setattr(MultiHead, "_sdpa", lambda self, q, *rest: plain(self, 1.1 * q, *rest))
    found = attention(as_if_trained(), "nine tok.")
    assert verdict_of(found, "used").broken


def test_a_text_beyond_the_block_is_broken():
    w = np.full((1, 1, 5, 5), 0.2)
    allowed = np.ones((5, 5), bool)
    found = checks.sanity(w, [checks.Claim("Full()", allowed)], np.ones(5, bool), block=4, given=5)
    assert next(c for c in found if c.name == "block").broken
