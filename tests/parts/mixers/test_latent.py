"""Latent attention against its equation, by nested loops; its cache; and its refusals."""

import dataclasses
import math

import pytest
import torch

from headtohead import (
    Alibi,
    Causal,
    Disentangled,
    InputError,
    LanguageModel,
    Latent,
    Learned,
    RelativeBias,
    RMSNorm,
    Rope,
)
from headtohead.model.hooks import WEIGHTS, capture, explicit
from headtohead.parts import PositionHooks
from helpers.models import SMALL, VOCAB, close, language_model, text

H, d, D = SMALL.heads, SMALL.dims.head_width, SMALL.width
SPEC = SMALL.set("mixer", Latent(width=6, rotated=4)).set("position", Rope(theta=20.0))


def turned(x: torch.Tensor, i: int, theta: float = 20.0) -> torch.Tensor:
    """Rotate pairs that are half a vector apart."""
    half, y = len(x) // 2, x.clone()
    for m in range(half):
        angle = i / theta ** (m / half)
        y[m] = x[m] * math.cos(angle) - x[m + half] * math.sin(angle)
        y[m + half] = x[m + half] * math.cos(angle) + x[m] * math.sin(angle)
    return y


@pytest.mark.parametrize("query_width", [None, 5])
@torch.no_grad()
def test_a_layer_matches_its_equation(query_width):
    model = language_model(SPEC.set("mixer.query_width", query_width).set("biases.out", False))
    layer = model.trunk.blocks[1].attention
    with capture(model, "trunk.blocks.1.attention", read=lambda given, out: (given[0][0], out[0])) as seen:
        model(text(1))
    x, out = seen["trunk.blocks.1.attention"][0]  # (T, D) both
    T, r, C = len(x), 4, 6

    def normed(y: torch.Tensor, norm: torch.nn.Module) -> torch.Tensor:
        return y / (y.square().mean() + 1e-6).sqrt() * norm.weight

    up_k, up_v = layer.up.weight.view(H, 2, d, C).unbind(dim=1)  # (H, d, C) each
    heads = torch.zeros(T, H, d, dtype=torch.double)
    for i in range(T):
        small = x[i] if query_width is None else normed(layer.q_down.weight @ x[i], layer.q_norm)
        for h in range(H):
            q = layer.q.weight.view(H, d + r, -1)[h] @ small
            scores, values = [], []
            for j in range(i + 1):
                down = layer.down.weight @ x[j]
                c = normed(down[:C], layer.norm)
                products = q[:d] @ (up_k[h] @ c) + turned(q[d:], i) @ turned(down[C:], j)
                scores.append(products / math.sqrt(d + r))
                values.append(up_v[h] @ c)
            a = torch.stack(scores).softmax(dim=0)
            heads[i, h] = (a[:, None] * torch.stack(values)).sum(dim=0)
    torch.testing.assert_close(out, heads.flatten(1) @ layer.out.weight.T, rtol=0, atol=3e-6)  # angles are float32


@pytest.mark.parametrize("position", [Rope(), Alibi(), RelativeBias(), Learned()], ids=str)
@pytest.mark.parametrize("setting", ["scores=Softcap(cap=1)", "weighting=LearnedSinks", "gate=OutputGate"])
@torch.no_grad()
def test_generation_equals_the_whole_text(position, setting):
    """Keys and values are absorbed after the first call, and computed in it."""
    name, _, value = setting.partition("=")
    model, ids = language_model(SPEC.set("position", position).set(name, value)), text(2)
    whole, cache = model(ids), model.new_cache()
    pieces = [ids[:, :4], ids[:, 4:5], ids[:, 5:9], *ids[:, 9:].split(1, dim=1)]
    close(torch.cat([model(piece, cache=cache) for piece in pieces], dim=1), whole)
    cache = model.new_cache()
    with explicit(model):
        close(torch.cat([model(piece, cache=cache) for piece in pieces], dim=1), whole)


@torch.no_grad()
def test_the_cache_keeps_small_vectors_and_rotated_parts_only():
    model = language_model(SPEC)
    cache = model.new_cache()
    for n in range(12):
        model(text(1)[:, n : n + 1], cache=cache)
    assert cache.bytes == SMALL.layers * 12 * (6 + 4) * 8
    attention = language_model(SMALL).new_cache()
    language_model(SMALL)(text(1), cache=attention)
    assert attention.bytes == SMALL.layers * 12 * 2 * D * 8


def test_maps_can_be_read_in_both_forms():
    model, ids = language_model(SPEC), text(1)
    with capture(model, WEIGHTS) as seen, torch.no_grad():
        model(ids)
        cache = model.new_cache()
        model(ids[:, :11], cache=cache)
        model(ids[:, 11:], cache=cache)
    for whole, _, last in seen.values():
        close(last[:, :, 0], whole[:, :, -1])


@torch.no_grad()
def test_only_the_extra_part_is_rotated():
    """With a rotation of all of it, a model without content would depend on offsets alone; content never turns."""
    model = language_model(SPEC)
    asked: list[int] = []
    turn = model.trunk.blocks[0].attention.turn
    model.trunk.blocks[0].attention.turn = Spy(turn, asked)
    model(text(1))
    model.trunk.blocks[0].attention.turn = turn
    assert asked == [4, 4]


class Spy(PositionHooks):
    def __init__(self, inner: PositionHooks, asked: list[int]) -> None:
        super().__init__()
        self.inner, self.asked = inner, asked

    def rotate(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        self.asked.append(x.shape[-1])
        return self.inner.rotate(x, i)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"position": Disentangled()}, "choose another position"),
        ({"mixer": Latent(rotated=3)}, "gives an even number"),
        ({"kv_heads": 2}, r"Latent does not use model\.kv_heads"),
        ({"qk_norm": RMSNorm()}, r"Latent does not use model\.qk_norm"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(settings, says):
    with pytest.raises(InputError, match=says) as error:
        LanguageModel(dataclasses.replace(SPEC, **settings), VOCAB)
    assert "\n" not in str(error.value)


def test_latent_attention_works_beside_plain_attention():
    spec = SMALL.set("mixer", Latent() + SMALL.mixer).set("position", Rope()).set("pattern", Causal())
    model, ids = language_model(spec.set("kv_heads", 2)), text(2)
    cache = model.new_cache()
    with torch.no_grad():
        out = torch.cat([model(ids[:, n : n + 1], cache=cache) for n in range(12)], dim=1)
        close(out, model(ids))
