"""Checks of attention maps: each is proved, broken or not claimed. Imports no torch."""

from __future__ import annotations

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


def sanity(
    weights: np.ndarray,  # (L, H, T, T)
    allowed: np.ndarray,  # (T, T) what the pattern allows, without padding
    keep: np.ndarray,  # (T,)
    *,
    block: int,
    pattern: str,
    given: int,  # tokens of the text before it was cut
    used: Any = None,  # (L, H, T, T) weights of the path that computes the loss
    logits: tuple[Any, Any] | None = None,  # with padding on the explicit path, and as for the loss
) -> tuple[Check, ...]:
    """Check the maps of a text."""
    real = weights[:, :, : int(keep.sum())]  # padding is behind the text
    allowed = allowed[: real.shape[2]]
    return (
        _rows(real, allowed),
        _padding(real, keep),
        _future(real, allowed),
        _reach(real, allowed, pattern),
        _block(len(keep), int(keep.sum()), block, given),
        *_same(weights, keep, used, logits),
    )


def _check(name: str, holds: bool, proved: str, broken: str) -> Check:
    return Check(name, "proved" if holds else "broken", proved if holds else broken)


def _where(excess: np.ndarray) -> str:
    """Name the place of the largest value in (L, H, T, T) or (L, H, T)."""
    layer, head, query = np.unravel_index(int(np.argmax(excess)), excess.shape)[:3]
    return f"layer {layer}, head {head}, query {query}"


def _rows(real: np.ndarray, allowed: np.ndarray) -> Check:
    expected = allowed.any(axis=-1).astype(float)  # the row of a query without allowed keys sums to 0
    off = np.abs(real.sum(axis=-1, dtype=np.float64) - expected)
    holds = bool(np.isfinite(off).all() and off.max() <= CLOSE and real.min() >= 0)
    empty = int((expected == 0).sum())
    proved = "every row sums to one" + (f", except {empty} without allowed keys" if empty else "")
    return _check("rows", holds, proved, f"a row is off by {off.max():.2g}: {_where(off)}")


def _padding(real: np.ndarray, keep: np.ndarray) -> Check:
    if keep.all():
        return Check("padding", "not claimed", "the text fills the block, so there is no padding")
    on = real[..., ~keep].sum(axis=-1)
    count = int((~keep).sum())
    return _check(
        "padding",
        not on.any(),
        f"no weight on any of {count} padding tokens",
        f"weight {on.max():.2g} on padding: {_where(on)}",
    )


def _future(real: np.ndarray, allowed: np.ndarray) -> Check:
    if np.triu(allowed, 1).any():
        return Check("future", "not claimed", "this model may attend to later tokens")
    above = np.stack([[np.triu(head, 1).max(axis=-1) for head in layer] for layer in real])
    return _check(
        "future",
        not above.any(),
        "nothing above the diagonal",
        f"weight {above.max():.2g} on a later token: {_where(above)}",
    )


def _reach(real: np.ndarray, inside: np.ndarray, pattern: str) -> Check:
    """Weight is zero outside the pattern, and every allowed pair gets weight from some head."""
    most = real.max(axis=(0, 1))  # (real T, T)
    outside, unused = (most > 0) & ~inside, (most == 0) & inside
    if outside.any():
        i, j = np.argwhere(outside)[0]
        broken = f"query {i} gives weight {most[i, j]:.2g} to key {j}, which {pattern} forbids"
    else:
        i, j = np.argwhere(unused)[0] if unused.any() else (0, 0)
        broken = f"no head gives weight from query {i} to key {j}, which {pattern} allows"
    share = f"{int(inside.sum()):,} of {inside.size:,} pairs"
    return _check(
        "reach", not outside.any() and not unused.any(), f"weight exactly where {pattern} allows: {share}", broken
    )


def _block(shown: int, real: int, block: int, given: int) -> Check:
    if given <= block:
        return Check("block", "not claimed", f"{given} tokens fit into the block of {block}")
    return _check(
        "block",
        shown == real == block,
        f"cut to the block: the first {block} of {given} tokens are read",
        f"{real} of {given} tokens are read, and the block is {block}",
    )


def _same(weights: np.ndarray, keep: np.ndarray, used: Any, logits: tuple[Any, Any] | None) -> list[Check]:
    checks = []
    if used is not None:
        off = np.abs(weights - np.asarray(used))[:, :, : int(keep.sum())]
        checks.append(
            _check(
                "used",
                bool(off.max() <= SAME),
                f"equal to the weights that the loss is computed with, to {max(off.max(), 1e-9):.0e}",
                f"the loss is computed with weights that differ by {off.max():.2g}: {_where(off)}",
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
