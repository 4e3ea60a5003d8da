"""Maps are the weights that were used, for every part; and what is not as it must be is called broken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from headtohead import Causal, Full, InputError, Local, Mixer, PerHead, Sigmoid, parse
from headtohead.interpret import maps
from headtohead.interpret.bins import binned
from headtohead.interpret.maps import attention
from headtohead.interpret.summary import summary
from headtohead.model.hooks import capture, sdpa_weights
from headtohead.parts.mixers.attention import MultiHead
from helpers.models import SMALL, as_if_trained, model_spec, variants

MAPPED = [part for part in variants() if not isinstance(part, Mixer) or part.maps]


# -- the weights that were used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", MAPPED, ids=str)
@pytest.mark.parametrize("classes", [0, 3], ids=["lm", "classifier"])
def test_maps_are_the_weights_of_both_paths(part, classes):
    spec = model_spec(part)
    if classes and not part_is_at_home(spec):
        spec = spec.set("pattern", Full())
    trained = as_if_trained(spec, classes=classes, stir=0.1)
    found = attention(trained, "nine tok.")
    ids, keep = maps.pad(torch.from_numpy(trained.vocabulary.encode(["nine tok."])[0].astype(np.int64)), 3)
    with torch.inference_mode():
        fast = maps.used(trained.model, ids, keep)
        n = torch.arange(len(ids))
        sees_any = (spec.pattern.allowed(n[:, None], n) & keep).any(dim=-1, keepdim=True)
    if fast is not None:  # some weightings have no fast path
        assert np.abs(found.weights - (fast * sees_any).numpy())[:, :, keep].max() <= 1e-6
    assert found.weights.max() > 0.05
    if classes or spec.is_causal:  # else padding behind the text is read, and the prediction is another with it
        assert found.ok, [check for check in found.checks if check.broken]


def part_is_at_home(spec):
    return spec.pooling.reads_all or any(spec.pattern.allowed(0, j) for j in range(1, spec.block))


def test_weights_of_the_fused_path_are_exact():
    """In double precision, against the equation written out by hand."""
    trained = as_if_trained()
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
    assert not any("_sdpa" in vars(m) for m in model.modules() if isinstance(m, MultiHead)), "nothing is left behind"


# -- the value ---------------------------------------------------------------------------------------------------------


def test_layers_and_heads_are_chosen_by_number():
    found = attention(as_if_trained(), "nine tok.")
    one = found.only([1], [2, 0])
    assert (one.layers, one.heads, one.weights.shape) == ((1,), (2, 0), (1, 2, 12, 12))
    np.testing.assert_array_equal(one.weights[0, 0], found.weights[1, 2])
    np.testing.assert_array_equal(found.head(1, 0), found.weights[1, 0])
    with pytest.raises(InputError, match="no layer 2: this model has layers 0 to 1"):
        found.only([2])
    with pytest.raises(InputError, match="no head -1"):
        found.only([], [-1])


def test_a_frame_has_a_row_for_each_pair_of_tokens():
    found = attention(as_if_trained(), "ab c")
    frame = found.frame()
    assert len(frame) == 2 * 4 * 4 * 4
    row = frame[(frame.layer == 1) & (frame["head"] == 3) & (frame["query"] == 2) & (frame.key == 1)].iloc[0]
    assert (row.query_token, row.key_token) == (found.tokens[2], found.tokens[1])
    assert row.weight == found.weights[1, 3, 2, 1]


def test_the_prediction_is_that_of_the_model():
    trained = as_if_trained()
    found = attention(trained, "nine tok.")
    ids = torch.from_numpy(trained.vocabulary.encode(["nine tok."])[0].astype(np.int64))[None]
    with torch.no_grad():
        p = trained.model(ids)[0, -1].softmax(dim=-1)
    names = trained.vocabulary.names()
    assert found.answers[0][0] == names[int(p.argmax())]
    assert found.answers[0][1] == pytest.approx(float(p.max()), rel=1e-4)
    assert [p for _, p in found.answers] == sorted((p for _, p in found.answers), reverse=True)


@pytest.mark.parametrize("text", ["", "x"])
def test_maps_of_the_shortest_texts_have_their_shape(text):
    if text:
        found = attention(as_if_trained(), text)
        assert found.weights[0, 0, 0, 0] == 1
        assert found.ok
        assert summary(found)[0]["strongest"] == "–"
    else:
        with pytest.raises(InputError, match="no token"):
            attention(as_if_trained(), text)


# -- layers and heads that differ --------------------------------------------------------------------------------------

HYBRID = SMALL.set("layers", 4).set("mixer", parse("LinearAttention + Attention + LinearAttention + Attention"))


def verdicts(found):
    return {check.name: check.verdict for check in found.checks}


def test_maps_of_a_hybrid_have_the_numbers_of_their_layers():
    trained = as_if_trained(HYBRID)
    found = attention(trained, "nine tok.")
    assert found.layers == (1, 3)
    assert found.without == ((0, "LinearAttention"), (2, "LinearAttention"))
    assert found.silences == ["LinearAttention computes no attention weights: layers 0, 2"]
    assert found.ok
    with capture(trained.model, "trunk.blocks.3.attention.weights") as seen, torch.no_grad():
        ids = torch.from_numpy(trained.vocabulary.encode(["nine tok."])[0].astype(np.int64))
        trained.model(ids[None])
    torch.testing.assert_close(
        torch.from_numpy(found.head(3, 2)[:9, :9]), seen["trunk.blocks.3.attention.weights"][0][0, 2]
    )
    assert sorted(found.frame().layer.unique()) == [1, 3]
    assert {row["layer"] for row in summary(found)} == {1, 3}
    with pytest.raises(InputError, match=r"layer 2 is LinearAttention, which computes no attention weights: .* 1, 3"):
        found.only([2])
    with pytest.raises(InputError, match="no layer 4"):
        found.only([4])


def test_a_model_without_attention_has_no_maps():
    with pytest.raises(InputError, match="LinearAttention computes no attention weights: ") as error:
        attention(as_if_trained(SMALL.set("mixer", "LinearAttention")), "nine tok.")
    assert "\n" not in str(error.value)


def test_a_block_that_is_applied_twice_has_two_layers_of_maps():
    trained = as_if_trained(SMALL.set("loops.times", 2))
    found = attention(trained, "nine tok.")
    assert found.layers == (0, 1, 2, 3)
    assert found.ok
    assert np.abs(found.weights[0] - found.weights[2]).max() > 1e-3
    other = attention(as_if_trained(SMALL.set("loops.times", 2).set("loops.order", "block")), "nine tok.")
    np.testing.assert_array_equal(other.weights[0], found.weights[0])
    assert np.abs(other.weights[1] - found.weights[1]).max() > 1e-3, "block 0 again"


def test_each_layer_and_head_is_checked_by_its_own_pattern(monkeypatch):
    spec = SMALL.set("pattern", (Causal() & PerHead((Local(2), Local(4)))) + Causal())
    found = attention(as_if_trained(spec), "nine tok.")
    assert found.ok
    said = next(check.says for check in found.checks if check.name == "reach")
    assert said.count("weight exactly where") == 3
    assert (found.weights[0, 0, 5] > 0).sum() == 2
    assert (found.weights[0, 1, 5] > 0).sum() == 4
    plain = MultiHead._explicit

    def exchanged(self, q, k, v, bias, mask, scale):
        """The patterns of two heads are exchanged."""
        return plain(self, q, k, v, bias, dataclasses.replace(mask, allowed=mask.allowed.flip(1)), scale)

    monkeypatch.setattr(MultiHead, "_explicit", exchanged)
    broken = attention(as_if_trained(spec), "nine tok.")
    assert verdicts(broken)["reach"] == "broken"


@pytest.mark.parametrize(
    ("setting", "rows", "reach", "used"),
    [
        ("weighting=Sigmoid", "not claimed", "proved", None),
        ("weighting=OffByOne", "not claimed", "proved", None),
        ("weighting=Sparsemax", "proved", "proved", None),
        ("weighting=Softmax + Sigmoid", "proved", "proved", "proved"),
        ("scores=TalkingHeads", "not claimed", "proved", None),
        ("scores=Softcap(cap=1)", "proved", "proved", None),
        ("mixer=Differential", "proved", "proved", "proved"),
        ("mixer=Latent", "proved", "proved", "proved"),
    ],
)
def test_no_sound_weighting_is_called_broken(setting, rows, reach, used):
    name, _, value = setting.partition("=")
    spec = SMALL.set(name, parse(value) if "+" in value else value)
    found = attention(as_if_trained(spec, stir=0.1), "nine tok.")
    assert found.ok, [check for check in found.checks if check.broken]
    assert (verdicts(found)["rows"], verdicts(found)["reach"], verdicts(found).get("used")) == (rows, reach, used)
    for row in summary(found):
        assert 0 <= row["entropy"] <= np.log(9)
        assert 0 <= row["self"] <= 1


def test_weights_with_signs_are_drawn_by_their_size():
    spec = SMALL.set("scores", "TalkingHeads(at=after)")
    trained = as_if_trained(spec)
    found = attention(trained, "nine tok.")
    assert found.weights.min() < 0
    assert "sizes" in next(check.says for check in found.checks if check.name == "rows")
    np.testing.assert_array_equal(binned(found.weights, np.arange(13)), np.abs(found.weights))
    assert found._repr_png_()


def test_a_weighting_that_breaks_its_claim_is_found(monkeypatch):
    monkeypatch.setattr(Sigmoid, "sums_to_one", True)
    found = attention(as_if_trained(SMALL.set("weighting", "Sigmoid")), "nine tok.")
    assert verdicts(found)["rows"] == "broken"
    assert not found.ok
