"""Checks of a part by itself, outside a model: whether it does what its class claims."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from headtohead.auditor.consistency import models_differ
from headtohead.auditor.report import Broken, DoesNotApply, check
from headtohead.auditor.subject import from_spec
from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.parts import Full, Pattern, Position
from headtohead.parts.positions import LayerHooks
from headtohead.spec import Part, alternatives

SMALL = ModelSpec(width=16, heads=4, layers=2, block=16)
TOLERANCE = 1e-9


def small(**settings: Any) -> ModelSpec:
    """Return the small model that parts are audited in, with some settings changed."""
    spec = SMALL
    for name, value in settings.items():
        spec = spec.set(name, value)
    return spec


def _hooks(part: Position) -> tuple[LayerHooks, Tensor, Tensor]:
    """Return the hooks of a position with random weights, and random queries and keys (1, H, 16, d)."""
    torch.manual_seed(0)
    built = part.build(SMALL.dims).double()
    with torch.no_grad():
        for p in built.parameters():
            p.add_(torch.randn_like(p))
    q, k = torch.randn(2, 1, SMALL.heads, 16, SMALL.dims.head_width, dtype=torch.float64)
    return built.layer(0), q, k


def _scores(hooks: LayerHooks, q: Tensor, k: Tensor, i: Tensor) -> Tensor:
    """Return scores (1, H, T, T) for queries and keys at positions i (T,)."""
    i, j = i[None, None, :, None], i[None, None, None, :]
    products = hooks.rotate(q, i) @ hooks.rotate(k, j.transpose(-1, -2)).transpose(-1, -2)
    bias = hooks.bias(q, k, i, j)
    return hooks.scale * products / q.shape[-1] ** 0.5 + (0 if bias is None else bias)


@check(
    "shift",
    "scores depend on the offset i − j alone",
    "positions are not relative: what is learned at one position does not hold at another",
)
def offset(part: Part) -> str:
    if not isinstance(part, Position):
        raise DoesNotApply("only positions have offsets")
    if not part.relative:
        raise DoesNotApply("it does not claim to be relative")
    hooks, q, k = _hooks(part)
    i = torch.arange(16)
    with torch.no_grad():
        base = _scores(hooks, q, k, i)
        for by in (1, 7, 100):
            gap = (_scores(hooks, q, k, i + by) - base).abs() > TOLERANCE * (1 + base.abs().max())
            if gap.any():
                a, b = gap.nonzero()[0].tolist()[2:]
                raise Broken(f"the score of query {a} and key {b} changes when both move by {by}")
    return "moved by 1, 7 and 100"


@check(
    "decay", "the bias falls with distance, before and after the query", "distant tokens are favoured over near ones"
)
def decay(part: Part) -> str:
    if not isinstance(part, Position) or not part.decays:
        raise DoesNotApply("it does not claim to decay")
    hooks, q, k = _hooks(part)
    i = torch.arange(16)
    with torch.no_grad():
        bias = hooks.bias(q, k, i[None, None, :, None], i[None, None, None, :])
    if bias is None:
        raise Broken("it has no bias")
    bias = bias.expand(1, SMALL.heads, 16, 16)[0]  # (H, 16, 16)
    for a in range(16):
        for side in (range(a, 15), range(a, 0, -1)):
            for b in side:
                further = b + (1 if b >= a and side.step == 1 else -1)
                if (bias[:, a, further] >= bias[:, a, b]).any():
                    raise Broken(
                        f"query {a} favours key {further}, {abs(further - a)} away, over key {b}, {abs(b - a)} away"
                    )
    return "every query, both sides, every head"


@check("rotation", "rotation keeps the lengths of vectors", "scores grow or shrink with position")
def rotation(part: Part) -> str:
    if not isinstance(part, Position):
        raise DoesNotApply("only positions rotate queries and keys")
    hooks, q, _k = _hooks(part)
    i = torch.arange(16)[None, None, :, None]
    with torch.no_grad():
        rotated = hooks.rotate(q, i)
    if torch.equal(rotated, q):
        raise DoesNotApply("it does not rotate")
    gap = (rotated.norm(dim=-1) / q.norm(dim=-1) - 1).abs() > TOLERANCE
    if gap.any():
        at = int(gap.nonzero()[0][2])
        factor = float(rotated.norm(dim=-1)[gap][0] / q.norm(dim=-1)[gap][0])
        raise Broken(f"a query at position {at} changes its length by a factor of {factor:.4g}")
    return "positions 0 to 15"


@check(
    "window",
    "a window of w shows w tokens on each side, the token itself included",
    "the window is wider or narrower than it claims",
)
def edges(part: Part) -> str:
    window = getattr(part, "window", None)
    if not isinstance(part, Pattern) or window is None:
        raise DoesNotApply("it has no window")
    i = 1000 + 10 * window  # far from the first tokens, which a pattern may treat differently
    sides = [(-1, "before"), (1, "after")]
    seen = {name: bool(part.allowed(i, i + sign)) for sign, name in sides}
    if not part.allowed(i, i):
        raise Broken("a token does not see itself")
    for sign, name in sides:
        if window > 1 and not seen[name]:
            continue  # the window is one-sided
        if not part.allowed(i, i + sign * (window - 1)):
            raise Broken(f"a window of {window} does not show the token {window - 1} {name}")
        if part.allowed(i, i + sign * window):
            raise Broken(f"a window of {window} shows the token {window} {name}")
    if window > 1 and not any(seen.values()):
        raise Broken(f"a window of {window} shows nothing but the token itself")
    return f"window {window}"


@check("options", "every knob changes weights or outputs", "a study of that knob compares a model with itself")
def knobs_matter(part: Part) -> str:
    has_effect: dict[str, bool] = {}
    for name, other in alternatives(part):
        with contextlib.suppress(InputError):  # this value does not fit the small model
            has_effect[name] = has_effect.get(name, False) or _differ(part, other)
    for name in (name for name, changes in has_effect.items() if not changes):
        has_effect[name] = any(_differ(part, other) for other in _far(part, name))
    inert = [name for name, changes in has_effect.items() if not changes]
    if inert:
        raise Broken(f"{inert[0]} changes neither weights nor outputs, in evaluation or training")
    if not has_effect:
        raise DoesNotApply("it has no knobs to change")
    return ", ".join(has_effect)


def _far(part: Part, name: str) -> Iterator[Part]:
    """Yield the part with a number 1,000 times as small or large: a limit may be far from the values it limits."""
    value = getattr(part, name)
    for factor in (1e-3, 1e3):
        if isinstance(value, float):
            with contextlib.suppress(InputError):
                yield dataclasses.replace(part, **{name: value * factor})


def _differ(a: Part, b: Part) -> bool:
    """Whether small models with these parts differ, on texts long enough for windows and spans to have an effect."""
    length = 24
    base = small(**{a.family: a}).set("block", length)
    for causal in (True, False):
        spec = base if a.family == "pattern" or causal else base.set("pattern", Full())
        if causal and not all(pattern.is_causal(length) for pattern in spec.each("pattern")):
            continue
        subjects = [from_spec(spec.set(a.family, part), str(part), causal=causal, length=length) for part in (a, b)]
        if models_differ(subjects[0], *(s.perturbed() for s in subjects)):
            return True
    return False


PART_CHECKS = (offset, rotation, decay, edges, knobs_matter)
