"""The model itself: texts and their places, the classifier's padding, how weights start, what is counted."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from conformance.registry import forgotten
from conformance.small import CLASSES, SMALL, VOCAB, T, classifier, close, language_model, stirred, text
from headtohead import (
    Alibi,
    Biases,
    Causal,
    Classifier,
    Concat,
    Disentangled,
    Full,
    Fusion,
    FusionHooks,
    Gated,
    HeadSpec,
    InitSpec,
    InputError,
    LanguageModel,
    LayerNorm,
    Learned,
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
    capture,
)
from headtohead.attention import Attention, Reach

# -- texts and their places -------------------------------------------------------------------------------------------


def one_line(error: pytest.ExceptionInfo[InputError], *words: str) -> None:
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("position", [Learned(), Rope()], ids=str)
def test_a_text_longer_than_the_block_is_refused(position):
    spec = SMALL.set("position", position)
    for model in (language_model(spec), classifier(spec.set("pattern", Full()))):
        model(text(1, T))
        with pytest.raises(InputError) as error:
            model(text(1, T + 1))
        one_line(error, f"{T + 1} tokens", f"block is {T}", "larger block")


@pytest.mark.parametrize("position", [Learned(), Rope()], ids=str)
def test_a_text_that_grows_beyond_the_block_is_refused(position):
    model = language_model(SMALL.set("position", position))
    cache = model.new_cache()
    model(text(2, T - 1), cache=cache)
    model(text(2, 1), cache=cache)
    with pytest.raises(InputError) as error:
        model(text(2, 1), cache=cache)
    one_line(error, f"{T + 1} tokens", f"block is {T}", "larger block")
    assert cache.length == T, "what was refused is not remembered"
    assert all(layer.k.shape[2] == T for layer in cache.layers)


def test_sizes_that_make_no_sense_are_refused():
    for make in (lambda: LanguageModel(SMALL, 0), lambda: Classifier(SMALL, 0, 3), lambda: Classifier(SMALL, 19, 1)):
        with pytest.raises(InputError, match="must be at least") as error:
            make()
        one_line(error)


def places(model: nn.Module, *args: Tensor | None, **given: object) -> Tensor:
    """The positions (B|1, T) that the model's position encoding was asked for."""
    asked: list[Tensor] = []
    embed = model.trunk.position.embed
    model.trunk.position.embed = lambda x, i: asked.append(i) or embed(x, i)
    try:
        model(*args, **given)
    finally:
        del model.trunk.position.embed
    return asked[0]


@torch.no_grad()
def test_places_are_counts_of_real_tokens():
    model, ids = language_model(SMALL), text(4, 6)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1]]).bool()
    found = places(model, ids, keep)
    for row, expected in enumerate([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2], [0, 1, 2]]):
        assert found[row, keep[row]].tolist() == expected
    assert places(model, ids).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert places(model, ids, positions=torch.arange(3, 9)).tolist() == [[3, 4, 5, 6, 7, 8]]


@torch.no_grad()
def test_places_go_on_in_the_cache():
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
def test_given_positions_are_used():
    """Of queries and keys: two texts that overlap in one row do not see more than their places allow."""
    model, ids = language_model(SMALL.set("position", Rope())), text(2, 6)
    by_row = torch.tensor([[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]])
    close(model(ids, positions=by_row)[0], model(ids[:1])[0])
    close(model(ids, positions=by_row)[1], model(ids[1:], positions=torch.arange(3, 9))[0])
    backwards = torch.arange(5, -1, -1)
    close(model(ids.flip(1), positions=backwards).flip(1), model(ids))
    learned = language_model(SMALL)
    assert (learned(ids, positions=torch.arange(3, 9)) - learned(ids)).abs().max() > 1e-3


@torch.no_grad()
def test_caches_do_not_share():
    model = language_model(SMALL)
    one, other = model.new_cache(), model.new_cache()
    model(text(1, 4), cache=one)
    assert (one.length, other.length) == (4, 0)
    close(model(text(1, 4), cache=other), model(text(1, 4)))


# -- the classifier ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pad", [0, 7])
@torch.no_grad()
def test_a_classifier_knows_its_padding(pad):
    model = stirred(Classifier(SMALL.set("pattern", Full()), VOCAB, CLASSES, pad=pad))
    ids = text(4)
    ids[ids == pad] = 8
    ids[0, 5:] = pad
    ids[1, :3] = pad
    ids[2, 4:6] = pad
    close(model(ids), model(ids, ids != pad))
    close(model(ids)[0], model(ids[:1, :5])[0])
    close(model(ids)[1], model(ids[1:2, 3:])[0])
    other = torch.ones_like(ids, dtype=torch.bool)
    assert (model(ids, other) - model(ids)).abs().amax(dim=1)[:3].min() > 1e-4, "a mask that is given decides"


@torch.no_grad()
def test_a_language_model_has_no_padding_of_its_own():
    model, ids = language_model(SMALL), text(2)
    ids[0, :3] = 0
    close(model(ids), model(ids, torch.ones_like(ids, dtype=torch.bool)))


@pytest.mark.parametrize(("activation", "function"), [("relu", torch.relu), ("tanh", torch.tanh)])
@torch.no_grad()
def test_the_head_has_two_layers(activation, function):
    spec = SMALL.set("pattern", Full()).set("head", HeadSpec(hidden=7, activation=activation))
    model = stirred(Classifier(spec, VOCAB, CLASSES))
    with capture(model, "trunk.last") as seen:
        out = model(text(3))
    x = seen["trunk.last"][0].mean(dim=1)
    first, last = model.head[0], model.head[2]
    assert first.weight.shape == (7, 16)
    close(out, function(x @ first.weight.T + first.bias) @ last.weight.T + last.bias)


# -- blocks, from their equations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("residual", [PreNorm(), PostNorm(), Sandwich()], ids=str)
@torch.no_grad()
def test_a_block_is_its_equation(residual):
    model = stirred(LanguageModel(SMALL.set("residual", residual).set("layers", 1), VOCAB))
    block = model.trunk.blocks[0]
    points = ["trunk.blocks.0", "*.attention", "*.feedforward", "trunk.dropout", "trunk.last"]
    with capture(model, *points) as seen:
        model(text(2))
    at = {name.rpartition("blocks.0.")[2]: tensors[0] for name, tensors in seen.items()}
    x, said, thought = at["trunk.dropout"], at["attention"], at["feedforward"]
    for wire, f in ((block.around_attention, said), (block.around_feedforward, thought)):
        if residual == PreNorm():
            x = x + f
        elif residual == PostNorm():
            x = wire.norm(x + f)
        else:
            x = x + wire.norm_after(f)
    close(at["trunk.blocks.0"], x)
    last = x if residual == PostNorm() else model.trunk.last(x)
    close(at["trunk.last"], last)
    assert isinstance(model.trunk.last, nn.Identity) == (residual == PostNorm())


@torch.no_grad()
def test_embeddings_are_positioned_then_normed():
    model, ids = stirred(LanguageModel(SMALL.set("embedding_norm", LayerNorm()), VOCAB)), text(2)
    with capture(model, "trunk.dropout") as seen:
        model(ids)
    x = model.trunk.tokens.weight[ids] + model.trunk.position.table.weight[:T]
    close(seen["trunk.dropout"][0], model.trunk.embedding_norm(x))


@torch.no_grad()
def test_sublayers_read_what_their_wiring_says():
    for residual, normed in ((PreNorm(), True), (PostNorm(), False), (Sandwich(), True)):
        model = stirred(LanguageModel(SMALL.set("residual", residual).set("layers", 1), VOCAB))
        block, read = model.trunk.blocks[0], []
        block.attention.register_forward_pre_hook(lambda _m, args, read=read: read.append(args[0]))
        with capture(model, "trunk.dropout") as seen:
            model(text(2))
        (x,) = seen["trunk.dropout"]
        close(read[0], block.around_attention.norm(x) if normed else x)


def test_dropout_is_where_it_should_be_and_off_in_evaluation():
    spec = SMALL.set("dropout", 0.5)
    model, ids = stirred(LanguageModel(spec, VOCAB)), text(2)
    assert torch.equal(model(ids), model(ids))
    close(model(ids), stirred(LanguageModel(SMALL, VOCAB))(ids))
    model.train()
    torch.manual_seed(0)
    first = model(ids)
    assert not torch.equal(model(ids), first)
    torch.manual_seed(0)
    assert torch.equal(model(ids), first)
    with capture(model, "trunk.dropout", "*.attention.weights", "trunk.blocks.*.dropout") as seen:
        model(ids)
    dropped = {name: [float((t == 0).double().mean()) for t in tensors] for name, tensors in seen.items()}
    assert all(0.3 < share < 0.7 for share in dropped["trunk.dropout"])
    assert [len(dropped[f"trunk.blocks.{n}.dropout"]) for n in range(2)] == [2, 2]
    assert all(0.3 < share < 0.7 for n in range(2) for share in dropped[f"trunk.blocks.{n}.dropout"])


@pytest.mark.parametrize("path", ["sdpa", "explicit"])
def test_attention_weights_are_dropped_in_training_only(path):
    attention = Attention(
        SMALL.dims, 0, kv_heads=4, biases=Biases(), qk_norm=NoNorm(), fusion=Concat(), dropout=0.5
    ).double()
    attention.path = path
    q = k = torch.zeros(1, 4, 40, 4, dtype=torch.float64)
    v = torch.ones(1, 4, 40, 4, dtype=torch.float64)
    attention.path, attend = path, attention._attend
    i = torch.arange(40)[None]
    reach = Reach.of(torch.ones(1, 1, 40, 40, dtype=torch.bool), i[:, None, :, None], i[:, None, None, :], None)
    close(attention.eval() and attend(q, k, v, None, reach, 1.0), v)
    attention.train()
    torch.manual_seed(0)
    kept = attend(q, k, v, None, reach, 1.0)
    assert kept.std() > 0.05
    assert abs(float(kept.mean()) - 1) < 0.1, "what is left is scaled up"


# -- how weights start ------------------------------------------------------------------------------------------------

WIDE = ModelSpec(width=128, heads=4, layers=3, block=300, biases=Biases(q=True, k=True, v=True, out=True))


def started(init: InitSpec, **settings: object) -> dict[str, Tensor]:
    spec = WIDE.set("init", init)
    for name, value in settings.items():
        spec = spec.set(name, value)
    model = LanguageModel(spec.set("head_bias", True), vocab=400)
    return {name: p.detach() for name, p in model.named_parameters()}


def std(p: Tensor) -> float:
    p = p.detach()
    assert abs(float(p.mean())) < 4 * float(p.std()) / math.sqrt(p.numel())
    return float(p.std())


@pytest.mark.parametrize("expected", [1.0, 0.02, 0.3])
def test_embeddings_start_as_wide_as_said(expected):
    for position in (Learned(), Disentangled(span=128)):
        weights = started(InitSpec(embedding_std=expected), position=position)
        for name in ("trunk.tokens.weight", "trunk.position.table.weight"):
            assert std(weights[name]) == pytest.approx(expected, rel=0.02)


def test_the_two_rules_of_the_documents():
    assert std(started(InitSpec())["trunk.tokens.weight"]) == pytest.approx(0.02, rel=0.02)
    assert std(started(InitSpec.torch())["trunk.tokens.weight"]) == pytest.approx(1.0, rel=0.02)
    assert InitSpec.torch() == InitSpec(embedding_std=1.0, linear="torch", residual_scaling=False)


INTO_RESIDUAL = ("attention.out.", "feedforward.down.")


def linear(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    names = (".q.", ".k.", ".v.", ".out.", ".up.", ".down.", ".gate.")
    return {n: p for n, p in weights.items() if any(piece in n for piece in names) or n.startswith("head.")}


@pytest.mark.parametrize("scaling", [True, False])
@pytest.mark.parametrize("feedforward", [Mlp(), Gated(bias=True)], ids=str)
@pytest.mark.parametrize("rule", ["normal", "torch", "xavier"])
def test_linear_layers_start_by_their_rule(rule, feedforward, scaling):
    init = InitSpec(linear=rule, linear_std=0.05, residual_scaling=scaling)
    weights = linear(started(init, feedforward=feedforward))
    assert len(weights) == 2 * (3 * (4 + (2 if feedforward == Mlp() else 3)) + 1)
    scaled = 0
    for name, p in weights.items():
        fan_out, fan_in = weights[f"{name.rpartition('.')[0]}.weight"].shape
        smaller = 1 / math.sqrt(2 * 3) if scaling and any(piece in name for piece in INTO_RESIDUAL) else 1.0
        scaled += smaller < 1 and name.endswith("weight")
        if name.endswith("bias"):
            if rule == "torch":
                assert 0.8 / math.sqrt(fan_in) < float(p.abs().max()) <= 1 / math.sqrt(fan_in), name
            else:
                assert not p.any(), name
            continue
        if rule == "normal":
            assert std(p) == pytest.approx(0.05 * smaller, rel=0.03), name
            assert float(p.abs().max()) > 3 * 0.05 * smaller, "a normal has tails"
            continue
        bound = smaller * (1 / math.sqrt(fan_in) if rule == "torch" else math.sqrt(6 / (fan_in + fan_out)))
        assert 0.98 * bound < float(p.abs().max()) <= bound * (1 + 1e-6), name
        assert std(p) == pytest.approx(bound / math.sqrt(3), rel=0.03), name
    assert scaled == (6 if scaling else 0)


def test_scaling_grows_with_depth():
    for layers in (1, 2, 8):
        spec = ModelSpec(width=128, heads=4, layers=layers, block=8)
        model = LanguageModel(spec, vocab=10)
        for block in model.trunk.blocks:
            for layer in (block.attention.out, block.feedforward.down):
                assert std(layer.weight) == pytest.approx(0.02 / math.sqrt(2 * layers), rel=0.03)
            assert std(block.attention.q.weight) == pytest.approx(0.02, rel=0.03)


def test_torch_s_rule_is_torch_s():
    """Measured against a plain nn.Linear and nn.Embedding."""
    weights = started(InitSpec.torch())
    torch.manual_seed(0)
    table = nn.Embedding(400, 128).weight.detach()
    for name in ("trunk.blocks.0.attention.out.weight", "trunk.blocks.0.feedforward.up.bias"):
        module = nn.Linear(128, weights[name].shape[0])
        plain = (module.weight if name.endswith("weight") else module.bias).detach()
        assert float(weights[name].std()) == pytest.approx(float(plain.std()), rel=0.1)
    assert std(weights["trunk.tokens.weight"]) == pytest.approx(float(table.std()), rel=0.02)


def test_everything_else_starts_as_it_was_built():
    weights = started(InitSpec(), norm=LayerNorm(), qk_norm=RMSNorm(), position=RelativeBias())
    norms = [p for n, p in weights.items() if "norm" in n or n.startswith("trunk.last")]
    assert len(norms) == 3 * (2 * 2 + 2) + 2
    assert all((p == 1).all() or (p == 0).all() for p in norms)
    assert std(weights["trunk.position.table"]) == pytest.approx(0.02, rel=0.2)


def test_the_first_loss_is_that_of_guessing():
    ids = text(8)
    for init in (InitSpec(), InitSpec.torch()):
        logits = LanguageModel(SMALL.set("init", init), VOCAB)(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text(8, seed=9).flatten())
        assert abs(float(loss.detach()) - math.log(VOCAB)) < 0.4


def test_a_users_own_weights_start_alike_in_two_arms():
    """Drawn as they are built, with no rule of their own, as a user would write them."""
    with forgotten():

        class Gains(Fusion):
            def build(self, dims, layer):
                hooks = FusionHooks()
                hooks.gains = nn.Parameter(torch.randn(dims.heads))
                return hooks

        arms = [LanguageModel(SMALL.set("fusion", Gains()).set("kv_heads", n), VOCAB, seed=1) for n in (4, 1)]
    ours, theirs = (arm.trunk.blocks[0].attention.fuse.gains for arm in arms)
    assert torch.equal(ours, theirs)


# -- counting ---------------------------------------------------------------------------------------------------------

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


def test_the_documents_figures():
    assert breakdown(CLASSIFIER, 5755, classes=3).total == 576_467
    assert breakdown(DECODER, 5755).total == 863_243
    assert breakdown(SHAKESPEARE, 500).total == 326_784
    assert breakdown(CLASSIFIER, 5755).weights == 564_928
    assert breakdown(DECODER, 5755).weights == 485_056


def test_the_rows_of_the_table():
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


def test_norms_are_counted_wherever_they_stand():
    plain = {row.component: row.total for row in breakdown(SMALL, VOCAB).rows}
    normed = {row.component: row.total for row in breakdown(SMALL.set("embedding_norm", RMSNorm()), VOCAB).rows}
    assert normed["norms"] - plain["norms"] == 16
    assert normed["head"] == plain["head"]
    qk = {row.component: row.total for row in breakdown(SMALL.set("qk_norm", RMSNorm()), VOCAB).rows}
    assert qk["attention"] - plain["attention"] == 2 * 2 * 4


def test_counting_allocates_and_draws_nothing():
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
