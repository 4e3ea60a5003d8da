"""Observe any torch module while it runs: its token embeddings, attention weights, dropout and unregistered weights."""

from __future__ import annotations

import inspect
import math
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from headtohead.model.dropout import dropout
from headtohead.model.operations import Watching

# Functions with dropout, and the name of their argument that holds its probability.
_DROPOUTS = {
    dropout: "p",
    F.dropout: "p",
    F.dropout1d: "p",
    F.dropout2d: "p",
    F.alpha_dropout: "p",
    F.feature_alpha_dropout: "p",
    F.multi_head_attention_forward: "dropout_p",
}


class DropoutOff(TorchFunctionMode):
    """Turns off dropout in all functions that a module calls, so that two passes in training mode can be compared."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            args, kwargs = args[:4], {**kwargs, "dropout_p": 0.0, **({"is_causal": args[5]} if len(args) > 5 else {})}
        elif func is torch.dropout:
            args, kwargs = (args[0] if args else kwargs["input"], 0.0, True), {}
        elif func in _DROPOUTS:
            bound = inspect.signature(func).bind(*args, **kwargs)
            bound.arguments[_DROPOUTS[func]] = 0.0
            args, kwargs = bound.args, bound.kwargs
        return func(*args, **kwargs)


class CastsDown(Watching):
    """Records whether a float64 tensor is converted to float32, because results then have float32 rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].dtype == torch.float64 and out.dtype == torch.float32:
            self.seen = True
        return out


class AttentionWatch(Watching):
    """Collects every matrix of attention weights (N, T, T) that a forward pass without gradients uses.

    Weights are recognised by their use: a non-negative (T, T) operand of a matrix product that follows a softmax of the
    same shape. Fused attention does not return its weights, so they are recomputed from its arguments.
    """

    def __init__(self, T: int) -> None:
        super().__init__()
        self.T = T
        self.weights: list[Tensor] = []  # rows are queries
        self.softmaxes: list[Tensor] = []  # before anything is done with them
        self._softmax_seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name in ("_softmax", "_safe_softmax", "softmax") and out.shape[-2:] == (self.T, self.T):
            self._softmax_seen = True
            self.softmaxes.append(out.reshape(-1, self.T, self.T).clone())
        elif name in ("bmm", "mm") and self._softmax_seen:
            self._product(args[0], args[1])
        elif name.startswith("_scaled_dot_product") and args[0].shape[-2] == args[1].shape[-2] == self.T:
            self.weights.append(_fused_weights(func, args, kwargs))
            self.softmaxes.append(self.weights[-1])
        return out

    def _product(self, a: Tensor, b: Tensor) -> None:
        square = (self.T, self.T)
        if a.shape[-2:] == square and (a >= 0).all():  # weights @ values
            self.weights.append(a.reshape(-1, *square).clone())
            self._softmax_seen = False
        elif b.shape[-2:] == square and (b >= 0).all():  # valuesᵀ @ weightsᵀ
            self.weights.append(b.reshape(-1, *square).transpose(-1, -2).clone())
            self._softmax_seen = False


def _fused_weights(func: Any, args: Any, kwargs: Any) -> Tensor:
    names = [a.name for a in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    q, k = given["query"], given["key"]
    if k.shape[1] != q.shape[1]:  # grouped queries
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scale = given.get("scale") or 1 / math.sqrt(q.shape[-1])
    scores = scale * (q @ k.transpose(-1, -2))
    if given.get("is_causal"):
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    mask = given.get("attn_mask")
    mask = given.get("attn_bias") if mask is None else mask
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0).reshape(-1, *scores.shape[-2:])


def token_embeddings(
    model: nn.Module, call: Any, ids: Tensor, kinds: tuple[type, ...] = (nn.Embedding,)
) -> list[nn.Embedding]:
    """Return the embedding modules whose input is the ids."""
    embeddings: list[nn.Embedding] = []

    def collect(module: nn.Module, args: Any, _out: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].shape == ids.shape and torch.equal(args[0], ids):
            embeddings.append(module)  # type: ignore[arg-type]

    hooks = [m.register_forward_hook(collect) for m in model.modules() if isinstance(m, kinds)]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    return list(dict.fromkeys(embeddings))


@contextmanager
def inputs_with_gradient(embeddings: list[nn.Embedding]) -> Iterator[list[Tensor]]:
    """Turn the outputs of the token embeddings into leaf tensors, whose gradients show which tokens an output depends
    on."""
    leaves: list[Tensor] = []

    def make_leaf(_module: nn.Module, _args: Any, out: Tensor) -> Tensor:
        leaves.append(out.detach().requires_grad_())
        return leaves[-1]

    hooks = [e.register_forward_hook(make_leaf) for e in embeddings]
    try:
        yield leaves
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def without_gradients(model: nn.Module, but: Container[int] = ()) -> Iterator[None]:
    """Compute no gradients of weights, except of those whose id is in `but`: they take most of a backward pass."""
    others = [p for p in model.parameters() if p.requires_grad and id(p) not in but]
    for p in others:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in others:
            p.requires_grad_(True)


@contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """Give the buffers their values back afterwards: a pass in training may change running statistics."""
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        for name, buffer in model.named_buffers():
            if name in kept and buffer.shape == kept[name].shape:
                buffer.copy_(kept[name])


def hidden_weights(model: nn.Module, out: Tensor) -> dict[str, Tensor]:
    """Return trainable tensors that the model uses or holds but that are not in `model.parameters()`, by location."""
    registered = {id(p) for p in model.parameters()}
    hidden = {id(tensor): (path, tensor) for path, tensor in _held(model, registered).items()}
    for n, tensor in enumerate(leaves_of(out)):
        if id(tensor) not in registered:
            where = f"a tensor of shape {tuple(tensor.shape)} (number {n} in the graph)"
            hidden.setdefault(id(tensor), (where, tensor))
    return dict(hidden.values())


def count_weights(model: nn.Module) -> int:
    """Return how many weights a model holds, those outside of `model.parameters()` included."""
    parameters = list(model.parameters())
    hidden = _held(model, {id(p) for p in parameters})
    return sum(p.numel() for p in (*parameters, *hidden.values()))


def _held(model: nn.Module, registered: set[int]) -> dict[str, Tensor]:
    """Return trainable tensors in attributes, lists, dicts and objects of the model that are not registered."""
    hidden: dict[int, tuple[str, Tensor]] = {}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if not attribute.startswith("_") or attribute == "_hidden":
                where = f"{name}.{attribute}" if name else attribute
                for path, tensor in _weights_in(value, where, set(), depth=4):
                    if id(tensor) not in registered:
                        hidden.setdefault(id(tensor), (path, tensor))
    return dict(hidden.values())


def _weights_in(value: Any, path: str, visited: set[int], depth: int) -> Iterator[tuple[str, Tensor]]:
    if depth < 0 or id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, nn.Module):
        yield from ((f"{path}.{n}", p) for n, p in value.named_parameters())
    elif isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            yield path, value
    elif isinstance(value, list | tuple | set):
        for n, element in enumerate(value):
            yield from _weights_in(element, f"{path}[{n}]", visited, depth - 1)
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from _weights_in(element, f"{path}[{key!r}]", visited, depth - 1)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not inspect.isroutine(value):
        for key, element in vars(value).items():
            yield from _weights_in(element, f"{path}.{key}", visited, depth - 1)


def leaves_of(out: Tensor) -> list[Tensor]:
    """Return the trainable tensors that a result was computed from, found by walking its graph."""
    leaves: dict[int, Tensor] = {}
    todo, visited = [out.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        todo += [after for after, _ in node.next_functions]
    return list(leaves.values())
