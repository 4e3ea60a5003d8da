"""The model itself: texts and their places, the classifier's padding, how weights start, what is counted."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headtohead import (
    Classifier,
    Full,
    HeadSpec,
    InputError,
    LanguageModel,
    LayerNorm,
    Learned,
    Loops,
    PositionHooks,
    PostNorm,
    PreNorm,
    Rope,
    Sandwich,
    audit,
    capture,
)
from headtohead.model.flops import count_flops
from headtohead.parts.sequence.mask import Mask
from helpers.models import (
    CLASSES,
    SMALL,
    VOCAB,
    T,
    attention_layer,
    classifier,
    close,
    language_model,
    places,
    stirred,
    text,
)

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


def test_senseless_sizes_are_refused():
    for make in (lambda: LanguageModel(SMALL, 0), lambda: Classifier(SMALL, 0, 3), lambda: Classifier(SMALL, 19, 1)):
        with pytest.raises(InputError, match="must be at least") as error:
            make()
        one_line(error)


@torch.no_grad()
def test_positions_count_real_tokens():
    model, ids = language_model(SMALL), text(4, 6)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1]]).bool()
    found = places(model, ids, keep)
    for row, expected in enumerate([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [0, 1, 2], [0, 1, 2]]):
        assert found[row, keep[row]].tolist() == expected
    assert places(model, ids).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert places(model, ids, positions=torch.arange(3, 9)).tolist() == [[3, 4, 5, 6, 7, 8]]


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
def test_a_language_model_has_no_padding_id():
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
def test_a_block_matches_its_equation(residual):
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
def test_sublayers_read_what_their_residual_says():
    for residual, normed in ((PreNorm(), True), (PostNorm(), False), (Sandwich(), True)):
        model = stirred(LanguageModel(SMALL.set("residual", residual).set("layers", 1), VOCAB))
        block, read = model.trunk.blocks[0], []
        block.attention.register_forward_pre_hook(lambda _m, args, read=read: read.append(args[0]))
        with capture(model, "trunk.dropout") as seen:
            model(text(2))
        (x,) = seen["trunk.dropout"]
        close(read[0], block.around_attention.norm(x) if normed else x)


def test_dropout_acts_in_training_only():
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
    attention = attention_layer(SMALL.set("dropout", 0.5)).double()
    q = k = torch.zeros(1, 4, 40, 4, dtype=torch.float64)
    v = torch.ones(1, 4, 40, 4, dtype=torch.float64)
    attention.path = path
    i = torch.arange(40)[None]
    reach = Mask.of(torch.ones(1, 1, 40, 40, dtype=torch.bool), i[:, None, :, None], i[:, None, None, :], None)
    close(attention.eval() and attention.attend(q, k, v, reach, PositionHooks()), v)
    attention.train()
    torch.manual_seed(0)
    kept = attention.attend(q, k, v, reach, PositionHooks())
    assert kept.std() > 0.05
    assert abs(float(kept.mean()) - 1) < 0.1, "what is left is scaled up"


# -- how weights start ------------------------------------------------------------------------------------------------


# -- blocks that are applied several times ----------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "blocks"), [("stack", [0, 1, 0, 1]), ("block", [0, 0, 1, 1])])
@torch.no_grad()
def test_a_looped_model_is_a_deeper_model_with_shared_weights(order, blocks):
    looped = stirred(LanguageModel(SMALL.set("loops", Loops(times=2, order=order)), VOCAB))
    deep = stirred(LanguageModel(SMALL.set("layers", 4), VOCAB))
    weights = looped.state_dict()
    ours = {name: w for name, w in weights.items() if ".blocks." not in name}
    for n, block in enumerate(blocks):
        prefix = f"trunk.blocks.{block}."
        of_block = ((name.removeprefix(prefix), w) for name, w in weights.items() if name.startswith(prefix))
        ours |= {f"trunk.blocks.{n}.{name}": w for name, w in of_block}
    deep.load_state_dict(ours)
    ids = text(3)
    close(looped(ids), deep(ids))
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, :4] = False
    close(looped(ids, keep)[keep], deep(ids, keep)[keep])


@pytest.mark.parametrize("part", ["norm=LayerNorm", "convolution=Canon", "residual=LearnedScales"])
@torch.no_grad()
def test_every_pass_of_a_looped_block_has_its_own_cache(part):
    spec = SMALL.set("loops", Loops(times=3)).set(*part.split("="))
    model, ids, outs = stirred(LanguageModel(spec, VOCAB)), text(2), []
    cache = model.new_cache()
    assert len(cache.layers) == 6
    for piece in ids.split([5, 1, 1, 3, 2], dim=1):
        outs.append(model(piece, cache=cache))
    close(torch.cat(outs, dim=1), model(ids))


def test_looped_blocks_share_weights_and_take_more_operations():
    once, twice = (LanguageModel(SMALL.set("loops", Loops(times=times)), VOCAB) for times in (1, 2))
    assert [p.shape for p in once.parameters()] == [p.shape for p in twice.parameters()]
    ids = text(2)
    head = count_flops(lambda: once.head(once.trunk(ids))) - count_flops(lambda: once.trunk(ids))
    once_flops, twice_flops = (count_flops(lambda m=m: m(ids)) - head for m in (once, twice))
    assert twice_flops == 2 * once_flops > 0
    # a projection into the residual stream is used twice as often, and starts smaller
    ours, theirs = (m.trunk.blocks[0].attention.out.weight for m in (once, twice))
    torch.testing.assert_close(ours / theirs, torch.full_like(ours, 2**0.5))


def test_a_looped_model_passes_the_audit():
    checks = ("future-gradient", "padding-left", "cache", "window", "gradients", "paths")
    report = audit(SMALL.set("loops", Loops(times=2, order="block")), causal=True, only=checks)
    assert [f for f in report.findings if f.status == "broken"] == []
