"""Shared keys and values, normed queries and keys, heads of any width, tied heads, biases one by one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headtohead import (
    Alibi,
    Biases,
    Disentangled,
    InputError,
    LanguageModel,
    LayerNorm,
    Learned,
    ModelSpec,
    NoNorm,
    RelativeBias,
    RMSNorm,
    Rope,
    breakdown,
    capture,
    explicit,
)
from helpers.models import SMALL, VOCAB, T, close, gradients, language_model, stirred, text

POSITIONS = [Learned(), Rope(), Alibi(), Disentangled(span=3), RelativeBias()]
HEADS, WIDTH = SMALL.heads, SMALL.width


def with_repeated_keys_and_values(model: LanguageModel) -> LanguageModel:
    """The same function with as many key and value heads as query heads, each of the group holding a copy."""
    spec = model.spec.set("kv_heads", None)
    full = stirred(LanguageModel(spec, VOCAB))
    weights = model.state_dict()
    group = model.spec.heads // (model.spec.kv_heads or model.spec.heads)
    d = model.spec.dims.head_width
    for name, value in weights.items():
        if ".attention.k." in name or ".attention.v." in name:
            rows = [h // group * d + n for h in range(model.spec.heads) for n in range(d)]  # head h reads group h // g
            weights[name] = value[rows]
    full.load_state_dict(weights)
    return full


@pytest.mark.parametrize("kv_heads", [HEADS, HEADS // 2, 1])
@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize("qk_norm", [NoNorm(), RMSNorm()], ids=str)
def test_shared_heads_are_repeated_heads(kv_heads, position, qk_norm):
    biases = Biases(q=True, k=True, v=True, out=True)
    spec = SMALL.set("kv_heads", kv_heads).set("position", position).set("qk_norm", qk_norm).set("biases", biases)
    model = language_model(spec)
    full, ids = with_repeated_keys_and_values(model), text(3)
    with torch.no_grad():
        close(model(ids), full(ids))
        with explicit(model), explicit(full):
            close(model(ids), full(ids))


@pytest.mark.parametrize("kv_heads", [None, HEADS, HEADS // 2, 1])
def test_keys_and_values_have_the_shared_size(kv_heads):
    model = LanguageModel(SMALL.set("kv_heads", kv_heads), VOCAB)
    d, cache = SMALL.dims.head_width, model.new_cache()
    model(text(2, 5), cache=cache)
    for block, layer in zip(model.trunk.blocks, cache.layers, strict=True):
        assert block.attention.q.weight.shape == (HEADS * d, WIDTH)
        assert block.attention.k.weight.shape == ((kv_heads or HEADS) * d, WIDTH)
        assert block.attention.v.weight.shape == ((kv_heads or HEADS) * d, WIDTH)
        assert layer.k.shape == layer.v.shape == (2, kv_heads or HEADS, 5, d), "the cache holds each head once"


def test_kv_heads_default_to_all_heads():
    """Not set and set to the number of heads are two specs and one model."""
    ids = text(2)
    a, b = SMALL, SMALL.set("kv_heads", HEADS)
    assert torch.equal(LanguageModel(a, VOCAB, 3)(ids), LanguageModel(b, VOCAB, 3)(ids))
    assert a.id != b.id


def test_query_heads_of_a_group_differ():
    model = language_model(SMALL.set("kv_heads", 1))
    with torch.no_grad(), capture(model, "trunk.blocks.0.attention.weights") as seen:
        model(text(1))
    maps = seen["trunk.blocks.0.attention.weights"][0][0]  # (H, T, T)
    assert all((maps[a] - maps[b]).abs().max() > 1e-3 for a in range(HEADS) for b in range(a))


# -- queries and keys, normed per head --------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm()], ids=str)
def test_q_and_k_are_normed_by_head_before_rotation(norm):
    spec = SMALL.set("qk_norm", norm).set("position", Rope()).set("kv_heads", 2)
    model = stirred(LanguageModel(spec, VOCAB))
    attention = model.trunk.blocks[0].attention
    with torch.no_grad(), capture(model, "*.0.attention.q*", "*.0.attention.k*", "*.0.attention.weights") as seen:
        model(text(2))
    at = {name.rpartition("attention.")[2]: tensors[0] for name, tensors in seen.items()}
    for side, heads in (("q", HEADS), ("k", 2)):
        raw = at[side].view(2, T, heads, -1).transpose(1, 2)
        assert at[f"{side}_norm"].shape == raw.shape
        close(at[f"{side}_norm"], by_hand(getattr(attention, f"{side}_norm"), raw))
    i = torch.arange(T)[None, None, :, None]
    hooks = model.trunk.position
    q, k = hooks.rotate(at["q_norm"], i), hooks.rotate(at["k_norm"], i).repeat_interleave(2, dim=1)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(4)).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    close(at["weights"], scores.softmax(dim=-1))


def by_hand(norm: nn.Module, x: Tensor) -> Tensor:
    if isinstance(norm, nn.LayerNorm):
        x = x - x.mean(dim=-1, keepdim=True)
    size = (x.pow(2).mean(dim=-1, keepdim=True) + norm.eps).sqrt()
    return x / size * norm.weight + (norm.bias if isinstance(norm, nn.LayerNorm) else 0)


def test_q_norm_and_k_norm_have_separate_gains():
    model = language_model(SMALL.set("qk_norm", RMSNorm()))
    found = gradients(model, model(text(3)))
    for n in range(SMALL.layers):
        q, k = (found[f"trunk.blocks.{n}.attention.{side}_norm.weight"] for side in "qk")
        assert q.shape == k.shape == (4,)
        assert (q - k).abs().max() > 1e-6


# -- head width -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head_width", [2, 6, 10])
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_heads_may_have_another_width(head_width, position):
    spec = SMALL.set("head_width", head_width).set("kv_heads", 2).set("position", position)
    model, ids = language_model(spec), text(3)
    attention = model.trunk.blocks[1].attention
    assert attention.q.weight.shape == (HEADS * head_width, WIDTH)
    assert attention.k.weight.shape == (2 * head_width, WIDTH)
    assert attention.out.weight.shape == (WIDTH, HEADS * head_width)
    with torch.no_grad():
        fast = model(ids)
        with explicit(model):
            close(model(ids), fast)
        close(with_repeated_keys_and_values(model)(ids), fast)
        cache = model.new_cache()
        close(torch.cat([model(step, cache=cache) for step in ids.split(1, dim=1)], dim=1), fast)
    assert breakdown(spec, VOCAB).total == sum(p.numel() for p in model.parameters())


def test_scores_are_divided_by_the_root_of_the_head_width():
    spec = SMALL.set("head_width", 6).set("position", "NoPosition").set("layers", 1)
    model = language_model(spec)
    with torch.no_grad(), capture(model, "*.attention.q", "*.attention.k", "*.attention.weights") as seen:
        model(text(1))
    q, k, a = (next(t[0] for n, t in seen.items() if n.endswith(f".{side}")) for side in ("q", "k", "weights"))
    q, k = (x.view(1, T, HEADS, 6).transpose(1, 2) for x in (q, k))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(6)).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    close(a, scores.softmax(dim=-1))


def test_a_width_that_does_not_divide_needs_a_head_width():
    with pytest.raises(InputError, match="or set head_width"):
        ModelSpec(width=10, heads=4)
    assert LanguageModel(ModelSpec(width=10, heads=4, head_width=3, layers=1, block=T), VOCAB)(text(1)).shape[-1] == 19


# -- tied and untied --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head_bias", [False, True])
def test_a_tied_head_is_the_token_embedding(head_bias):
    model = language_model(SMALL.set("tied", True).set("head_bias", head_bias))
    names = dict(model.named_parameters())
    assert ("head.bias" in names) == head_bias
    assert "head.weight" not in names
    ids = text(2)
    with torch.no_grad(), capture(model, "trunk.last") as seen:
        logits = model(ids)
    x = seen["trunk.last"][0]
    close(logits, x @ model.trunk.tokens.weight.T + (model.head.bias if head_bias else 0))
    unused = [v for v in range(VOCAB) if v not in ids]
    grad = gradients(model, model(ids))["trunk.tokens.weight"]
    assert grad[unused].any(dim=1).all(), "ids that were not read are still answers"


@pytest.mark.parametrize("head_bias", [False, True])
def test_an_untied_head_has_its_own_weights(head_bias):
    model = language_model(SMALL.set("head_bias", head_bias))
    assert (model.head.bias is not None) == head_bias
    assert model.head.weight.shape == (VOCAB, WIDTH)
    ids = text(2)
    unused = [v for v in range(VOCAB) if v not in ids]
    found = gradients(model, model(ids))
    assert not found["trunk.tokens.weight"][unused].any()
    assert found["head.weight"].any(dim=1).all()
    tied = breakdown(SMALL.set("tied", True).set("head_bias", head_bias), VOCAB).total
    assert breakdown(model.spec, VOCAB).total - tied == VOCAB * WIDTH


# -- biases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [None, 1])
@pytest.mark.parametrize("which", ["q", "k", "v", "out"])
@pytest.mark.parametrize("there", [True, False])
def test_each_projection_has_the_bias_it_declares(which, there, kv_heads):
    others = not there
    biases = Biases(**{**dict.fromkeys(("q", "k", "v", "out"), others), which: there})
    model = language_model(SMALL.set("biases", biases).set("kv_heads", kv_heads).set("position", Rope()))
    sizes = {"q": 16, "k": 16 if kv_heads is None else 4, "v": 16 if kv_heads is None else 4, "out": 16}
    for n, block in enumerate(model.trunk.blocks):
        for side in ("q", "k", "v", "out"):
            bias = getattr(block.attention, side).bias
            assert (bias is not None) == (there if side == which else others), f"{side} of layer {n}"
            assert bias is None or bias.shape == (sizes[side],)
    if there:
        found = gradients(model, model(text(3)))
        assert found[f"trunk.blocks.0.attention.{which}.bias"].abs().max() > 1e-6


def test_a_key_bias_cancels_unless_keys_are_rotated():
    """As its help says: it adds the same number to all scores of a query."""
    biases = Biases(k=True)
    ids = text(2)
    for position, matters in ((Learned(), False), (Rope(), True)):
        model = stirred(LanguageModel(SMALL.set("biases", biases).set("position", position), VOCAB))
        with torch.no_grad():
            before = model(ids)
            for block in model.trunk.blocks:
                block.attention.k.bias.add_(1.0)
            assert ((model(ids) - before).abs().max() > 1e-6) == matters
