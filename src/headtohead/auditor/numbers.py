"""Checks of the numbers themselves: outputs and gradients are finite, and every row of a table can learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.learning import SEEDS, objective
from headtohead.auditor.report import Advice, Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject

MOST_TOKENS = 4096  # ids of a vocabulary that are tried
GROWN = 4.0  # weights are made this much larger to see what overflows


@check(
    "finite",
    "outputs and gradients of a text are finite",
    "the first batch turns the loss, then every weight, into NaN",
)
def finite(s: Subject) -> str:
    lengths = sorted({1, 2, s.length // 2, s.length, s.longest} - {0}) if s.any_length else [s.length]
    for mode in (False, True):
        model = s.fresh().train(mode)
        where = "in training" if mode else "in evaluation"
        for length in lengths:
            same = s.text(1, length)[:, :1].expand(2, length)
            for ids, what in ((s.text(2, length), ""), (same, " of one repeated token")):
                if bad := _not_finite(s.outputs(model, ids)):
                    raise Broken(f"{where}, the output of a text of {length} tokens{what} is {bad}")
        objective(s, model).backward()
        for name, p in model.named_parameters():
            if p.grad is not None and (bad := _not_finite(p.grad)):
                raise Broken(f"{where}, the gradient of {name} is {bad}")
    if bad := _with_zeros(s):
        raise Broken(f"when all embeddings are zero, the output is {bad}: divide by a length plus a small number")
    _stays_finite(s)
    return f"texts of {lengths[0]} to {lengths[-1]} tokens, evaluation and training, and larger weights"


def _with_zeros(s: Subject) -> str:
    """Return what is not finite in the output when the token embeddings are zero, as that of padding is."""
    model = s.fresh().eval()
    embeddings = s.embeddings_of(model)
    hooks = [e.register_forward_hook(lambda _module, _args, out: torch.zeros_like(out)) for e in embeddings]
    try:
        return _not_finite(s.outputs(model, s.text(2))) if hooks else ""
    finally:
        for hook in hooks:
            hook.remove()


def _stays_finite(s: Subject) -> None:
    """Advise if weights that have grown make an output infinite: exp without its maximum does."""
    model = s.fresh().eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and p.ndim > 1:
                p.mul_(GROWN)
    if bad := _not_finite(s.outputs(model, s.text(2))):
        raise Advice(f"with weights {GROWN:g} times as large, the output is {bad}: look for exp of large numbers")


def _not_finite(x: Tensor) -> str:
    bad = x.detach()[~torch.isfinite(x.detach())]
    return str(float(bad.flatten()[0])) if bad.numel() else ""


@check(
    "rows",
    "every token and every position has a row of its own that learns",
    "some tokens or positions are never learned, or cannot be told from others",
)
def rows(s: Subject) -> str:
    _require_distinct(s)
    idle: dict[str, set[int]] = {}
    asked = 0
    for seed in range(SEEDS):  # in one seed, the largest values of a pooling may leave a token out
        tables = _tables(s, seed)
        asked = sum(len(rows) for _table, rows in tables.values())
        for name, (gradient, rows) in tables.items():
            without = {row for row in rows if not gradient[row].any()}
            idle[name] = idle.get(name, without) & without
        if not any(idle.values()):
            break
    if not asked:
        raise DoesNotApply("no table of embeddings was found")
    for name, without in idle.items():
        if without:
            more = f" and of {len(without) - 1} more" if len(without) > 1 else ""
            raise Broken(f"{name}: the gradient of row {min(without)}{more} is zero, though its id was in the texts")
    return f"{asked} rows"


def _require_distinct(s: Subject) -> None:
    """Raise Broken if two ids give the same output."""
    own = torch.tensor([t for t in range(min(s.vocab, MOST_TOKENS)) if t != s.pad])
    length = min(s.length, 4) if s.any_length else s.length
    texts = own[:, None].expand(-1, length)
    out = torch.cat([s.outputs(s.eval_model, part)[:, -1:].flatten(1) for part in texts.split(256)]).double()
    direction = torch.randn(out.shape[1], generator=torch.Generator().manual_seed(51), dtype=torch.float64)
    order = (out @ direction).argsort()
    same = (out[order[1:]] == out[order[:-1]]).all(dim=1).nonzero().flatten().tolist()
    if same:
        a, b = sorted(int(own[order[i]]) for i in (same[0], same[0] + 1))
        more = f" ({len(same) - 1} more such pairs)" if len(same) > 1 else ""
        raise Broken(f"tokens {a} and {b} give the same outputs{more}")


def _tables(s: Subject, seed: int) -> dict[str, tuple[Tensor, set[int]]]:
    """Return the gradient of each table with a row per token or position, and the rows that should have one."""
    model = s.perturbed(seed=seed).train()  # at its start, a head of zeros lets no gradient through
    seen: dict[int, tuple[Any, set[int]]] = {}
    own = [t for t in range(min(s.vocab, MOST_TOKENS)) if t != s.pad]
    length = max(s.length, s.longest)
    draw = torch.Generator().manual_seed(50 + seed)
    with _lookups(model, seen), s.dropout_off(model):
        total: Any = 0
        for texts in _all_tokens(own, length, draw).split(8):
            out = s.call(model, texts)
            total = total + (out * torch.randn(out.shape, generator=draw).to(out.dtype)).sum()
        total.backward()
    tokens = {id(e.weight) for e in s.embeddings_of(model)}
    found = {}
    names = {id(p): name for name, p in model.named_parameters()}
    for key, (module, rows) in seen.items():
        if key not in tokens and (s.gives == "classes" or not len(module.weight) == s.longest == length):
            continue  # some of its rows may have no part in the output
        if key not in tokens:
            rows |= set(range(length))  # a row per position, and every output reads its own position
        gradient = module.weight.grad
        if key in names and gradient is not None and not gradient.is_sparse:
            found[names[key]] = (gradient, rows - {module.padding_idx})
    return found


def _all_tokens(tokens: list[int], length: int, draw: torch.Generator) -> Tensor:
    """Draw texts that contain every token at least twice."""
    mixed = [torch.tensor(tokens)[torch.randperm(len(tokens), generator=draw)] for _ in range(2)]
    ids = torch.cat(mixed)
    fill = torch.tensor(tokens)[torch.randint(len(tokens), (-len(ids) % length + length,), generator=draw)]
    return torch.cat([ids, fill]).view(-1, length)


@contextmanager
def _lookups(model: nn.Module, seen: dict[int, tuple[Any, set[int]]]) -> Iterator[None]:
    """Collect which rows of each nn.Embedding are read."""

    def collect(module: nn.Module, args: Any, _out: Any) -> None:
        if args and isinstance(args[0], Tensor):
            seen.setdefault(id(module.weight), (module, set()))[1].update(args[0].unique().tolist())

    hooks = [m.register_forward_hook(collect) for m in model.modules() if isinstance(m, nn.Embedding)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
