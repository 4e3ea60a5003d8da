"""Maps are the weights that were used, for every part; and what is not as it must be is called broken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from conformance.small import model_spec, variants
from headtohead import Causal, Full, InputError, Local, Prefix
from headtohead.attention import Attention
from headtohead.inspect import checks, maps
from headtohead.inspect.bins import bin_edges, bin_labels, binned
from headtohead.inspect.maps import attention
from headtohead.inspect.summary import summary
from headtohead.taps import sdpa_weights

from .small import SMALL, made

IN_ATTENTION = ("position", "pattern", "fusion", "norm", "residual", "feedforward", "pooling")


def verdict_of(found, name):
    return next(check for check in found.checks if check.name == name)


# -- the weights that were used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [p for p in variants() if p.family in IN_ATTENTION], ids=str)
@pytest.mark.parametrize("classes", [0, 3], ids=["lm", "classifier"])
def test_maps_are_the_weights_of_both_paths(part, classes):
    spec = model_spec(part)
    if classes and not part_is_at_home(spec):
        spec = spec.set("pattern", Full())
    trained = made(spec, classes=classes, stir=0.1)
    found = attention(trained, "nine tok.")
    ids, keep = maps.pad(torch.from_numpy(trained.vocabulary.encode(["nine tok."])[0].astype(np.int64)), 3)
    with torch.inference_mode():
        fast = maps.used(trained.model, ids, keep)
        allowed = maps.reach(trained, len(ids), keep)
    fast = fast * allowed.any(dim=-1, keepdim=True)
    assert np.abs(found.weights - fast.numpy())[:, :, keep].max() <= 1e-6
    assert found.weights.max() > 0.05
    causal = spec.pattern.is_causal(spec.block) and spec.fusion.causal
    if classes or causal:  # else padding behind the text is read, and the prediction is another with it
        assert found.ok, [check for check in found.checks if check.broken]


def part_is_at_home(spec):
    return spec.pooling.reads_all or any(spec.pattern.allowed(0, j) for j in range(1, spec.block))


def test_the_fast_paths_weights_are_found_out_exactly():
    """In double precision, against the equation written out by hand."""
    trained = made()
    model = trained.model.double()
    ids = torch.tensor([[5, 6, 7, 8]])
    layer = model.trunk.blocks[0].attention
    with torch.no_grad(), sdpa_weights(model) as seen:
        model(ids)
        x = model.trunk.position.embed(model.trunk.tokens(ids), torch.arange(4)[None])
        x = model.trunk.blocks[0].around_attention.norm(x)
        q, k = (part(x).view(4, 4, 4).transpose(0, 1) for part in (layer.q, layer.k))  # (H, T, d)
    expected = torch.zeros(4, 4, 4, dtype=torch.float64)
    for h in range(4):
        for i in range(4):
            scores = torch.stack([q[h, i] @ k[h, j] / 2 for j in range(i + 1)])
            expected[h, i, : i + 1] = scores.exp() / scores.exp().sum()
    name = next(iter(seen))
    torch.testing.assert_close(seen[name][0][0], expected, atol=1e-12, rtol=0)
    assert not any("_sdpa" in vars(m) for m in model.modules() if isinstance(m, Attention)), "nothing is left behind"


# -- what must hold ----------------------------------------------------------------------------------------------------


def test_everything_is_proved_of_a_sound_model():
    found = attention(made(SMALL.set("pattern", Causal() & Local(3))), "nine tok.")
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


def test_the_block_cuts_and_what_is_cut_does_not_matter():
    trained = made()
    one, other = attention(trained, "twelve bytes, more"), attention(trained, "twelve bytes: less")
    assert (one.real, one.cut, len(one.tokens)) == (12, 6, 12)
    assert verdict_of(one, "block").verdict == "proved"
    assert verdict_of(one, "padding").verdict == "not claimed"
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.answers == other.answers


def test_a_row_that_may_look_nowhere_is_empty_and_not_broken():
    trained = made(SMALL.set("pattern", Local(1) & Prefix(2)))
    found = attention(trained, "nine tok.")
    assert found.weights[:, :, 4].max() == 0
    assert verdict_of(found, "rows").verdict == "proved"
    assert "may look nowhere" in verdict_of(found, "rows").says


def planted(bug, monkeypatch):
    """A bug in the attention that maps are read from."""
    plain = Attention._explicit

    def explicit(self, q, k, v, bias, reach, scale):
        return plain(self, q, k, v, bias, bug(reach), scale)

    monkeypatch.setattr(Attention, "_explicit", explicit)
    return attention(made(SMALL.set("pattern", Causal() & Local(4))), "nine tok.")


def test_a_look_ahead_is_broken(monkeypatch):
    ahead = lambda r: dataclasses.replace(r, allowed=r.allowed | (r.j == r.i + 1))
    found = planted(ahead, monkeypatch)
    assert {c.name for c in found.checks if c.broken} >= {"future", "reach", "used"}
    assert not found.ok


def test_a_look_at_padding_is_broken(monkeypatch):
    found = planted(lambda r: dataclasses.replace(r, allowed=torch.ones_like(r.allowed)), monkeypatch)
    assert verdict_of(found, "padding").broken


@pytest.mark.parametrize("window", [3, 5])
def test_a_band_that_is_one_too_narrow_or_too_wide_is_broken(window, monkeypatch):
    found = planted(lambda r: dataclasses.replace(r, allowed=(r.j <= r.i) & (r.i - r.j < window)), monkeypatch)
    assert verdict_of(found, "reach").broken
    says = verdict_of(found, "reach").says
    assert ("forbids" in says) if window == 5 else ("allows" in says)


def test_rows_that_do_not_sum_to_one_are_broken(monkeypatch):
    plain = torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda self, dim: 0.99 * plain(self, dim=dim))
    assert verdict_of(attention(made(), "nine tok."), "rows").broken


def test_a_fast_path_of_its_own_is_broken(monkeypatch):
    plain = Attention._sdpa
    monkeypatch.setattr(Attention, "_sdpa", lambda self, q, *rest: plain(self, 1.1 * q, *rest))
    found = attention(made(), "nine tok.")
    assert verdict_of(found, "used").broken


def test_a_text_that_is_not_cut_is_broken():
    w = np.full((1, 1, 5, 5), 0.2)
    allowed = np.ones((5, 5), bool)
    found = checks.sanity(w, allowed, np.ones(5, bool), block=4, pattern="Full()", given=5)
    assert next(c for c in found if c.name == "block").broken


# -- the value ---------------------------------------------------------------------------------------------------------


def test_layers_and_heads_are_chosen_by_number():
    found = attention(made(), "nine tok.")
    one = found.only([1], [2, 0])
    assert (one.layers, one.heads, one.weights.shape) == ((1,), (2, 0), (1, 2, 12, 12))
    np.testing.assert_array_equal(one.weights[0, 0], found.weights[1, 2])
    np.testing.assert_array_equal(found.head(1, 0), found.weights[1, 0])
    with pytest.raises(InputError, match="no layer 2: this model has layers 0 to 1"):
        found.only([2])
    with pytest.raises(InputError, match="no head -1"):
        found.only([], [-1])


def test_a_frame_has_a_row_for_each_pair_of_tokens():
    found = attention(made(), "ab c")
    frame = found.frame()
    assert len(frame) == 2 * 4 * 4 * 4
    row = frame[(frame.layer == 1) & (frame["head"] == 3) & (frame["query"] == 2) & (frame.key == 1)].iloc[0]
    assert (row.query_token, row.key_token) == (found.tokens[2], found.tokens[1])
    assert row.weight == found.weights[1, 3, 2, 1]


def test_the_answer_is_the_models_own():
    trained = made()
    found = attention(trained, "nine tok.")
    ids = torch.from_numpy(trained.vocabulary.encode(["nine tok."])[0].astype(np.int64))[None]
    with torch.no_grad():
        p = trained.model(ids)[0, -1].softmax(dim=-1)
    names = trained.vocabulary.names()
    assert found.answers[0][0] == names[int(p.argmax())]
    assert found.answers[0][1] == pytest.approx(float(p.max()), rel=1e-4)
    assert [p for _, p in found.answers] == sorted((p for _, p in found.answers), reverse=True)


@pytest.mark.parametrize("text", ["", "x"])
def test_the_shortest_texts(text):
    if text:
        found = attention(made(), text)
        assert found.weights[0, 0, 0, 0] == 1
        assert found.ok
        assert summary(found)[0]["strongest"] == "–"
    else:
        with pytest.raises(InputError, match="no token"):
            attention(made(), text)


def test_a_summary_is_what_it_says():
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[0, 0] = [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]]
    found = dataclasses.replace(
        attention(made(), "abc", padding=0), weights=w, tokens=("a", "b", "c"), real=3, layers=(0,), heads=(0,)
    )
    row = summary(found)[0]
    entropy = (-0.25 * np.log(0.25) - 0.75 * np.log(0.75) - 0.5 * np.log(0.5) - 0.5 * np.log(0.25)) / 2
    assert row["entropy"] == pytest.approx(entropy), "the first query has no choice and does not count"
    assert row["distance"] == pytest.approx((0.25 + (1 + 0.25)) / 2)
    assert row["self"] == pytest.approx((0.75 + 0.25) / 2)
    assert row["previous"] == pytest.approx((0.25 + 0.25) / 2)
    assert row["first"] == pytest.approx((0.25 + 0.5) / 2)
    assert row["strongest"] == "'c' → 'a' 0.50"


# -- bins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "bins"), [(7, 3), (10, 10), (5, 9), (1, 1), (100, 7)])
def test_bins_keep_rows_summing_to_one(length, bins):
    w = np.random.default_rng(0).random((2, length, length))
    w /= w.sum(axis=-1, keepdims=True)
    edges = bin_edges(length, bins)
    small = binned(w, edges)
    width = -(-length // bins)
    n = -(-length // width)
    assert set(np.diff(edges)[:-1]) <= {width}, "a wider bin among narrow ones is a stripe that is not there"
    assert small.shape == (2, n, n)
    np.testing.assert_allclose(small.sum(axis=-1), 1)
    for a in range(n):
        for b in range(n):
            block = w[1, edges[a] : edges[a + 1], edges[b] : edges[b + 1]]
            assert small[1, a, b] == pytest.approx(block.sum(axis=1).mean())
    assert len(bin_labels(["t"] * length, edges)) == n
