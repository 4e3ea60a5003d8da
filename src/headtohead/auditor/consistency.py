"""Checks that two computations agree, such as fused and explicit attention. Options must have an effect."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.information import influence, padding_differs
from headtohead.auditor.report import Broken, DoesNotApply, check
from headtohead.auditor.subject import Subject, from_spec
from headtohead.auditor.trace import AttentionWatch, buffers_kept
from headtohead.model.hooks import explicit

# Options with such a name switch the implementation and must not change the output.
SWITCH = re.compile(r"flash|sdpa|fused|fast|explicit|naive|efficient", re.IGNORECASE)
# Options with such a name may have no effect on a short text.
CAPACITY = re.compile(
    r"max|len|block|context|seq|pad|vocab|seed|device|checkpoint|compile|verbose|debug|cache|return|need", re.IGNORECASE
)


@check(
    "paths",
    "fused and explicit attention agree",
    "results depend on an implementation switch, and attention maps are not those used for the loss",
)
def paths(s: Subject) -> str:
    if s.spec is not None:
        return _paths_of_spec(s)
    tried = []
    for name, value in s.options.items():
        if isinstance(value, bool) and SWITCH.search(name) and s.rebuild is not None:
            tried.append(name)
            other = s.perturbed(partial(s.rebuild, **{name: not value})).eval()
            if _differ(s, s.eval_model, other):
                raise Broken(f"the output changes with {name}={not value}")
    for where, name, modules in _switches(s):
        tried.append(where)
        value = getattr(modules[0], name)
        before = s.outputs(s.eval_model, s.text(3))
        try:
            for module in modules:
                setattr(module, name, not value)
            after = s.outputs(s.eval_model, s.text(3))
        finally:
            for module in modules:
                setattr(module, name, value)
        if s.differs(before, after).any():
            raise Broken(f"the output changes with {where}={not value}")
    if not tried:
        raise DoesNotApply("it has only one implementation")
    return ", ".join(tried) + s.reduced("switches of one name together")


def _switches(s: Subject) -> list[tuple[str, str, list[nn.Module]]]:
    """Return the location and name of each switch, and its module. In a large module, all switches of one name and
    value are one."""
    found: dict[Any, tuple[str, str, list[nn.Module]]] = {}
    for path, module in s.eval_model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, bool) and SWITCH.search(name) and not name.startswith("_"):
                key = (name, value) if s.large else (path, name)
                found.setdefault(key, (f"{path}.{name}".lstrip("."), name, []))[2].append(module)
    return list(found.values())


def _paths_of_spec(s: Subject) -> str:
    ids = s.text(3)
    ids[1, s.length // 2 :] = s.pad
    ids[2] = s.pad  # a text in which no key is allowed
    results = []
    for context in (nullcontext(), explicit(s.eval_model)):
        with context:
            s.eval_model.zero_grad()
            out = s.call(s.eval_model, ids, ids != s.pad)
            (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(12)).to(out.dtype)).sum().backward()
            results.append([out.detach(), *(p.grad.clone() for p in s.eval_model.parameters() if p.grad is not None)])
    for a, b in zip(*results, strict=True):
        if s.differs(a.reshape(1, -1), b.reshape(1, -1)).any():
            raise Broken("outputs or gradients differ between the two paths")
    return "outputs and gradients, with padding and an empty text"


@check("options", "every option changes the output", "a study of that option compares a model with itself")
def options(s: Subject) -> str:
    if s.spec is not None or s.rebuild is None:
        raise DoesNotApply("knobs are checked for each part")
    tried = []
    for name, value in s.options.items():
        if SWITCH.search(name) or CAPACITY.search(name):
            continue
        for other in _other_values(value, s.large):
            build = partial(s.rebuild, **{name: other})
            try:
                has_effect = (
                    _changes_large(s, build) if s.large else models_differ(s, s.perturbed(), s.perturbed(build))
                )
            except Exception:  # the user's module refuses this value: try another, or skip the option
                continue
            if not has_effect:
                raise Broken(f"the output is the same with {name}={value} and {name}={other}")
            tried.append(name)
            break
    if not tried:
        raise DoesNotApply("it has no options to change")
    return ", ".join(tried) + s.reduced("shapes of weights where they change")


def _changes_large(s: Subject, build: Callable[[], nn.Module]) -> bool:
    """Whether another option changes a large module, in weights or outputs. Outputs are not needed if shapes differ."""
    changed = s.fresh(build=build)
    shapes, others = ({n: p.shape for n, p in m.state_dict().items()} for m in (s.eval_model, changed))
    try:
        with buffers_kept(s.eval_model):
            return shapes != others or models_differ(s, s.eval_model, s.perturb(s.cast(changed)))
    finally:
        s.eval_model.eval()


def _other_values(value: Any, large: bool) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        half, double = max(1, value // 2), value * 2
        return [n for n in (half, value + 1, double) if n != value] if large else [value + 1, double, half]
    return [value + 0.25, value / 2] if value < 0.7 else [value * 2, value / 2]


def models_differ(s: Subject, plain: nn.Module, changed: nn.Module) -> bool:
    """Whether two modules differ in weights or, by more than rounding, in their outputs in evaluation or training."""
    ids = s.text(min(3, s.effort.rows))
    outs = [[s.outputs(model.train(mode), ids) for mode in (False, True)] for model in (plain, changed)]
    a, b = plain.state_dict(), changed.state_dict()
    if a.keys() != b.keys() or any(a[k].shape != b[k].shape or not torch.equal(a[k], b[k]) for k in a):
        return True
    return any(x.shape != y.shape or bool(s.differs(x, y).any()) for x, y in zip(*outs, strict=True))


def _differ(s: Subject, a: nn.Module, b: nn.Module) -> bool:
    ids = s.text(3)
    return bool(s.differs(s.outputs(a, ids), s.outputs(b, ids)).any())


@check(
    "rows-sum",
    "the attention weights of a token sum to one",
    "attention does not average: its output grows or shrinks with the length of the text",
)
def rows_sum(s: Subject) -> str:
    weights = _attention_maps(s)
    if not weights:
        raise DoesNotApply("no softmax over tokens was found")
    shorter = _attention_maps(s, s.text(2, s.length // 2)) if s.any_length and s.length > 3 else []
    for n, a in enumerate(weights):
        sums = a.sum(dim=-1)
        off = (sums - 1).abs() > max(1e-6, s.tolerance)
        if off.any() and not _constant(sums, shorter[n].sum(dim=-1) if n < len(shorter) else None, s.tolerance):
            head, row = off.nonzero()[0].tolist()
            raise Broken(f"in attention {n}, the weights of position {row} sum to {float(sums[head, row]):.4g}")
    return f"{sum(len(a) for a in weights)} maps of {s.length} × {s.length}{s.reduced()}"


def _constant(sums: Tensor, shorter: Tensor | None, tolerance: float) -> bool:
    """Whether each head's sums are one number for all rows and lengths, as if heads are mixed after the softmax."""
    if shorter is None or len(shorter) != len(sums):
        return False
    both = torch.cat([sums, shorter], dim=-1)
    return bool((both.amax(dim=-1) - both.amin(dim=-1) <= max(1e-6, tolerance)).all())


def _moves_with_position(s: Subject) -> str | None:
    """Describe where attention depends on more than the offset, found in a text that repeats itself; else None.

    With relative positions, the log-weights minus the log-weight of the token itself repeat along the text with the
    period of the text: in every attention layer if one token repeats, and in the first layer if two tokens alternate.
    """
    if any(isinstance(m, nn.RNNBase | nn.Conv1d) for m in s.eval_model.modules()):
        return None  # these modules depend on the edge of the text, with or without positions
    two = s.text(1)[:, :2].repeat(2, s.length)[:, : s.length]
    for period, ids, maps in ((1, two[:, :1].expand_as(two), None), (2, two, 1)):
        for n, a in enumerate(_attention_maps(s, ids, before_mixing=True)[:maps]):
            logs = a.double().log()
            logs = logs - logs.diagonal(dim1=-2, dim2=-1)[..., None]  # (N, T, T)
            for offset in range(1 - s.length, s.length):
                along = logs.diagonal(offset, dim1=-2, dim2=-1)
                along = along[torch.isfinite(along).all(dim=-1)]  # (heads that reach this offset, T − |offset|)
                if ((along[:, period:] - along[:, :-period]).abs() > 1e-4).any():
                    where = f"{abs(offset)} {'ahead' if offset > 0 else 'back'}"
                    return f"in attention {n}, the weight of the token {where} changes along a text that repeats itself"
    return None


def _attention_maps(s: Subject, ids: Tensor | None = None, *, before_mixing: bool = False) -> list[Tensor]:
    """Return the attention weights (N, T, T) of each attention layer in the module, in order: those that the values are
    multiplied with or, with `before_mixing`, those that the softmax gives."""
    watch = AttentionWatch(s.length if ids is None else ids.shape[1])
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused kernel does not expose the attention weights
    try:
        with torch.no_grad(), explicit(s.eval_model), watch:
            s.call(s.eval_model, s.text(2) if ids is None else ids)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return watch.softmaxes if before_mixing else watch.weights


@check(
    "window",
    "each token sees exactly the allowed tokens",
    "the model sees more or fewer tokens than its pattern says",
)
def window(s: Subject) -> str:
    if s.spec is not None:
        return _window_of_spec(s)
    if s.window is None:
        raise DoesNotApply("no window is claimed; if there is one, add --window W")
    maps = [(f"in attention {n}, ", (a > 0).any(dim=0)) for n, a in enumerate(_attention_maps(s))]
    if s.longest > s.length:
        long = _attention_maps(s, s.text(2, s.longest))
        maps += [(f"in a text of {s.longest}, attention {n}, ", (a > 0).any(dim=0)) for n, a in enumerate(long)]
    if not maps:  # without attention, the window is that of the whole module
        size = influence(s) if s.gives == "tokens" else None
        if size is None:
            raise DoesNotApply("neither attention nor a token embedding was found")
        maps = [("", size > s.tolerance)]
    for where, seen in maps:
        position = torch.arange(len(seen))
        offset = position[:, None] - position
        inside = (offset >= 0) & (offset < s.window) if s.causal else offset.abs() < s.window
        if (seen & ~inside).any():
            pairs = _nearest_first(seen & ~inside)
            (i, j) = pairs[0]
            raise Broken(f"{where}position {i} saw position {j}, outside a window of {s.window}", pairs)
        if (inside & ~seen).any():
            pairs = _nearest_first(inside & ~seen)
            (i, j) = pairs[0]
            raise Broken(f"{where}position {i} did not see position {j}, inside a window of {s.window}", pairs)
    return f"both edges, every position{s.reduced()}"


def _window_of_spec(s: Subject) -> str:
    """Check by gradient that one layer sees exactly what the pattern allows. A token always sees itself, through the
    residual connection."""
    assert s.spec is not None
    if s.gives == "classes" or not s.spec.fusion.causal:
        weights = _attention_maps(s)
        seen = torch.stack([(a > 0).any(dim=0) for a in weights]).any(dim=0)
    else:
        one = from_spec(s.spec.set("layers", 1), s.name, causal=True, vocab=s.vocab, length=s.length)
        size = influence(one)
        assert size is not None
        seen = size > 0  # masked tokens have a gradient of exactly zero
    position = torch.arange(s.length)
    i, j = position[:, None], position[None, :]
    allowed = s.spec.pattern.allowed(i, j)
    wrong = (seen != allowed) & (i != j)
    wrong &= allowed.any(dim=1, keepdim=True)  # a token that may see no key attends to all, and its output is zeroed
    if wrong.any():
        pairs = _nearest_first(wrong)
        (a, b) = pairs[0]
        saw = "saw" if seen[a, b] else "did not see"
        raise Broken(f"position {a} {saw} position {b}, and {s.spec.pattern} says otherwise", pairs)
    return f"all {s.length**2} pairs against {s.spec.pattern}"


def _nearest_first(where: Tensor) -> list[tuple[int, int]]:
    """Return the pairs (i, j) that are true, sorted by distance."""
    pairs = [(i, j) for i, j in where.nonzero().tolist()]
    return sorted(pairs, key=lambda p: (abs(p[0] - p[1]), p))


@check(
    "shift",
    "moving the text to other positions changes nothing",
    "positions are not relative: what is learned at one position does not hold at another",
)
def shift(s: Subject) -> str:
    if not s.relative:
        raise DoesNotApply("positions are not claimed to be relative")
    if s.spec is not None:
        position = torch.arange(s.length)
        i, j = position[:, None], position[None, :]
        pattern = s.spec.pattern
        if not torch.equal(pattern.allowed(i, j), pattern.allowed(i + 5, j + 5)):
            raise DoesNotApply(f"{pattern} depends on absolute positions")
        ids = s.text(2)
        with torch.no_grad():
            base = s.call(s.eval_model, ids, positions=position)
            for by in (1, 5, 40):
                if s.differs(s.call(s.eval_model, ids, positions=position + by), base).any():
                    raise Broken(f"the output changes when all positions grow by {by}")
        return "positions moved by 1, 5 and 40"
    if found := _moves_with_position(s):
        raise Broken(found)
    if not s.takes_padding or not s.any_length:
        if not _attention_maps(s):
            raise DoesNotApply("it takes no padding and has no attention that could be checked")
        return f"attention within texts that repeat themselves{s.reduced()}"
    # Modules often compute angles in float32 even if the weights are float64, so allow for float32's rounding.
    if found := padding_differs(s, left=True, tolerance=3e-5):
        raise Broken(found)
    return f"moved by padding on the left{s.reduced()}"
