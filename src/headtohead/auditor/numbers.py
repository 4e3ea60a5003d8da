"""Checks of the numbers themselves: outputs and gradients are finite, and every row of a table can learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.learning import objective, train_briefly
from headtohead.auditor.report import Advice, Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject, first_bad
from headtohead.auditor.trace import without_gradients

GROWN = 4.0  # weights are made this much larger to see what overflows


@check(
    "finite",
    "outputs and gradients of a text are finite",
    "the first batch turns the loss, then every weight, into NaN",
)
def finite(s: Subject) -> str:
    if s.large:
        return _finite_of_large(s)
    lengths = sorted({1, 2, s.length // 2, s.length, s.longest} - {0}) if s.any_length else [s.length]
    for mode in (False, True):
        model = s.fresh().train(mode)
        where = "in training" if mode else "in evaluation"
        for length in lengths:
            same = s.text(1, length)[:, :1].expand(2, length)
            for ids, what in ((s.text(2, length), ""), (same, " of one repeated token")):
                if bad := first_bad(s.outputs(model, ids)):
                    raise Broken(f"{where}, the output of a text of {length} tokens{what} is {bad}")
        objective(s, model).backward()
        for name, p in model.named_parameters():
            if p.grad is not None and (bad := first_bad(p.grad)):
                raise Broken(f"{where}, the gradient of {name} is {bad}")
    if bad := _with_zeros(s, s.fresh()):
        raise Broken(WITH_ZEROS.format(bad))
    model = s.fresh().eval()
    with _grown(model):
        if bad := first_bad(s.outputs(model, s.text(2))):
            raise Advice(OVERFLOWS.format(bad))
    return f"texts of {lengths[0]} to {lengths[-1]} tokens, evaluation and training, and larger weights"


def _finite_of_large(s: Subject) -> str:
    """Check modules that were built for other checks, and the first gradients of training."""
    lengths = sorted({1, 2, s.length} - {0}) if s.any_length else [s.length]
    for length in lengths:
        ids = s.text(2, length)
        ids[1] = ids[1, 0]
        with s.mode("training") as trained:
            results = {"evaluation": s.outputs(s.initial().eval(), ids), "training": s.outputs(trained, ids)}
        for mode, out in results.items():
            if bad := first_bad(out):
                raise Broken(f"in {mode}, the output of a text of {length} tokens is {bad}")
    if s.longest and (bad := first_bad(s.outputs(s.initial(), s.text(1, s.longest)))):
        raise Broken(f"in evaluation, the output of a text of {s.longest} tokens is {bad}")
    if bad := s.cached(train_briefly).not_finite:
        raise Broken(f"in training, {bad}")
    if bad := _with_zeros(s, s.initial()):
        raise Broken(WITH_ZEROS.format(bad))
    with _grown(s.eval_model):
        if bad := first_bad(s.outputs(s.eval_model, s.text(2))):
            raise Advice(OVERFLOWS.format(bad))
    few = s.reduced("gradients in training alone", "the longest text in evaluation alone")
    return f"texts of 1 to {max(s.length, s.longest)} tokens, evaluation and training, and larger weights{few}"


WITH_ZEROS = "when all embeddings are zero, the output is {}: divide by a length plus a small number"


def _with_zeros(s: Subject, model: nn.Module) -> str:
    """Return what is not finite in the output when the token embeddings are zero, as that of padding is."""
    model.eval()
    embeddings = s.embeddings_of(model)
    hooks = [e.register_forward_hook(lambda _module, _args, out: torch.zeros_like(out)) for e in embeddings]
    try:
        return first_bad(s.outputs(model, s.text(2))) if hooks else ""
    finally:
        for hook in hooks:
            hook.remove()


OVERFLOWS = f"with weights {GROWN:g} times as large, the output is {{}}: look for exp of large numbers"


@contextmanager
def _grown(model: nn.Module) -> Iterator[None]:
    """Make matrices larger by a power of two, and exactly as before afterwards. Exp without its maximum overflows."""
    matrices = [p.data for p in model.parameters() if p.is_floating_point() and p.ndim > 1]
    for p in matrices:
        p.mul_(GROWN)
    try:
        yield
    finally:
        for p in matrices:
            p.div_(GROWN)


@check(
    "rows",
    "every token and every position has a row of its own that learns",
    "some tokens or positions are never learned, or cannot be told from others",
)
def rows(s: Subject) -> str:
    _require_distinct(s)
    if s.large:
        _require_own_rows(s)
    idle: dict[str, set[int]] = {}
    asked = 0
    for seed in range(s.effort.starts):  # in one seed, the largest values of a pooling may leave a token out
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
    few = s.reduced(
        f"outputs of {min(s.vocab, s.effort.compared)} ids", f"gradients of {min(s.vocab, s.effort.learned)}"
    )
    return f"{asked} rows{few}"


def _some_ids(s: Subject, count: int) -> Tensor:
    """Return ids other than padding: the first ones, or of a large module some of the whole vocabulary."""
    ids = torch.linspace(0, s.vocab - 1, min(s.vocab, count)).long() if s.large else torch.arange(min(s.vocab, count))
    return ids[ids != s.pad]


def _require_distinct(s: Subject) -> None:
    """Raise Broken if two ids give the same output."""
    own = _some_ids(s, s.effort.compared)
    length = (1 if s.large else min(s.length, 4)) if s.any_length else s.length
    texts = own[:, None].expand(-1, length)
    out = torch.cat([s.outputs(s.eval_model, part)[:, -1:].flatten(1) for part in texts.split(256)]).to(s.exact)
    direction = torch.randn(out.shape[1], generator=torch.Generator().manual_seed(51), dtype=s.exact)
    order = (out @ direction).argsort()
    same = (out[order[1:]] == out[order[:-1]]).all(dim=1).nonzero().flatten().tolist()
    if same:
        a, b = sorted(int(own[order[i]]) for i in (same[0], same[0] + 1))
        more = f" ({len(same) - 1} more such pairs)" if len(same) > 1 else ""
        raise Broken(f"tokens {a} and {b} give the same outputs{more}")


class _ReadEnough(Exception):  # noqa: N818
    """Ends a forward pass after the token embedding."""


def _require_own_rows(s: Subject) -> None:
    """Raise Broken if an id of the vocabulary does not read its own row of the token embedding."""
    embeddings = s.embeddings_of(s.eval_model)
    count = -(-s.vocab // s.length)
    ids = torch.arange(count * s.length).clamp(max=s.vocab - 1).view(count, s.length)

    def compare(_module: nn.Module, args: Any) -> None:
        read = args[0]
        if read.shape == ids.shape and not torch.equal(read, ids):
            first = int((read != ids).flatten().nonzero()[0])
            raise Broken(f"token {int(ids.flatten()[first])} reads row {int(read.flatten()[first])} of the embedding")
        raise _ReadEnough

    hooks = [e.register_forward_pre_hook(compare) for e in embeddings[:1]]
    try:
        if hooks:
            s.outputs(s.eval_model, ids)
    except _ReadEnough:
        return
    finally:
        for hook in hooks:
            hook.remove()


def _tables(s: Subject, seed: int) -> dict[str, tuple[Tensor, set[int]]]:
    """Return the gradient of each table with a row per token or position, and the rows that should have one."""
    if s.large:
        with s.mode("training") as model:
            tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding) and m.weight.requires_grad}
            if not tables:
                return {}
            with without_gradients(model, tables):
                return _tables_of(s, model, seed)
    model = s.perturbed(seed=seed).train()  # at its start, a head of zeros lets no gradient through
    with s.dropout_off(model):
        return _tables_of(s, model, seed)


def _tables_of(s: Subject, model: nn.Module, seed: int) -> dict[str, tuple[Tensor, set[int]]]:
    seen: dict[int, tuple[Any, set[int]]] = {}
    own = _some_ids(s, s.effort.learned).tolist()
    length = max(s.length, s.longest)
    draw = torch.Generator().manual_seed(50 + seed)
    with _lookups(model, seen):
        total: Any = 0
        for texts in _all_tokens(own, length, draw, 1 if s.large else 2).split(8):
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
    model.zero_grad()
    return found


def _all_tokens(tokens: list[int], length: int, draw: torch.Generator, times: int) -> Tensor:
    """Draw texts that contain every token at least once or, in random places, twice."""
    mixed = [torch.tensor(tokens)[torch.randperm(len(tokens), generator=draw)] for _ in range(times)]
    ids = torch.cat(mixed)
    fill = torch.tensor(tokens)[
        torch.randint(len(tokens), (-len(ids) % length + (times - 1) * length,), generator=draw)
    ]
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
