"""Looking into a model while it runs: what is seen is what was computed, and nothing stays behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead import (
    Alibi,
    Causal,
    Classifier,
    Full,
    InputError,
    LanguageModel,
    Local,
    NoPosition,
    Prefix,
    Rope,
    capture,
    explicit,
)
from headtohead.model.hooks import WEIGHTS
from headtohead.parts.mixers.attention import MultiHead
from helpers.models import SMALL, VOCAB, T, close, stirred, text


def model_with(**settings: object) -> LanguageModel:
    spec = SMALL
    for name, value in settings.items():
        spec = spec.set(name, value)
    return stirred(LanguageModel(spec, VOCAB))


def weights_by_hand(model: LanguageModel, layer: int, ids: Tensor, keep: Tensor) -> Tensor:
    """(B, H, T, T), one number at a time, from the input of the layer's attention."""
    attention = model.trunk.blocks[layer].attention
    given: list[Tensor] = []
    hook = attention.register_forward_pre_hook(lambda _m, args: given.append(args[0]))
    with torch.no_grad():
        model(ids, keep)
    hook.remove()
    q, k = (f(given[0]).view(len(ids), T, 4, 4) for f in (attention.q, attention.k))
    a = torch.zeros(len(ids), 4, T, T, dtype=torch.float64)
    for b in range(len(ids)):
        place = [int(keep[b, :t].sum()) for t in range(T)]
        for h in range(4):
            slope = 2 ** (-8 * (h + 1) / 4)
            for i in range(T):
                seen = [j for j in range(T) if keep[b, j] and place[j] <= place[i]]
                scores = [float(q[b, i, h] @ k[b, j, h]) / 2 - slope * abs(place[i] - place[j]) for j in seen]
                total = sum(math.exp(s) for s in scores)
                for j, s in zip(seen, scores, strict=True):
                    a[b, h, i, j] = math.exp(s) / total
    return a


@torch.no_grad()
def test_captured_weights_match_the_equation():
    model, ids = model_with(position=Alibi()), text(2)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, :4] = False  # padding on the left: places are counted from the first real token
    with capture(model, WEIGHTS) as seen:
        model(ids, keep)
    assert list(seen) == [f"trunk.blocks.{n}.attention.weights" for n in range(2)]
    for n in range(2):
        (a,) = seen[f"trunk.blocks.{n}.attention.weights"]
        assert a.shape == (2, 4, T, T)
        expected = weights_by_hand(model, n, ids, keep)
        close(a[keep[:, None].expand(2, 4, T)], expected[keep[:, None].expand(2, 4, T)])
        close(a.sum(dim=-1), torch.ones(2, 4, T, dtype=torch.float64))
        assert (a[1, :, 4:, :4] == 0).all()


@torch.no_grad()
def test_every_call_is_kept_in_order():
    model, ids = model_with(position=Rope()), text(2)
    with capture(model, WEIGHTS, "trunk.last") as seen:
        first = model(ids[:, :5])
        second = model(ids)
    shapes = [tuple(a.shape[-2:]) for a in seen["trunk.blocks.1.attention.weights"]]
    assert shapes == [(5, 5), (T, T)]
    for states, logits in zip(seen["trunk.last"], (first, second), strict=True):
        close(model.head(states), logits)


@torch.no_grad()
def test_cached_weights_are_the_last_rows():
    model, ids = model_with(position=Alibi(), kv_heads=2), text(2)
    with capture(model, WEIGHTS) as whole:
        model(ids)
    cache = model.new_cache()
    with capture(model, WEIGHTS) as steps:
        for step in ids.split([7, 4, 1], dim=1):
            model(step, cache=cache)
    for name, rows in steps.items():
        assert [tuple(a.shape) for a in rows] == [(2, 4, 7, 7), (2, 4, 4, 11), (2, 4, 1, 12)]
        for a, start in zip(rows, (0, 7, 11), strict=True):
            close(a, whole[name][0][:, :, start : start + a.shape[2], : a.shape[3]])


@torch.no_grad()
def test_masked_keys_have_weight_zero():
    for pattern in (Causal(), Causal() & Local(3), Causal() | Prefix(2)):
        model = model_with(pattern=pattern, position=NoPosition())
        with capture(model, WEIGHTS) as seen:
            model(text(1))
        allowed = torch.tensor([[bool(pattern.allowed(i, j)) for j in range(T)] for i in range(T)])
        for (a,) in seen.values():
            assert torch.equal((a > 0)[0], allowed.expand(4, T, T))


@torch.no_grad()
def test_capture_reads_inputs_and_figures():
    model, ids = model_with(), text(2)
    with capture(model, "trunk.last") as whole, capture(model, "head", read=lambda inputs, _out: inputs[0]) as before:
        logits = model(ids)
    assert torch.equal(before["head"][0], whole["trunk.last"][0])
    with capture(model, "head", read=lambda _inputs, out: float(out.mean())) as mean:
        model(ids)
    assert mean["head"] == [float(logits.mean())]


def test_capturing_changes_nothing_and_leaves_no_hook():
    model, ids = model_with(), text(2)
    before = model(ids)
    hooks = [len(m._forward_hooks) for m in model.modules()]
    with capture(model, "*") as seen:
        inside = model(ids)
    close(inside, before)
    assert len(seen) == len(list(model.named_modules()))
    assert [len(m._forward_hooks) for m in model.modules()] == hooks == [0] * len(hooks)
    kept = {name: len(tensors) for name, tensors in seen.items()}
    assert torch.equal(model(ids), before)
    assert {name: len(tensors) for name, tensors in seen.items()} == kept, "nothing is collected afterwards"
    assert {layer.path for layer in paths_of(model)} == {"sdpa"}


def paths_of(model: torch.nn.Module) -> list[MultiHead]:
    return [m for m in model.modules() if isinstance(m, MultiHead)]


def test_an_error_while_capturing_leaves_no_hook():
    model = model_with()
    with pytest.raises(RuntimeError, match="on purpose"), capture(model, WEIGHTS):
        raise RuntimeError("on purpose")
    with pytest.raises(InputError), capture(model, WEIGHTS):
        model(text(1, T + 1))
    assert not any(m._forward_hooks for m in model.modules())
    assert {layer.path for layer in paths_of(model)} == {"sdpa"}


def test_attention_paths_are_restored():
    model = model_with()
    first, second = paths_of(model)
    second.path = "explicit"
    with explicit(model):
        assert {first.path, second.path} == {"explicit"}
        with explicit(model):
            pass
        assert {first.path, second.path} == {"explicit"}, "the inner one gives back what the outer one set"
    assert (first.path, second.path) == ("sdpa", "explicit")
    with capture(model, WEIGHTS):
        assert {first.path, second.path} == {"explicit"}
    assert (first.path, second.path) == ("sdpa", "explicit")
    assert MultiHead.path == "sdpa"


def test_explicit_switches_one_model_only():
    one, other = model_with(), model_with()
    with explicit(one):
        assert {layer.path for layer in paths_of(other)} == {"sdpa"}


def test_only_captured_layers_are_switched():
    model = model_with()
    with capture(model, "trunk.last", "trunk.blocks.0.attention"):
        assert [layer.path for layer in paths_of(model)] == ["sdpa", "sdpa"]
    with capture(model, "trunk.blocks.1.attention.weights") as seen:
        assert [layer.path for layer in paths_of(model)] == ["sdpa", "explicit"]
        model(text(1))
    assert len(seen["trunk.blocks.1.attention.weights"]) == 1


def test_gradients_flow_through_captured_values():
    model = model_with()
    with capture(model, "trunk.blocks.0.attention.weights") as seen:
        out = model(text(2))
    (a,) = seen["trunk.blocks.0.attention.weights"]
    (grad,) = torch.autograd.grad(out.pow(2).sum(), a)
    assert grad.shape == a.shape
    assert grad.any()


def test_a_hook_on_the_weights_changes_the_output():
    """The tap lies on the way, not beside it: what a hook puts there is what is used."""
    model, ids = model_with(), text(2)
    before = model(ids)
    hook = model.trunk.blocks[0].attention.weights.register_forward_hook(lambda _m, _args, a: a * 0)
    with explicit(model):
        assert (model(ids) - before).abs().max() > 1e-3
    hook.remove()


def test_points_are_named_or_matched_by_star():
    model = model_with()
    with capture(model, "trunk.tokens", "trunk.blocks.*.feedforward", "trunk.blocks.1.*norm") as seen:
        model(text(2))
    assert {"trunk.tokens", "trunk.blocks.0.feedforward", "trunk.blocks.1.feedforward"} <= seen.keys()
    assert "trunk.blocks.1.attention.q_norm" in seen
    assert not any(name.startswith("trunk.blocks.0.around") for name in seen)
    assert all(len(tensors) == 1 for tensors in seen.values())
    assert torch.equal(seen["trunk.tokens"][0], model.trunk.tokens.weight[text(2)])


def test_an_unknown_point_is_refused():
    model = model_with()
    with pytest.raises(InputError, match=r"no point 'trunk\.token': did you mean trunk\.tokens\?") as error:
        capture(model, "trunk.token").__enter__()
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="no point 'blocks"), capture(model, WEIGHTS, "blocks*"):
        pass
    assert not any(m._forward_hooks for m in model.modules()), "nothing is hooked when one point is wrong"


@torch.no_grad()
def test_classifiers_are_captured_too():
    model = stirred(Classifier(SMALL.set("pattern", Full()), VOCAB, classes=3))
    ids = text(2)
    ids[1, 8:] = 0
    with capture(model, WEIGHTS) as seen:
        model(ids)
    for (a,) in seen.values():
        assert (a[1, :, :, 8:] == 0).all()
        assert (a[0] > 0).all()
