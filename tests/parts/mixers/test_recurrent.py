"""The chunked scan against its definition, token by token: any chunk, any length, with a state before and after."""

import pytest
import torch
from torch import Tensor

from headtohead.parts.mixers.recurrent import in_chunks, scan

B, H, DK, DV = 2, 3, 4, 5


def inputs(T: int, seed: int = 0) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    q, k, v, state = (
        torch.randn(*shape, generator=draw, dtype=torch.float64)
        for shape in ((B, H, T, DK), (B, H, T, DK), (B, H, T, DV), (B, H, DK, DV))
    )
    g = -2 * torch.rand(B, H, T, generator=draw, dtype=torch.float64)
    return q, k, v, g, state


def by_definition(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
    """S_t = exp(g_t) S_(t−1) + k_t v_tᵀ and o_t = q_t S_t, in loops over texts, heads and tokens."""
    o, last = torch.zeros_like(v), state.clone()
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = state[b, h]
            for t in range(q.shape[2]):
                decay = 1.0 if g is None else g[b, h, t].exp()
                s = decay * s + torch.outer(k[b, h, t], v[b, h, t])
                o[b, h, t] = q[b, h, t] @ s
            last[b, h] = s
    return o, last


@pytest.mark.parametrize("T", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("chunk", [1, 2, 5, 16, 64])
@pytest.mark.parametrize("decays", [False, True])
def test_the_scan_equals_its_definition(T, chunk, decays):
    q, k, v, g, state = inputs(T)
    found = scan(q, k, v, g if decays else None, state, chunk)
    expected = by_definition(q, k, v, g if decays else None, state)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_no_state_is_a_state_of_zeros():
    q, k, v, g, state = inputs(9)
    for ours, theirs in zip(scan(q, k, v, g, None, 4), scan(q, k, v, g, 0 * state, 4), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("cuts", [[3], [1, 1, 4], [8, 1], [0 + 2, 3, 3]])
def test_a_text_in_pieces_gives_the_same(cuts):
    q, k, v, g, state = inputs(9)
    whole, end = scan(q, k, v, g, state, 4)
    pieces, at = [], 0
    for size in [*cuts, 9 - sum(cuts)]:
        if size:
            piece = slice(at, at + size)
            o, state = scan(q[:, :, piece], k[:, :, piece], v[:, :, piece], g[:, :, piece], state, 4)
            pieces.append(o)
            at += size
    torch.testing.assert_close(torch.cat(pieces, dim=2), whole, rtol=0, atol=1e-11)
    torch.testing.assert_close(state, end, rtol=0, atol=1e-11)


@pytest.mark.parametrize("T", [5, 8])
def test_gradients_are_those_of_the_definition(T):
    q, k, v, g, state = inputs(T)
    given = [x.requires_grad_() for x in (q, k, v, g, state)]
    assert torch.autograd.gradcheck(lambda *x: scan(*x, 3), given, fast_mode=True)


@pytest.mark.parametrize("decay", [-1e4, -80.0])
def test_strong_decay_gives_finite_values_and_gradients(decay):
    q, k, v, g, state = inputs(40)
    g = torch.full_like(g, decay).requires_grad_()
    o, last = scan(q, k, v, g, state, 16)
    (o.sum() + last.sum()).backward()
    assert o.isfinite().all()
    assert g.grad is not None
    assert g.grad.isfinite().all()


def test_chunks_are_filled_with_zeros():
    x = torch.arange(1, 6.0).view(1, 1, 5, 1)
    assert in_chunks(x, 3).flatten().tolist() == [1, 2, 3, 4, 5, 0]
    assert in_chunks(x, 9).shape == (1, 1, 1, 5, 1)
