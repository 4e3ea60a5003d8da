"""Compare a module with a reference: with the same weights, does it give the same outputs?

The auditor cannot know that a residual connection was intended, or which scale. A reference solution knows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headtohead.auditor.matching import Layout, Slot, difference, heads_of, layouts, role_of, size, slots
from headtohead.auditor.report import Broken, Check, DoesNotApply
from headtohead.auditor.subject import Subject

TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-3}  # relative; a wrong scale changes outputs by tenths
_OF_ATTENTION = re.compile("qkv|in_proj")
Outputs = Callable[[dict[str, Tensor]], Tensor]  # of the module with these weights


@dataclass(frozen=True)
class Comparison:
    """What a comparison found."""

    verdict: Literal["equal", "different", "cannot be copied"]
    says: str
    layout: Layout | None = None


def perturbed_weights(model: nn.Module, seed: int = 60) -> dict[str, Tensor]:
    """Weights for a module in which no two tensors can be mixed up: its own, with noise."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: p.detach().double() + 0.3 * torch.randn(p.shape, generator=draw, dtype=torch.float64) * _size(p)
        for name, p in model.named_parameters()
    }


def _size(p: Tensor) -> float:
    size = float(p.detach().double().pow(2).mean().sqrt())
    return max(size, 0.1)


def compare(
    reference: Sequence[Slot],
    weights: dict[str, Tensor],
    wanted: Tensor,
    other: Sequence[Slot],
    outputs: Outputs,
    heads: int | None,
) -> Comparison:
    """Copy the weights of the reference in every likely way until the other module gives the wanted outputs.

    Biases that the reference lacks are set to zero.
    """
    extra = _extra_biases(reference, other)
    without = {slot.name.rpartition(".")[0] for slot in extra}
    matched = [
        slot._replace(biased=slot.biased and slot.name.rpartition(".")[0] not in without)
        for slot in other
        if slot not in extra
    ]
    problem = difference(reference, matched)
    tried = 0
    first = 0.0
    zeros = {slot.name: torch.zeros(slot.shape, dtype=torch.float64) for slot in extra}
    for layout in layouts(reference, matched, heads):
        try:
            given = layout.weights(weights)
        except RuntimeError:  # its shapes fit only in part
            continue
        out = outputs(given | zeros)
        tried += 1
        if out.shape != wanted.shape:
            return Comparison("different", f"its outputs have the shape {tuple(out.shape)}, not {tuple(wanted.shape)}")
        gap = _gap(out, wanted)
        if gap <= TOLERANCE.get(out.dtype, 2e-3):
            also = f"; {len(extra)} biases that the reference lacks were set to zero" if extra else ""
            return Comparison("equal", f"equal outputs with the reference's weights{also}", layout)
        first = first or gap
    if not tried and size(matched) != size(reference):
        says = f"it has {size(matched):,} parameters and the reference {size(reference):,}"
        return Comparison("different", f"{says}; {problem}" if problem else says)
    if not tried:
        return Comparison("cannot be copied", problem or "its tensors cannot be matched with those of the reference")
    says = f"with the reference's weights its outputs differ by {100 * first:.0f} % of their size"
    return Comparison("different", f"{says}; {tried} {'way' if tried == 1 else 'ways'} to copy them were tried")


def _gap(out: Tensor, wanted: Tensor) -> float:
    out, wanted = out.double(), wanted.double()
    if not torch.isfinite(out).all():
        return float("inf")
    return float((out - wanted).abs().max() / wanted.std().clamp(min=1e-9))


def _extra_biases(reference: Sequence[Slot], other: Sequence[Slot]) -> list[Slot]:
    """Biases of the other module for which the reference has none, by shape; those of queries, keys, values first."""
    spare = Counter(slot.shape for slot in other if len(slot.shape) == 1)
    spare.subtract(slot.shape for slot in reference if len(slot.shape) == 1)
    extra = []
    for slot in sorted(
        other, key=lambda s: not _OF_ATTENTION.search(s.name) and role_of(s.name) not in ("q", "k", "v")
    ):
        if len(slot.shape) == 1 and "bias" in slot.name and spare[slot.shape] > 0:
            spare[slot.shape] -= 1
            extra.append(slot)
    return extra


def against(build: Callable[[], nn.Module]) -> Check[Subject]:
    """Return the check that a module equals the one that `build` makes."""

    def run(s: Subject) -> str:
        torch.manual_seed(0)
        reference = build().double().eval()
        weights = perturbed_weights(reference)
        _load(reference, weights)
        ids = s.text(4)
        with torch.no_grad():
            wanted = s.call(reference, ids)
        model = s.cast(s.fresh()).eval()

        def outputs(given: dict[str, Tensor]) -> Tensor:
            _load(model, given)
            return s.outputs(model, ids)

        heads = heads_of(reference) or heads_of(model)
        found = compare(slots(reference), weights, wanted, slots(model), outputs, heads)
        if found.verdict == "different":
            raise Broken(found.says)
        if found.verdict == "cannot be copied":
            raise DoesNotApply(found.says)
        return found.says

    return Check(
        "reference",
        "with the same weights it gives the outputs of the reference",
        "it is another architecture than the one that was asked for",
        run,
    )


def _load(model: nn.Module, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in weights:
                p.copy_(weights[name])
