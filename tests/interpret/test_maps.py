"""Maps are the weights that were used, for every part; and what is not as it must be is called broken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtohead import Full, InputError, Mixer
from headtohead.interpret import maps
from headtohead.interpret.maps import attention
from headtohead.interpret.summary import summary
from headtohead.model.hooks import sdpa_weights
from headtohead.parts.mixers.attention import MultiHead
from helpers.models import as_if_trained, model_spec, variants

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
