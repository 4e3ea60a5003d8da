"""Parameters are counted without building the model."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headtohead import (
    Alibi,
    Biases,
    Canon,
    Causal,
    Classifier,
    Disentangled,
    Experts,
    Full,
    Gated,
    HeadSpec,
    InputError,
    LanguageModel,
    LayerNorm,
    Learned,
    Loops,
    Mlp,
    ModelSpec,
    NoNorm,
    NoPosition,
    PostNorm,
    PreNorm,
    RelativeBias,
    RMSNorm,
    Rope,
    Sandwich,
    Sinusoidal,
    breakdown,
)
from helpers.models import SMALL, VOCAB

SPEECHES = ModelSpec(width=64, heads=2, layers=4, block=32)
CLASSIFIER = SPEECHES.set("pattern", Full()).set("feedforward", Mlp(hidden=256)).set("head", HeadSpec(hidden=100))
DECODER = SPEECHES.set("feedforward", Mlp(hidden=100)).set("head_bias", True)
SHAKESPEARE = ModelSpec(
    width=128,
    heads=1,
    layers=2,
    block=50,
    biases=Biases(q=True, k=True, v=True, out=True),
    position=Sinusoidal(),
    norm=RMSNorm(eps=1e-8),
    feedforward=Mlp(hidden=128),
)


def test_counts_match_the_published_figures():
    assert breakdown(CLASSIFIER, 5755, classes=3).total == 576_467
    assert breakdown(DECODER, 5755).total == 863_243
    assert breakdown(SHAKESPEARE, 500).total == 326_784
    assert breakdown(CLASSIFIER, 5755).weights == 564_928
    assert breakdown(DECODER, 5755).weights == 485_056


def test_the_count_table_has_a_row_per_component():
    """Each component by its formula, in words that a reader can check."""
    rows = {row.component: (row.weights, row.others) for row in breakdown(CLASSIFIER, 5755, classes=3).rows}
    assert rows == {
        "token embedding": (5755 * 64, 0),
        "position": (32 * 64, 0),
        "attention": (4 * 4 * 64 * 64, 4 * 64),
        "feed-forward": (4 * 2 * 64 * 256, 4 * (256 + 64)),
        "norms": (0, (4 * 2 + 1) * 2 * 64),
        "head": (64 * 100 + 100 * 3, 100 + 3),
    }
    table = str(breakdown(CLASSIFIER, 5755, classes=3))
    assert table.splitlines()[-1].split()[-1] == "576,467"
    assert len({len(line) for line in table.splitlines()}) == 1, "columns line up"
    data = breakdown(CLASSIFIER, 5755, classes=3).to_json()
    assert data["total"] == 576_467 == sum(row["total"] for row in data["rows"])
    assert data["weights_without_bias_norm_position_or_head"] == 564_928


def test_experts_that_are_not_chosen_are_not_active():
    experts = Experts(expert=Mlp(hidden=5, bias=False), count=4, active=3, shared=1)
    counted = breakdown(SMALL.set("feedforward", experts), VOCAB)
    one = 2 * 16 * 5
    rows = {row.component: row.total for row in counted.rows}
    assert rows["feed-forward"] == 2 * (4 * 16 + 5 * one)
    assert counted.active == counted.total - 2 * one
    assert counted.to_json()["active"] == counted.active
    *_, last = str(counted).splitlines()
    assert last.split() == ["used", "by", "a", "token", f"{counted.active:,}"]
    plain = breakdown(SMALL, VOCAB)
    assert plain.active == plain.total
    assert "active" not in plain.to_json()
    assert "used by" not in str(plain)


def test_convolutions_have_a_row_where_there_are_some():
    rows = {row.component: row.total for row in breakdown(SMALL.set("convolution", Canon(width=3)), VOCAB).rows}
    assert rows["convolutions"] == 2 * 3 * (16 + 16 + 64), "sites A, C and D; site B is part of attention"
    assert "convolutions" not in {row.component for row in breakdown(SMALL, VOCAB).rows}


def test_blocks_that_are_used_again_are_counted_once():
    once, twice = SMALL, SMALL.set("loops", Loops(times=3))
    assert breakdown(once, VOCAB) == breakdown(twice, VOCAB)


def test_norms_are_counted_everywhere():
    plain = {row.component: row.total for row in breakdown(SMALL, VOCAB).rows}
    normed = {row.component: row.total for row in breakdown(SMALL.set("embedding_norm", RMSNorm()), VOCAB).rows}
    assert normed["norms"] - plain["norms"] == 16
    assert normed["head"] == plain["head"]
    qk = {row.component: row.total for row in breakdown(SMALL.set("qk_norm", RMSNorm()), VOCAB).rows}
    assert qk["attention"] - plain["attention"] == 2 * 2 * 4


def test_counting_allocates_no_memory_and_draws_nothing():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    huge = ModelSpec(width=8192, heads=64, layers=80, block=4096)
    assert breakdown(huge, 128_000).total > 60_000_000_000
    assert torch.equal(torch.get_rng_state(), before)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    heads=st.sampled_from([1, 2, 4]),
    d=st.integers(1, 5).map(lambda n: 2 * n),
    kv=st.sampled_from([None, 1]),
    head_width=st.none() | st.sampled_from([2, 6]),
    layers=st.integers(1, 3),
    block=st.integers(2, 20),
    tied=st.booleans(),
    head_bias=st.booleans(),
    biases=st.builds(Biases, q=st.booleans(), k=st.booleans(), v=st.booleans(), out=st.booleans()),
    position=st.sampled_from([Learned(), Rope(), Alibi(), Disentangled(span=3), RelativeBias(), NoPosition()]),
    norms=st.tuples(*[st.sampled_from([LayerNorm(), LayerNorm(bias=False), RMSNorm(), NoNorm()])] * 3),
    residual=st.sampled_from([PreNorm(), PostNorm(), Sandwich()]),
    feedforward=st.builds(Mlp, hidden=st.integers(1, 9), bias=st.booleans())
    | st.builds(Gated, hidden=st.none() | st.integers(1, 9), bias=st.booleans()),
    pattern=st.sampled_from([Causal(), Full()]),
    vocab=st.integers(1, 30),
    classes=st.none() | st.integers(2, 5),
)
def test_the_total_is_the_sum_of_the_parameters(heads, d, kv, norms, vocab, classes, head_width, **rest):
    norm, qk_norm, embedding_norm = norms
    try:
        spec = ModelSpec(
            heads=heads,
            width=heads * d,
            kv_heads=kv,
            head_width=head_width,
            norm=norm,
            qk_norm=qk_norm,
            embedding_norm=embedding_norm,
            **rest,
        )
        model = LanguageModel(spec, vocab) if classes is None else Classifier(spec, vocab, classes)
    except InputError:
        assume(False)
    counted = breakdown(spec, vocab, classes)
    parameters = dict(model.named_parameters())
    assert counted.total == sum(p.numel() for p in parameters.values()) == sum(row.total for row in counted.rows)
    assert sum(row.weights for row in counted.rows) == sum(p.numel() for p in parameters.values() if p.ndim > 1)
