"""Checks of attention maps: each is proved, broken or not claimed. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

CLOSE = 1e-5  # tolerance of sums of weights
SAME = 1e-5  # tolerance of weights that are computed in two ways, in single precision
SAME_LOGITS = 1e-3  # tolerance of logits, relative to the largest


class Check(NamedTuple):
    """A property of the maps, and whether it holds."""

    name: str
    verdict: Literal["proved", "broken", "not claimed"]
    says: str

    @property
    def broken(self) -> bool:
        return self.verdict == "broken"


class Claim(NamedTuple):
    """What the parts of a model say about the maps of some heads."""

    pattern: str
    allowed: np.ndarray  # (T, T) what the pattern allows, without padding
    heads: np.ndarray | None = None  # (L, H) the heads that the claim is about; None: all
    sums: bool = True  # the weights of a query sum to one
    dense: bool = True  # every allowed key has a weight above zero
    signed: bool = False  # weights may be negative

    def of(self, real: np.ndarray) -> np.ndarray:
        """Return the maps (n, real T, T) that the claim is about."""
        whole = self.heads is None or bool(self.heads.all())
        return real.reshape(-1, *real.shape[2:]) if whole else real[self.heads]

    def where(self, excess: np.ndarray, numbers: Sequence[int]) -> str:
        """Name the place of the largest value in (n, T). `numbers` are those of the layers."""
        n, query = divmod(int(np.argmax(excess)), excess.shape[1])
        heads = np.ones((len(numbers), len(excess) // len(numbers)), bool) if self.heads is None else self.heads
        layer, head = np.argwhere(heads)[n].tolist()
        return f"layer {numbers[layer]}, head {head}, query {query}"


def sanity(
    weights: np.ndarray,  # (L, H, T, T)
    claims: Sequence[Claim],  # every head is in one of them
    keep: np.ndarray,  # (T,)
    *,
    block: int,
    given: int,  # tokens of the text before it was cut
    layers: Sequence[int] = (),  # numbers of the layers; empty: from 0
    used: Any = None,  # (L, H, T, T) weights of the path that computes the loss; NaN where it computes none
    logits: tuple[Any, Any] | None = None,  # with padding on the explicit path, and as for the loss
) -> tuple[Check, ...]:
    """Check the maps of a text."""
    numbers = layers or range(len(weights))
    real = weights[:, :, : int(keep.sum())]  # padding is behind the text
    claims = [claim._replace(allowed=claim.allowed[: real.shape[2]]) for claim in claims]
    return (
        _rows(real, claims, numbers),
        _padding(real, keep, numbers),
        _future(real, claims, numbers),
        _reach(real, claims),
        _block(len(keep), int(keep.sum()), block, given),
        *_same(weights, keep, numbers, used, logits),
    )


def _check(name: str, holds: bool, proved: str, broken: str) -> Check:
    return Check(name, "proved" if holds else "broken", proved if holds else broken)


def _where(excess: np.ndarray, numbers: Sequence[int]) -> str:
    """Name the place of the largest value in (L, H, T, T) or (L, H, T)."""
    layer, head, query = np.unravel_index(int(np.argmax(excess)), excess.shape)[:3]
    return f"layer {numbers[int(layer)]}, head {head}, query {query}"


def _rows(real: np.ndarray, claims: Sequence[Claim], numbers: Sequence[int]) -> Check:
    if not np.isfinite(real).all() or not all(claim.signed or claim.of(real).min() >= 0 for claim in claims):
        off = ~np.isfinite(real) | (real < 0)
        return Check("rows", "broken", f"a weight is negative or not finite: {_where(off, numbers)}")
    claimed = [claim for claim in claims if claim.sums]
    if not claimed:
        signed = any(claim.signed for claim in claims)
        says = "the weights of a query can have any sign and sum; pictures show their sizes"
        return Check("rows", "not claimed", says if signed else "the weights of a query need not sum to one")
    empty = 0
    for claim in claimed:
        expected = claim.allowed.any(axis=-1).astype(float)  # the row of a query without allowed keys sums to 0
        off = np.abs(claim.of(real).sum(axis=-1, dtype=np.float64) - expected)
        if off.max() > CLOSE:
            return Check("rows", "broken", f"a row is off by {off.max():.2g}: {claim.where(off, numbers)}")
        empty = max(empty, int((expected == 0).sum()))
    every = "every row" if len(claimed) == len(claims) else "every row that must"
    return Check("rows", "proved", f"{every} sums to one" + (f", except {empty} without allowed keys" if empty else ""))


def _padding(real: np.ndarray, keep: np.ndarray, numbers: Sequence[int]) -> Check:
    if keep.all():
        return Check("padding", "not claimed", "the text fills the block, so there is no padding")
    on = np.abs(real[..., ~keep]).sum(axis=-1)
    count = int((~keep).sum())
    return _check(
        "padding",
        not on.any(),
        f"no weight on any of {count} padding tokens",
        f"weight {on.max():.2g} on padding: {_where(on, numbers)}",
    )


def _future(real: np.ndarray, claims: Sequence[Claim], numbers: Sequence[int]) -> Check:
    if any(np.triu(claim.allowed, 1).any() for claim in claims):
        return Check("future", "not claimed", "this model may attend to later tokens")
    above = np.stack([[np.abs(np.triu(head, 1)).max(axis=-1) for head in layer] for layer in real])
    return _check(
        "future",
        not above.any(),
        "nothing above the diagonal",
        f"weight {above.max():.2g} on a later token: {_where(above, numbers)}",
    )


def _reach(real: np.ndarray, claims: Sequence[Claim]) -> Check:
    """Weight is zero outside the pattern of each head, and every allowed pair gets weight from some head."""
    proved = []
    for claim in claims:
        maps, inside, pattern = claim.of(real), claim.allowed, claim.pattern
        most = np.maximum(maps.max(axis=0), -maps.min(axis=0)) if claim.signed else maps.max(axis=0)  # (real T, T)
        outside, unused = (most > 0) & ~inside, (most == 0) & inside & claim.dense
        if outside.any():
            i, j = np.argwhere(outside)[0]
            says = f"query {i} gives weight {most[i, j]:.2g} to key {j}, which {pattern} forbids"
            return Check("reach", "broken", says)
        if unused.any():
            i, j = np.argwhere(unused)[0]
            says = f"no head gives weight from query {i} to key {j}, which {pattern} allows"
            return Check("reach", "broken", says)
        where = "exactly where" if claim.dense else "only where"
        proved.append(f"weight {where} {pattern} allows: {int(inside.sum()):,} of {inside.size:,} pairs")
    return Check("reach", "proved", "; ".join(dict.fromkeys(proved)))


def _block(shown: int, real: int, block: int, given: int) -> Check:
    if given <= block:
        return Check("block", "not claimed", f"{given} tokens fit into the block of {block}")
    return _check(
        "block",
        shown == real == block,
        f"cut to the block: the first {block} of {given} tokens are read",
        f"{real} of {given} tokens are read, and the block is {block}",
    )


def _same(
    weights: np.ndarray, keep: np.ndarray, numbers: Sequence[int], used: Any, logits: tuple[Any, Any] | None
) -> list[Check]:
    checks = []
    if used is not None:
        off = np.abs(weights - np.asarray(used))[:, :, : int(keep.sum())]
        off[np.isnan(np.asarray(used)[:, 0, 0, 0])] = 0
        checks.append(
            _check(
                "used",
                bool(off.max() <= SAME),
                f"equal to the weights that the loss is computed with, to {max(off.max(), 1e-9):.0e}",
                f"the loss is computed with weights that differ by {off.max():.2g}: {_where(off, numbers)}",
            )
        )
    if logits is not None:
        mapped, plain = (np.asarray(x, dtype=np.float64) for x in logits)
        off = np.abs(mapped - plain).max() / max(1.0, np.abs(plain).max())
        checks.append(
            _check(
                "prediction",
                bool(off <= SAME_LOGITS),
                f"the same prediction without padding and maps, to {max(off, 1e-9):.0e}",
                f"without padding and maps the prediction differs by {off:.2g}",
            )
        )
    return checks
