"""Compare a module with a reference: with the same weights, does it give the same outputs?

The auditor cannot know that a residual connection was intended, or which scale. A reference solution knows.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Literal

import torch
from torch import Tensor, nn

from headtohead.auditor.masks import lengths_mask, mask_argument, mask_value, with_accepted_type
from headtohead.auditor.matching import Layout, Slot, difference, heads_of, layouts, role_of, size, slots
from headtohead.auditor.report import Broken, Check, DoesNotApply
from headtohead.auditor.subject import Subject, unwrap

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
    keep: Tensor | None = None,
) -> Comparison:
    """Copy the weights of the reference in every likely way until the other module gives the wanted outputs.

    Biases that the reference lacks are set to zero. Outputs at padding, where `keep` (B, T) is False, do not count.
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
        gap = _gap(*(_real(x, keep) for x in (out, wanted)))
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


def _real(out: Tensor, keep: Tensor | None) -> Tensor:
    """The outputs at real tokens, if there is an output at every token."""
    return out if keep is None or out.shape[:2] != keep.shape else out[keep]


@dataclass
class Reference:
    """A reference with perturbed weights, and its outputs."""

    model: nn.Module
    weights: dict[str, Tensor]
    mask: str | None  # the padding mask among the arguments of `forward`

    @classmethod
    def of(cls, model: nn.Module) -> Reference:
        """Perturb the weights of a reference, in place."""
        model.double().eval()
        weights = perturbed_weights(model)
        load(model, weights)
        return cls(model, weights, mask_argument(model))

    def outputs(self, ids: Tensor, keep: Tensor | None) -> Tensor:
        """The outputs with these real tokens; None: all are real, and the mask is given only if the model needs it."""
        needed = self.mask and inspect.signature(self.model.forward).parameters[self.mask].default is Parameter.empty
        if self.mask is None or (keep is None and not needed):
            return self._called(ids)
        name, real = self.mask, torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
        return with_accepted_type(lambda kind: self._called(ids, **{name: mask_value(name, real, kind)}))[1]

    def _called(self, ids: Tensor, **mask: Tensor) -> Tensor:
        torch.manual_seed(2)
        with torch.no_grad():
            return unwrap(self.model(ids, **mask))


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
        reference = Reference.of(build())
        ids, keep = s.text(4), None
        if s.mask is not None and reference.mask is not None:
            keep = lengths_mask(*ids.shape)
            ids = ids.where(keep, s.pad)
        wanted = reference.outputs(ids, keep)
        model = s.cast(s.fresh()).eval()

        def outputs(given: dict[str, Tensor]) -> Tensor:
            load(model, given)
            return s.outputs(model, ids, keep)

        heads = heads_of(reference.model) or heads_of(model)
        found = compare(slots(reference.model), reference.weights, wanted, slots(model), outputs, heads, keep)
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


def load(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set the weights of a module by name."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in weights:
                p.copy_(weights[name])
