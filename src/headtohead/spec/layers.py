"""Parts that differ from layer to layer, as one value: `3*Local(8) + Causal`, `Causal + ...*Local(8) + Causal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headtohead.errors import InputError
from headtohead.spec.spec import Difference, Part, Spec, knob


class Layers(Spec):
    """Parts of one family for the layers of a model, from the first layer on.

    Without `...` the sequence repeats until every layer has a part. A part with `...` takes all layers that the others
    leave.

    Examples:
        >>> alternating = 3 * h2h.Local(8) + h2h.Causal()
        >>> [str(part) for part in alternating.over(5)]
        ['Local()', 'Local()', 'Local()', 'Causal()', 'Local()']
        >>> h2h.parse("NoPosition + ...*Rope + NoPosition").over(4)[1:3]
        (Rope(theta=10000.0, fraction=1.0), Rope(theta=10000.0, fraction=1.0))
    """

    parts: tuple[Part, ...] = knob(default=(), help="the parts in the order of the layers")
    counts: tuple[int | None, ...] = knob(
        default=(), help="layers that each part takes; none: as many as the other parts leave"
    )

    def check(self) -> None:
        families = {part.family for part in self.parts}
        if not self.parts or len(self.parts) != len(self.counts):
            raise InputError("layers need at least one part, and a count for each: write 3*Local(8) + Causal")
        if len(families) > 1:
            raise InputError(f"layers take parts of one family, not of {' and '.join(sorted(families))}")
        if any(count is not None and count < 1 for count in self.counts):
            raise InputError(f"{self} has a part that takes fewer than one layer: count from 1")
        if self.counts.count(None) > 1:
            raise InputError(f"{self} has more than one part with '...': only one can take the layers that are left")

    @property
    def part_family(self) -> str:
        return self.parts[0].family

    def over(self, layers: int) -> tuple[Any, ...]:
        """Return the part of each of so many layers; InputError if a part would get none."""
        fixed = sum(count or 0 for count in self.counts)
        filled = None in self.counts
        if fixed + filled > layers:
            raise InputError(f"{self} needs at least {fixed + filled} layers, and the model has {layers}")
        counts = [layers - fixed if count is None else count for count in self.counts]
        cycle = [part for part, count in zip(self.parts, counts, strict=True) for _ in range(count)]
        return tuple(cycle[n % len(cycle)] for n in range(layers))

    def diff(self, other: Spec) -> list[Difference]:
        """Layers are one value: they differ as a whole."""
        return [] if self == other else [Difference("", self, other)]

    def map(self, change: Callable[[Any], Part]) -> Layers:
        """Return the same layers with every part changed."""
        return Layers(tuple(change(part) for part in self.parts), self.counts)

    def __add__(self, other: Part | Layers) -> Layers:
        """Append the layers of `other`."""
        more = as_layers(other)
        if not isinstance(more, Layers):
            return NotImplemented
        pairs = list(zip(self.parts, self.counts, strict=True))
        for part, count in zip(more.parts, more.counts, strict=True):
            last, so_far = pairs[-1]
            if part == last and count is not None and so_far is not None:
                pairs[-1] = (part, so_far + count)
            else:
                pairs.append((part, count))
        return Layers(tuple(part for part, _ in pairs), tuple(count for _, count in pairs))

    def __radd__(self, other: Part) -> Layers:
        first = as_layers(other)
        return first + self if isinstance(first, Layers) else NotImplemented

    def __and__(self, other: Any) -> Layers:
        return self._combined(other, lambda a, b: a & b)

    def __rand__(self, other: Any) -> Layers:
        return self._combined(other, lambda a, b: b & a)

    def __or__(self, other: Any) -> Layers:
        return self._combined(other, lambda a, b: a | b)

    def __ror__(self, other: Any) -> Layers:
        return self._combined(other, lambda a, b: b | a)

    def _combined(self, other: Any, combine: Callable[[Any, Any], Any]) -> Layers:
        if isinstance(other, Layers):
            raise InputError(f"cannot combine {self} with {other}: combine the parts of each layer")
        return self.map(lambda part: combine(part, other))

    def __str__(self) -> str:
        return " + ".join(_term(part, count) for part, count in zip(self.parts, self.counts, strict=True))


def as_layers(value: Any) -> Any:
    """Return a part as one layer; other values unchanged."""
    return Layers((value,), (1,)) if isinstance(value, Part) else value


def times(count: Any, part: Part) -> Layers:
    """Return so many layers of a part; `...` for as many as other parts leave."""
    if count is not Ellipsis and (isinstance(count, bool) or not isinstance(count, int)):
        raise InputError(f"a number of layers is a whole number or '...', not {count!r}")
    return Layers((part,), (None if count is Ellipsis else count,))


def _term(part: Part, count: int | None) -> str:
    return f"...*{part}" if count is None else f"{count}*{part}" if count > 1 else str(part)
