"""Models with hand-set attention heads, for the puzzles. They are headtohead's own language model.

A model has one head as wide as the residual stream, no norm, and a feed-forward that adds nothing. All weights are zero
until a puzzle sets them. Models compute in double precision, because large scores give weights very close to 0 or 1.

Shapes: B texts, T tokens, D width; ids (B, T), maps (B, T, T).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from headtohead.model.hooks import WEIGHTS, capture
from headtohead.model.spec import Biases, ModelSpec
from headtohead.model.transformer import LanguageModel
from headtohead.parts import Alibi, Learned, Mlp, NoNorm, Position, Rope, Sinusoidal
from headtohead.puzzles.reach import Array

NOISE = 0.02  # standard deviation of token vectors that a head must ignore; GPT-2 starts with the same value


def blank(position: Position, vocab: int, width: int, block: int, layers: int = 1) -> Any:
    """A causal model with all weights zero."""
    spec = ModelSpec(
        width=width,
        heads=1,
        layers=layers,
        block=block,
        position=position,
        norm=NoNorm(),
        feedforward=Mlp(hidden=1),
        biases=Biases(q=True, k=True, v=False, out=False),
    )
    model = LanguageModel(spec, vocab).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def sharpen(attention: Any, scale: float) -> float:
    """The factor of a query that multiplies scores by `scale`: attention divides scores by sqrt(d)."""
    return scale * math.sqrt(attention.head_width)


@torch.no_grad()
def run(model: LanguageModel, ids: Array) -> tuple[list[Array], Array]:
    """The attention maps of every layer, each (B, T, T), and the logits (B, T, V)."""
    with capture(model, WEIGHTS) as captured:
        logits = model(torch.as_tensor(ids))
    return [weights[0][:, 0].numpy() for weights in captured.values()], logits.numpy()


# -- positions -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def shifted(shift: float, scale: float, *, width: int, block: int, vocab: int = 16) -> LanguageModel:
    """Sinusoidal positions; the query is the token's own position, rotated `shift` tokens back."""
    model = blank(Sinusoidal(), vocab, width, block)
    model.trunk.tokens.weight.copy_(NOISE * noise(vocab, width))
    attention = model.trunk.blocks[0].attention
    attention.k.weight.copy_(torch.eye(width))
    rotation = torch.zeros(width, width, dtype=torch.double)
    for m, w in enumerate(
        model.trunk.position.frequencies.tolist()
    ):  # maps (sin, cos) of i·w to those of (i − shift)·w
        c, s = math.cos(shift * w), math.sin(shift * w)
        rotation[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = torch.tensor([[c, -s], [s, c]])
    attention.q.weight.copy_(sharpen(attention, scale) * rotation)
    return model


@torch.no_grad()
def marked(score: float, *, block: int, vocab: int = 16, width: int = 8) -> LanguageModel:
    """Learned positions; only the first has a nonzero entry. Keys read this entry, and every query asks for it."""
    model = blank(Learned(), vocab, width, block)
    model.trunk.tokens.weight[:, 1:] = noise(vocab, width - 1)
    model.trunk.position.table.weight[0, 0] = 1.0
    attention = model.trunk.blocks[0].attention
    attention.k.weight[0, 0] = 1.0
    attention.q.bias[0] = sharpen(attention, score)
    return model


@torch.no_grad()
def turned(angles: Array, scale: float, *, theta: float, block: int, vocab: int = 16) -> LanguageModel:
    """Rotary positions. All tokens have the same key and the same query; `angles` rotate the query against the key.

    Pair m is rotated by i·w_m in the query and by j·w_m in the key, so its score is cos((i − j)·w_m − angle_m).
    """
    pairs = len(angles)
    model = blank(Rope(theta=theta), vocab, 2 * pairs, block)
    model.trunk.tokens.weight.copy_(NOISE * noise(vocab, 2 * pairs))
    attention = model.trunk.blocks[0].attention
    attention.k.bias[:pairs] = 1.0
    angle = torch.as_tensor(angles)
    attention.q.bias.copy_(sharpen(attention, scale) * torch.cat([angle.cos(), -angle.sin()]))
    return model


@torch.no_grad()
def sloped(slope: float, *, block: int, vocab: int = 16) -> LanguageModel:
    """Linear biases (ALiBi); queries and keys are zero."""
    return blank(Alibi(slope=slope), vocab, 4, block)


# -- contents ------------------------------------------------------------------------------------------------------


def names(count: int, width: int) -> Tensor:
    """Random vectors (count, width) of length 1."""
    drawn = noise(count, width)
    return drawn / drawn.norm(dim=1, keepdim=True)


@torch.no_grad()
def copying(scale: float, *, count: int, width: int, block: int) -> LanguageModel:
    """Tokens 0 … count − 1 are items, tokens count … 2·count − 1 ask for them. Stream: item | asked | answer."""
    d = width
    model = blank(Learned(), 2 * count, 3 * d, block)
    u = names(count, d)
    model.trunk.tokens.weight[:count, :d] = u
    model.trunk.tokens.weight[count:, d : 2 * d] = u
    attention = model.trunk.blocks[0].attention
    eye = torch.eye(d, dtype=torch.double)
    attention.k.weight[:d, :d] = eye
    attention.q.weight[:d, d : 2 * d] = sharpen(attention, scale) * eye
    attention.v.weight[:d, :d] = eye
    attention.out.weight[2 * d :, :d] = eye
    model.head.weight[:count, 2 * d :] = u
    return model


@torch.no_grad()
def counting(tilt: float, *, kinds: int, block: int) -> LanguageModel:
    """All tokens have score 0, except token 0 with score `tilt`. Logits are the shares of the kinds."""
    model = blank(Learned(), kinds, 2 * kinds, block)
    eye = torch.eye(kinds, dtype=torch.double)
    model.trunk.tokens.weight[:, :kinds] = eye
    attention = model.trunk.blocks[0].attention
    attention.k.weight[0, 0] = 1.0
    attention.q.bias[0] = sharpen(attention, tilt)
    attention.v.weight[:kinds, :kinds] = eye
    attention.out.weight[kinds:, :kinds] = eye
    model.head.weight[:, kinds:] = eye
    return model


@torch.no_grad()
def induction(first: float, second: float, *, vocab: int, block: int) -> LanguageModel:
    """Two layers. The stream holds token (V) | position (T) | previous token (V) | answer (V).

    Layer 1: the query of position i asks for position i − 1; the head writes the token there to "previous token".
    Layer 2: the query is the token, the key is "previous token"; the head writes the key's token to "answer".
    """
    V, T = vocab, block
    token, place, before, answer = slice(0, V), slice(V, V + T), slice(V + T, 2 * V + T), slice(2 * V + T, 3 * V + T)
    model = blank(Learned(), V, 3 * V + T, T, layers=2)
    one = torch.eye(V, dtype=torch.double)
    model.trunk.tokens.weight[:, token] = one
    model.trunk.position.table.weight[:, place] = torch.eye(T, dtype=torch.double)
    a = model.trunk.blocks[0].attention
    back = torch.diag(torch.ones(T - 1, dtype=torch.double), 1)  # maps position i to i − 1
    a.q.weight[:T, place] = sharpen(a, first) * back
    a.k.weight[:T, place] = torch.eye(T, dtype=torch.double)
    a.v.weight[:V, token] = one
    a.out.weight[before, :V] = one
    b = model.trunk.blocks[1].attention
    b.q.weight[:V, token] = sharpen(b, second) * one
    b.k.weight[:V, before] = one
    b.v.weight[:V, token] = one
    b.out.weight[answer, :V] = one
    model.head.weight[:, answer] = one
    return model


def noise(count: int, width: int) -> Tensor:
    """Random vectors (count, width) from a normal distribution, always the same."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(0), dtype=torch.double)
