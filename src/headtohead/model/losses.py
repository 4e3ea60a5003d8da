"""The language model's loss without storing its logits: head and cross-entropy in one function, a few rows at a time.

The logits are N × V numbers, by far the largest tensor in a small model's training step. Here they are computed for
some rows, turned into the loss and its gradients at once, and dropped, so that they stay in the processor's cache.
Shapes: N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CHUNK = 3 << 17  # logits at a time, 1.5 MB: more does not fit the processor's cache, less makes matrix products slow


def token_losses(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Return −log p(target) (N,) of x (N, D) under softmax(x · weightᵀ + bias), without gradients."""
    losses = x.new_empty(len(x))
    for rows in _chunks(len(x), len(weight)):
        z = _logits(x[rows], weight, bias)
        losses[rows] = -z.log_softmax(dim=1).gather(1, targets[rows, None])[:, 0]
    return losses


def mean_loss(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Return the mean of `token_losses`, with gradients for x, weight and bias."""
    return _MeanLoss.apply(x, weight, bias, targets)


def mean_of(x: Tensor, weight: Tensor, bias: Tensor | None, loss: Callable[[Tensor, slice], Tensor]) -> Tensor:
    """Return the mean of any loss of the logits, with gradients for x, weight and bias. `loss` returns the losses (n,)
    of the logits (n, V) of some rows; torch differentiates it there."""
    return _MeanOf.apply(x, weight, bias, loss)


def _chunks(rows: int, vocab: int) -> list[slice]:
    size = max(1, CHUNK // vocab)
    size = size // 16 * 16 or size
    return [slice(a, min(a + size, rows)) for a in range(0, rows, size)]


def _logits(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    return torch.mm(x, weight.t(), out=out) if bias is None else torch.addmm(bias, x, weight.t(), out=out)


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        p_target = x.new_empty(len(x), 1)
        dx, dw = torch.empty_like(x), torch.zeros_like(weight)
        db = None if bias is None else torch.zeros_like(bias)
        chunks = _chunks(len(x), len(weight))
        z = x.new_empty(chunks[0].stop, len(weight))  # one pair of buffers for all chunks
        p, minus_one = torch.empty_like(z), x.new_full((len(z), 1), -1.0)
        for rows in chunks:
            n, t = rows.stop - rows.start, targets[rows, None]
            _logits(x[rows], weight, bias, out=z[:n])
            torch.softmax(z[:n], dim=1, out=p[:n])
            torch.gather(p[:n], 1, t, out=p_target[rows])
            p[:n].scatter_add_(1, t, minus_one[:n])  # p − 1 at the target: d loss / d z
            torch.mm(p[:n], weight, out=dx[rows])
            dw.addmm_(p[:n].t(), x[rows])
            if db is not None:
                db += p[:n].sum(dim=0)
        ctx.gradients = dx, dw, db
        smallest = torch.finfo(x.dtype).tiny * 1e6
        if bool((p_target < smallest).any()):  # the log of so small a number is inexact: use log_softmax
            return token_losses(x, weight, bias, targets).mean()
        return -p_target.log().mean()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw, db = ctx.gradients
        del ctx.gradients
        scale = grad / len(dx)
        return dx.mul_(scale), dw.mul_(scale), None if db is None else db.mul_(scale), None


class _MeanOf(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, loss: Callable[[Tensor, slice], Tensor]
    ) -> Tensor:
        dx, dw = torch.empty_like(x), torch.zeros_like(weight)
        db = None if bias is None else torch.zeros_like(bias)
        total = x.new_zeros(())
        for rows in _chunks(len(x), len(weight)):
            with torch.enable_grad():
                z = _logits(x[rows], weight, bias).detach().requires_grad_()
                value = loss(z, rows).sum()
                (dz,) = torch.autograd.grad(value, z)
            total += value.detach()
            torch.mm(dz, weight, out=dx[rows])
            dw.addmm_(dz.t(), x[rows])
            if db is not None:
                db += dz.sum(dim=0)
        ctx.gradients = dx, dw, db
        return total / len(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _MeanLoss.backward(ctx, grad)
