"""Count the floating-point operations of matrix products while they run, so that every part is included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from headtohead.model.operations import Watching

ATTENTION = "_scaled_dot_product_"


def count_flops(function: Callable[[], Any]) -> int:
    """Count the operations of a call: two per multiply-add. Norms, activations and softmax (1 to 2 %) are left out."""
    with _Counter() as counter:
        function()
    return counter.flops


class _Counter(Watching):
    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = op.overloadpacket.__name__
        count = _PRODUCTS.get(name)
        if count is not None:
            self.flops += count(*args)
        elif name.startswith(ATTENTION):
            self.flops += _backward(*args) if name.endswith("backward") else _forward(*args)
        out = op(*args, **(kwargs or {}))
        if name in ("convolution", "_convolution"):
            self.flops += _convolution(out, args[1])
        elif name == "convolution_backward":
            self.flops += sum(_convolution(args[0], args[2]) for made in out[:2] if made is not None)
        return out


def _mm(a: Tensor, b: Tensor, *_: Any) -> int:
    return 2 * a.numel() * b.shape[-1]


def _forward(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> int:
    """Count q · k and a · v, including masked pairs, which are computed too."""
    queries, keys = q.numel() // q.shape[-1], k.shape[-2]
    return 2 * queries * keys * (q.shape[-1] + v.shape[-1])


def _backward(_grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> int:
    """Count the recomputed scores, and the gradients of q, k, a and v."""
    queries, keys = q.numel() // q.shape[-1], k.shape[-2]
    return 2 * queries * keys * (3 * q.shape[-1] + 2 * v.shape[-1])


def _solve(a: Tensor, b: Tensor, *_: Any) -> int:
    """Count the half of the square matrix a that is not zero."""
    return b.numel() * a.shape[-1]


def _convolution(out: Tensor, weight: Tensor) -> int:
    return 2 * out.numel() * weight[0].numel()


_PRODUCTS: dict[str, Callable[..., int]] = {
    "mm": _mm,
    "bmm": _mm,
    "addmm": lambda _c, a, b, *_: _mm(a, b),
    "addmm_": lambda _c, a, b, *_: _mm(a, b),
    "baddbmm": lambda _c, a, b, *_: _mm(a, b),
    "addbmm": lambda _c, a, b, *_: _mm(a, b),
    "linalg_solve_triangular": _solve,
    "mv": lambda a, _b, *_: 2 * a.numel(),
    "dot": lambda a, _b, *_: 2 * a.numel(),
}
