"""Residual connections against their equations, in nested loops over numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headtohead import (
    HyperConnections,
    InputError,
    LanguageModel,
    LayerNorm,
    LayerScale,
    LearnedScales,
    ModelSpec,
    PreNorm,
    RMSNorm,
)
from helpers.models import SMALL, VOCAB, close, language_model, stirred, text

D = 4
SPEC = ModelSpec(width=D, heads=2, layers=3, block=12, norm=RMSNorm())


def wires(residual, n: int = 1) -> list[nn.Module]:
    """Both wires of layer n, with random weights."""
    layer = SPEC.set("residual", residual).layer(n)
    return [stirred(residual.build_in(layer, lambda: layer.norm.build(D), first)) for first in (True, False)]


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def f(x: Tensor) -> Tensor:
    return torch.sin(3 * x.flip(-1)) + x.sum(dim=-1, keepdim=True)


def normed(x: list[float], gains: Tensor) -> list[float]:
    root = math.sqrt(sum(v * v for v in x) / len(x) + 1e-6)
    return [v / root * float(g) for v, g in zip(x, gains, strict=True)]


def of(x: list[float]) -> list[float]:
    return f(torch.tensor(x, dtype=torch.float64)).tolist()


@pytest.mark.parametrize("norm", ["before", "after", "both"])
@torch.no_grad()
def test_layer_scale_matches_its_equation(norm):
    for wire in wires(LayerScale(norm=norm)):
        x = tokens(3)
        out = wire(x, f)
        for t in range(3):
            h = x[t].tolist()
            y = of(h if norm == "after" else normed(h, wire.norm.weight))
            y = y if norm == "before" else normed(y, wire.norm_after.weight)
            expected = [a + float(g) * b for a, g, b in zip(h, wire.gains, y, strict=True)]
            close(out[t], torch.tensor(expected, dtype=torch.float64))


@torch.no_grad()
def test_learned_scales_match_their_equation():
    first, second = wires(LearnedScales())
    x, start = tokens(3), tokens(4)[1:]
    entered, out = first.enter(x, start), first(x, f)
    for t in range(3):
        for k in range(D):
            close(entered[t, k], float(first.of_stream) * x[t, k] + float(first.of_embedding) * start[t, k])
        h, y = x[t].tolist(), of(normed(x[t].tolist(), first.norm.weight))
        expected = [a + float(first.of_sublayer) * b for a, b in zip(h, y, strict=True)]
        close(out[t], torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(second.enter(x, start), x), "the embeddings enter once per block"


@torch.no_grad()
def test_learned_scales_read_what_enters_the_first_block():
    """In every layer, the embeddings with their positions; not the stream of the layer before."""
    spec = SMALL.set("residual", LearnedScales(embedding=1.0)).set("layers", 3)
    model = LanguageModel(spec, VOCAB).double().eval()
    starts: list[Tensor] = []
    for block in model.trunk.blocks:
        wire = block.around_attention
        wire.enter = lambda x, start, enter=wire.enter: starts.append(start) or enter(x, start)
    ids = text(2)
    model(ids)
    embedded = model.trunk.position.embed(model.trunk.tokens(ids), torch.arange(ids.shape[1])[None])
    assert len(starts) == 3
    assert all(torch.equal(start, embedded) for start in starts)


@pytest.mark.parametrize("residual", [LearnedScales(), HyperConnections(), HyperConnections(dynamic=False)], ids=str)
@torch.no_grad()
def test_a_model_starts_equal_to_pre_norm(residual):
    spec = SMALL.set("norm", LayerNorm(eps=1e-12))  # the sum of n equal streams has n times their size
    ours, plain = (LanguageModel(spec.set("residual", r), VOCAB).double().eval() for r in (residual, PreNorm()))
    torch.testing.assert_close(ours(text(2)), plain(text(2)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@torch.no_grad()
def test_hyper_connections_match_their_equation(count, dynamic):
    for wire in wires(HyperConnections(count=count, dynamic=dynamic)):
        H = torch.stack([tokens(count), 2 * tokens(count)])  # (2, n, D): two tokens
        out = wire(H, f)
        for t in range(2):
            a, b = _weights(wire, H[t], count, dynamic)
            read = [sum(a[m][0] * float(H[t, m, k]) for m in range(count)) for k in range(D)]
            y = of(normed(read, wire.norm.weight))
            for n in range(count):
                for k in range(D):
                    kept = sum(a[m][1 + n] * float(H[t, m, k]) for m in range(count))
                    assert float(out[t, n, k]) == pytest.approx(kept + b[n] * y[k], abs=1e-10)


def _weights(wire: nn.Module, h: Tensor, count: int, dynamic: bool) -> tuple[list[list[float]], list[float]]:
    """What each stream gives to the input and to every stream, and what it gets of the result."""
    a = [[float(w) for w in row] for row in wire.alpha]
    b = [float(w) for w in wire.beta]
    for m in range(count if dynamic else 0):
        x = normed(h[m].tolist(), wire.norm_of_streams.weight)
        for c in range(1 + count):
            along = sum(x[k] * float(wire.to_alpha[k, c]) for k in range(D))
            a[m][c] += float(wire.alpha_scale) * math.tanh(along)
        b[m] += float(wire.beta_scale) * math.tanh(sum(x[k] * float(wire.to_beta[k]) for k in range(D)))
    return a, b


def test_sublayers_read_one_stream_after_the_other_at_first():
    reads = [[int(wire.alpha[:, 0].argmax()) for wire in _at_start(n)] for n in range(3)]
    assert reads == [[0, 1], [2, 0], [1, 2]]


def _at_start(n: int) -> list[nn.Module]:
    layer, residual = SPEC.layer(n), HyperConnections(count=3)
    return [residual.build_in(layer, lambda: layer.norm.build(D), first) for first in (True, False)]


@torch.no_grad()
def test_streams_are_copies_first_and_their_sum_last():
    residual, x = HyperConnections(count=3), tokens(2)
    streams = residual.open(x)
    assert streams.shape == (2, 3, D)
    assert all(torch.equal(streams[:, n], x) for n in range(3))
    close(residual.close(tokens(2, 3)), tokens(2, 3)[:, 0] + tokens(2, 3)[:, 1] + tokens(2, 3)[:, 2])


def test_layers_with_different_numbers_of_streams_are_refused():
    with pytest.raises(InputError, match="different numbers of streams") as error:
        SMALL.set("residual", "HyperConnections + PreNorm")
    assert "\n" not in str(error.value)
    SMALL.set("residual", "LearnedScales + PreNorm")


@torch.no_grad()
def test_wirings_differ_from_layer_to_layer():
    spec = SMALL.set("residual", "LearnedScales + Parallel").set("norm", LayerNorm())
    model = language_model(spec)
    kinds = [type(block.around_attention).__name__ for block in model.trunk.blocks]
    assert kinds == ["FirstScaledWire", "PreWire"]
    assert torch.isfinite(model(text(2))).all()
