"""Two ways to one answer: cached and not, fused and explicit; options that must matter, switches that must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.audit.check import check
from headtohead.audit.information import influence, padding_differs
from headtohead.audit.report import Outcome, broken, does_not_apply, proved
from headtohead.audit.subject import Subject, from_spec, unwrap
from headtohead.audit.watch import AttentionWatch
from headtohead.model import LanguageModel
from headtohead.taps import explicit

SWITCH = re.compile(r"flash|sdpa|fused|fast|explicit|naive|efficient", re.IGNORECASE)  # must not change the output
CAPACITY = re.compile(
    r"max|len|block|context|seq|pad|vocab|seed|device|checkpoint|compile|verbose|debug|cache|return|need", re.IGNORECASE
)


@check(
    "cache",
    "token by token with the cache equals the whole text at once",
    "generated text does not come from the model that was measured",
)
def cache(s: Subject) -> Outcome:
    if s.cache is None or s.gives != "tokens":
        return does_not_apply("it takes no cache")
    model, ids = s.still, s.text(2)
    whole = s.outputs(model, ids)
    for first in (1, s.length // 2):
        if first < 1:
            continue
        with torch.no_grad():
            parts = list(_in_steps(s, model, ids, first))
        if not parts:
            return does_not_apply(f"a first call with {s.cache}=None gives no cache back")
        gap = (s.apart(torch.cat(parts, dim=1), whole) > 1).any(dim=0)
        if gap.any():
            return broken(
                f"position {int(gap.nonzero()[0])} differs when the first {first} came at once and the rest one by one"
            )
    return proved("from one token and from half the text")


def _in_steps(s: Subject, model: nn.Module, ids: Tensor, first: int) -> Iterator[Tensor]:
    if isinstance(model, LanguageModel):
        memory: Any = model.new_cache()
        for step in (ids[:, :first], *ids[:, first:].split(1, dim=1)):
            yield model(step, cache=memory)
        return
    extra = {"use_cache": True} if "use_cache" in model.forward.__code__.co_varnames else {}
    memory = None
    for step in (ids[:, :first], *ids[:, first:].split(1, dim=1)):
        torch.manual_seed(2)
        out = model(step, **{str(s.cache): memory}, **extra)
        memory = _memory(out)
        if memory is None:
            return
        yield unwrap(out)


def _memory(out: Any) -> Any:
    for name in ("past_key_values", "cache"):
        if getattr(out, name, None) is not None:
            return getattr(out, name)
    return out[1] if isinstance(out, tuple | list) and len(out) > 1 else None


@check(
    "paths",
    "fused and explicit attention agree",
    "results depend on an implementation switch, and attention maps are not those of the loss",
)
def paths(s: Subject) -> Outcome:
    if s.spec is not None:
        return _own_paths(s)
    tried = []
    for name, value in s.options.items():
        if isinstance(value, bool) and SWITCH.search(name) and s.rebuild is not None:
            tried.append(name)
            other = s.stirred(partial(s.rebuild, **{name: not value})).eval()
            if _differ(s, s.still, other):
                return broken(f"the output changes with {name}={not value}")
    for where, module, name in _switches(s.still):
        tried.append(where)
        value = getattr(module, name)
        before = s.outputs(s.still, s.text(3))
        setattr(module, name, not value)
        try:
            after = s.outputs(s.still, s.text(3))
        finally:
            setattr(module, name, value)
        if (s.apart(before, after) > 1).any():
            return broken(f"the output changes with {where}={not value}")
    return proved(", ".join(tried)) if tried else does_not_apply("it has one path only")


def _switches(model: nn.Module) -> list[tuple[str, nn.Module, str]]:
    return [
        (f"{path}.{name}".lstrip("."), module, name)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, bool) and SWITCH.search(name) and not name.startswith("_")
    ]


def _own_paths(s: Subject) -> Outcome:
    ids = s.text(3)
    ids[1, s.length // 2 :] = s.pad
    ids[2] = s.pad  # rows with nothing allowed, too
    results = []
    for context in (nullcontext(), explicit(s.still)):
        with context:
            s.still.zero_grad()
            out = s.call(s.still, ids, ids != s.pad)
            (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(12)).to(out.dtype)).sum().backward()
            results.append([out.detach(), *(p.grad.clone() for p in s.still.parameters() if p.grad is not None)])
    for a, b in zip(*results, strict=True):
        if (s.apart(a.reshape(1, -1), b.reshape(1, -1)) > 1).any():
            return broken("outputs or gradients differ between the two paths")
    return proved("outputs and gradients, with padding and an empty text")


@check("options", "every option changes the output", "a comparison of that option compares a model with itself")
def options(s: Subject) -> Outcome:
    if s.spec is not None or s.rebuild is None:
        return does_not_apply("knobs are checked part by part")
    tried = []
    for name, value in s.options.items():
        if SWITCH.search(name) or CAPACITY.search(name):
            continue
        for other in _others(value):
            try:
                matters = _matters(s, name, other)
            except Exception:  # the user's module refuses this value: try another, or leave the option alone
                continue
            if not matters:
                return broken(f"the output is the same with {name}={value} and {name}={other}")
            tried.append(name)
            break
    return proved(", ".join(tried)) if tried else does_not_apply("it has no options to change")


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, max(1, value // 2)]
    return [value + 0.25, value / 2] if value < 0.7 else [value * 2, value / 2]


def _matters(s: Subject, name: str, other: Any) -> bool:
    """Whether weights, evaluation or training differ when one option does."""
    assert s.rebuild is not None
    return models_differ(s, s.stirred(), s.stirred(partial(s.rebuild, **{name: other})))


def models_differ(s: Subject, plain: nn.Module, changed: nn.Module) -> bool:
    """Whether two modules differ in their weights or, beyond rounding, in what they give in evaluation or training."""
    outs = [[s.outputs(model.train(mode), s.text(3)) for mode in (False, True)] for model in (plain, changed)]
    a, b = plain.state_dict(), changed.state_dict()
    if a.keys() != b.keys() or any(a[k].shape != b[k].shape or not torch.equal(a[k], b[k]) for k in a):
        return True
    return any(x.shape != y.shape or bool((s.apart(x, y) > 1).any()) for x, y in zip(*outs, strict=True))


def _differ(s: Subject, a: nn.Module, b: nn.Module) -> bool:
    ids = s.text(3)
    return bool((s.apart(s.outputs(a, ids), s.outputs(b, ids)) > 1).any())


@check(
    "rows-sum",
    "the attention weights of a token sum to one",
    "attention does not average: its output grows or shrinks with the length of the text",
)
def rows_sum(s: Subject) -> Outcome:
    weights = _observed(s)
    if not weights:
        return does_not_apply("no softmax over tokens was seen")
    for n, a in enumerate(weights):
        off = (a.sum(dim=-1) - 1).abs() > max(1e-6, s.tolerance)
        if off.any():
            head, row = off.nonzero()[0].tolist()
            total = float(a[head, row].sum())
            return broken(f"in attention {n}, the weights of position {row} sum to {total:.4g}")
    return proved(f"{sum(len(a) for a in weights)} maps of {s.length} × {s.length}")


def _moves_with_position(s: Subject) -> str | None:
    """A place where attention depends on more than the offset, found inside a text that repeats itself.

    With relative positions the logarithms of the weights, counted from the token's own, repeat along the text with the
    period of the text: in every attention for one repeated token, and in the first one for two that alternate.
    """
    if any(isinstance(m, nn.RNNBase | nn.Conv1d) for m in s.still.modules()):
        return None  # these tell the edge of a text by themselves
    two = s.text(1)[:, :2].repeat(2, s.length)[:, : s.length]
    for period, ids, maps in ((1, two[:, :1].expand_as(two), None), (2, two, 1)):
        for n, a in enumerate(_observed(s, ids)[:maps]):
            logs = a.double().log()
            logs = logs - logs.diagonal(dim1=-2, dim2=-1)[..., None]  # (N, T, T)
            for offset in range(1 - s.length, s.length):
                along = logs.diagonal(offset, dim1=-2, dim2=-1)
                along = along[torch.isfinite(along).all(dim=-1)]  # (heads that see that far, T − |offset|)
                if ((along[:, period:] - along[:, :-period]).abs() > 1e-4).any():
                    where = f"{abs(offset)} {'ahead' if offset > 0 else 'back'}"
                    return f"in attention {n}, the weight of the token {where} changes along a text that repeats itself"
    return None


def _observed(s: Subject, ids: Tensor | None = None) -> list[Tensor]:
    """Attention weights (N, T, T) of each attention in the module, in order."""
    watch = AttentionWatch(s.length)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # nn.MultiheadAttention would hide its weights in one kernel
    try:
        with torch.no_grad(), explicit(s.still), watch:
            s.call(s.still, s.text(2) if ids is None else ids)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return watch.weights


@check(
    "window",
    "exactly the allowed tokens are seen, to the edge",
    "the model looks further, or less far, than its name says",
)
def window(s: Subject) -> Outcome:
    if s.spec is not None:
        return _own_window(s)
    if s.window is None:
        return does_not_apply("no window is claimed; if there is one: --window W")
    position = torch.arange(s.length)
    offset = position[:, None] - position
    inside = (offset >= 0) & (offset < s.window) if s.causal else offset.abs() < s.window
    maps = [(f"in attention {n}, ", (a > 0).any(dim=0)) for n, a in enumerate(_observed(s))]
    if not maps:  # no attention at all: the window is that of the whole module
        size = influence(s) if s.gives == "tokens" else None
        if size is None:
            return does_not_apply("neither attention nor a token embedding was seen")
        maps = [("", size > s.tolerance)]
    for where, seen in maps:
        if (seen & ~inside).any():
            i, j = min((seen & ~inside).nonzero().tolist(), key=lambda p: (abs(p[0] - p[1]), p))
            return broken(f"{where}position {i} saw position {j}, outside a window of {s.window}")
        if (inside & ~seen).any():
            i, j = (inside & ~seen).nonzero()[0].tolist()
            return broken(f"{where}position {i} did not see position {j}, inside a window of {s.window}")
    return proved("both edges, every position")


def _own_window(s: Subject) -> Outcome:
    """One layer sees by gradient exactly what the pattern allows; a token always sees itself through the residual."""
    assert s.spec is not None
    if s.gives == "classes" or not s.spec.fusion.causal:
        weights = _observed(s)
        seen = torch.stack([(a > 0).any(dim=0) for a in weights]).any(dim=0)
    else:
        one = from_spec(s.spec.set("layers", 1), s.name, causal=True, vocab=s.vocab, length=s.length)
        size = influence(one)
        assert size is not None
        seen = size > 0  # what is masked has a gradient of exactly zero
    position = torch.arange(s.length)
    i, j = position[:, None], position[None, :]
    allowed = s.spec.pattern.allowed(i, j)
    wrong = (seen != allowed) & (i != j)
    wrong &= allowed.any(dim=1, keepdim=True)  # a token that may see nothing attends evenly, and the result is zeroed
    if wrong.any():
        a, b = min(wrong.nonzero().tolist(), key=lambda p: (abs(p[0] - p[1]), p))
        return broken(
            f"position {a} {'saw' if seen[a, b] else 'did not see'} position {b}, and {s.spec.pattern} says otherwise"
        )
    return proved(f"all {s.length**2} pairs against {s.spec.pattern}")


@check(
    "shift",
    "moving the text along changes nothing",
    "positions are not relative: what is learned at one place does not hold at another",
)
def shift(s: Subject) -> Outcome:
    if not s.relative:
        return does_not_apply("positions are not claimed to be relative")
    if s.spec is not None:
        position = torch.arange(s.length)
        i, j = position[:, None], position[None, :]
        pattern = s.spec.pattern
        if not torch.equal(pattern.allowed(i, j), pattern.allowed(i + 5, j + 5)):
            return does_not_apply(f"{pattern} names fixed positions")
        ids = s.text(2)
        with torch.no_grad():
            base = s.call(s.still, ids, positions=position)
            for by in (1, 5, 40):
                if (s.apart(s.call(s.still, ids, positions=position + by), base) > 1).any():
                    return broken(f"the output changes when all positions grow by {by}")
        return proved("positions moved by 1, 5 and 40")
    if found := _moves_with_position(s):
        return broken(found)
    if not s.pads or not s.any_length:
        if not _observed(s):
            return does_not_apply("neither padding nor attention was found to move or to look at")
        return proved("attention within texts that repeat themselves")
    # Angles are often computed in float32 whatever the weights are, so a shift is judged by float32's rounding.
    found = padding_differs(s, left=True, tolerance=3e-5)
    return broken(found) if found else proved("moved by padding on the left")
