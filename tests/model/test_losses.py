"""The loss without its logits: values and gradients are those of cross-entropy over the logits themselves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from headtohead import LanguageModel, ModelSpec
from headtohead.model import losses

N, D, V = 13, 5, 7


def made(n: int = N, d: int = D, v: int = V, bias: bool = True, scale: float = 1.0, seed: int = 0) -> tuple:
    draw = torch.Generator().manual_seed(seed)
    x, weight = (scale * torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in ((n, d), (v, d)))
    b = torch.randn(v, generator=draw, dtype=torch.float64) if bias else None
    return x, weight, b, torch.randint(0, v, (n,), generator=draw)


def plain(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(F.linear(x, weight, bias), targets, reduction=reduction)


def with_gradients(loss, x, weight, bias, targets, factor: float = 1.0) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias) if t is not None]
    value = loss(*(leaves if bias is not None else [*leaves, None]), targets)
    (factor * value).backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


def same(ours: list[Tensor], theirs: list[Tensor], within: float = 1e-12) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= within * max(1.0, b.abs().max())


@pytest.mark.parametrize("chunk", [1, V, 3 * V, 3 * V + 1, N * V, 1 << 19])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_cross_entropy(bias, chunk, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", chunk)
    given = made(bias=bias)
    same(with_gradients(losses.mean_loss, *given), with_gradients(plain, *given))
    same([losses.token_losses(*given)], [plain(*given, reduction="none")])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 1 << 20))
def test_chunks_cover_every_row_once(rows, vocab):
    chunks = losses._chunks(rows, vocab)
    assert [n for c in chunks for n in range(c.start, c.stop)] == list(range(rows))
    assert max(c.stop - c.start for c in chunks) == chunks[0].stop, "the first is the largest"
    assert (chunks[0].stop - 1) * vocab <= losses.CHUNK


def test_loss_works_for_many_rows_and_any_layout(monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", 37 * V)
    x, weight, bias, targets = made(n=101)
    for these in ((x, weight, bias, targets), (x.t().contiguous().t(), weight.t().contiguous().t(), bias, targets)):
        same(with_gradients(losses.mean_loss, *these), with_gradients(plain, *these))
        same([losses.token_losses(*these)], [plain(*these, reduction="none")])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_loss_works_for_any_shape(n, d, v, bias, seed):
    given = made(n, d, v, bias, seed=seed)
    same(with_gradients(losses.mean_loss, *given), with_gradients(plain, *given))
    same([losses.token_losses(*given)], [plain(*given, reduction="none")])


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_derivatives(bias, monkeypatch):
    """By central differences; torch's gradcheck goes backward twice, which this function cannot."""
    monkeypatch.setattr(losses, "CHUNK", 2 * V)
    *leaves, targets = made(4, 3, V, bias)
    _, *gradients = with_gradients(losses.mean_loss, *leaves, targets)
    for leaf, gradient in zip([t for t in leaves if t is not None], gradients, strict=True):
        flat = leaf.view(-1)
        for n in range(len(flat)):
            sides = []
            for step in (1e-6, -2e-6):
                flat[n] += step
                sides.append(losses.mean_loss(*leaves, targets))
            flat[n] += 1e-6
            assert abs((sides[0] - sides[1]) / 2e-6 - gradient.view(-1)[n]) < 1e-8


@pytest.mark.parametrize("chunk", [1, V, 3 * V + 1, 1 << 19])
@pytest.mark.parametrize("bias", [True, False])
def test_any_loss_of_logits_has_the_gradients_of_stored_logits(bias, chunk, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", chunk)
    *leaves, targets = made(bias=bias)

    def odd(z: Tensor, y: Tensor) -> Tensor:
        return z.logsumexp(dim=1).square() + (z.sin() * y[:, None]).sum(dim=1)

    def chunked(x, weight, b, y):
        return losses.mean_of(x, weight, b, lambda z, rows: odd(z, y[rows]))

    def stored(x, weight, b, y):
        return odd(F.linear(x, weight, b), y).mean()

    same(*(with_gradients(f, *leaves, targets, factor=-2.5) for f in (chunked, stored)))


def test_gradients_scale_with_the_incoming_gradient():
    given = made()
    same(with_gradients(losses.mean_loss, *given, factor=-3.5), with_gradients(plain, *given, factor=-3.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_huge_logits_give_finite_losses(sign, dtype):
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=dtype)
    weight = sign * torch.tensor([[1e4, 1e4], [-1e4, 1e4], [0.0, 0.0], [1e4, -1e4]], dtype=dtype)
    for targets in (torch.tensor([0, 0, 0]), torch.tensor([1, 2, 3])):
        ours, theirs = (with_gradients(f, x, weight, None, targets) for f in (losses.mean_loss, plain))
        assert all(t.isfinite().all() for t in ours)
        same(ours, theirs, 1e-6)
        tokens = losses.token_losses(x, weight, None, targets)
        same([tokens], [plain(x, weight, None, targets, "none")], 1e-3 if dtype == torch.float32 else 1e-10)


def test_huge_logits_keep_the_precision_of_token_losses():
    x, weight, targets = torch.ones(1, 1), torch.tensor([[1e4], [1e4]]), torch.tensor([0])
    same([losses.token_losses(x, weight, None, targets)], [plain(x, weight, None, targets, "none")], 1e-6)


def test_single_precision_is_as_exact_as_torch():
    x, weight, bias, targets = made(200, 32, 500, scale=0.5)
    exact = with_gradients(plain, x, weight, bias, targets)
    single = (x.float(), weight.float(), bias.float(), targets)
    for a, b in zip(with_gradients(losses.mean_loss, *single), exact, strict=True):
        assert (a - b).abs().max() < 2e-6 * max(1.0, b.abs().max())


def test_inputs_without_gradient_get_none():
    x, weight, bias, targets = made()
    x.requires_grad_()
    losses.mean_loss(x, weight, bias, targets).backward()
    assert x.grad is not None
    assert weight.grad is None
    assert bias.grad is None


def test_token_losses_need_no_gradients():
    x, weight, bias, targets = made()
    with torch.inference_mode():
        assert losses.token_losses(x, weight, bias, targets).shape == (N,)
        assert losses.mean_loss(x, weight, bias, targets).ndim == 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head_bias", [True, False])
def test_a_language_models_loss_is_that_of_its_logits(tied, head_bias, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", 40)
    spec = ModelSpec(width=8, heads=2, layers=1, block=6, tied=tied, head_bias=head_bias)
    model = LanguageModel(spec, 11).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()), dtype=p.dtype))
    ids = torch.randint(0, 11, (3, 7), generator=torch.Generator().manual_seed(1))
    ids, targets = ids[:, :-1], ids[:, 1:]
    found = []
    for loss in (
        lambda: model.mean_loss(ids, targets),
        lambda: F.cross_entropy(model(ids).flatten(0, 1), targets.flatten()),
    ):
        model.zero_grad()
        value = loss()
        value.backward()
        found.append([value.detach(), *(p.grad.clone() for p in model.parameters())])
    same(*found)
    each = F.cross_entropy(model(ids).transpose(1, 2), targets, reduction="none")
    same([model.token_losses(ids, targets)], [each])
