"""What must hold of an attention map, proved or broken. Numpy only."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

CLOSE = 1e-5  # of sums of weights
SAME = 1e-5  # of weights that two ways of computing must agree on; single precision, and scores may be large
SAME_LOGITS = 1e-3  # of the largest logit


class Check(NamedTuple):
    name: str
    verdict: Literal["proved", "broken", "not claimed"]
    says: str

    @property
    def broken(self) -> bool:
        return self.verdict == "broken"


def sanity(
    weights: np.ndarray,  # (L, H, T, T)
    allowed: np.ndarray,  # (T, T) by the pattern, padding excluded
    keep: np.ndarray,  # (T,)
    *,
    block: int,
    pattern: str,
    given: int,  # tokens of the text before it was cut
    used: Any = None,  # (L, H, T, T) of the path that gives the loss
    logits: tuple[Any, Any] | None = None,  # with the map's padding and path, and as the loss has them
) -> tuple[Check, ...]:
    real = weights[:, :, : int(keep.sum())]  # padding is behind the text; no copy, they may be large
    allowed = allowed[: real.shape[2]]
    return (
        _rows(real, allowed),
        _padding(real, keep),
        _future(real, allowed),
        _reach(real, allowed, pattern),
        _block(len(keep), int(keep.sum()), block, given),
        *_same(weights, keep, used, logits),
    )


def _said(name: str, fine: bool, proved: str, broken: str) -> Check:
    return Check(name, "proved" if fine else "broken", proved if fine else broken)


def _where(excess: np.ndarray) -> str:
    """The worst place: of (L, H, T, T) or (L, H, T)."""
    layer, head, query = np.unravel_index(int(np.argmax(excess)), excess.shape)[:3]
    return f"layer {layer}, head {head}, query {query}"


def _rows(real: np.ndarray, allowed: np.ndarray) -> Check:
    expected = allowed.any(axis=-1).astype(float)  # a row that may look nowhere sums to nothing
    off = np.abs(real.sum(axis=-1, dtype=np.float64) - expected)
    bad = bool(np.isfinite(off).all() and off.max() <= CLOSE and real.min() >= 0)
    empty = int((expected == 0).sum())
    said = "every row sums to one" + (f", but for {empty} that may look nowhere" if empty else "")
    return _said("rows", bad, said, f"a row is off by {off.max():.2g}: {_where(off)}")


def _padding(real: np.ndarray, keep: np.ndarray) -> Check:
    if keep.all():
        return Check("padding", "not claimed", "the text fills the block: there is no padding here")
    on = real[..., ~keep].sum(axis=-1)
    count = int((~keep).sum())
    return _said(
        "padding",
        not on.any(),
        f"no weight on any of {count} padding tokens",
        f"weight {on.max():.2g} on padding: {_where(on)}",
    )


def _future(real: np.ndarray, allowed: np.ndarray) -> Check:
    if np.triu(allowed, 1).any():
        return Check("future", "not claimed", "this model may look ahead")
    above = np.stack([[np.triu(head, 1).max(axis=-1) for head in layer] for layer in real])
    return _said(
        "future",
        not above.any(),
        "nothing above the diagonal",
        f"weight {above.max():.2g} on a later token: {_where(above)}",
    )


def _reach(real: np.ndarray, inside: np.ndarray, pattern: str) -> Check:
    """No weight outside the pattern; and no place inside that no head of any layer gives weight to."""
    most = real.max(axis=(0, 1))  # (real T, T)
    outside, dark = (most > 0) & ~inside, (most == 0) & inside
    if outside.any():
        i, j = np.argwhere(outside)[0]
        broken = f"query {i} gives weight {most[i, j]:.2g} to key {j}, which {pattern} forbids"
    else:
        i, j = np.argwhere(dark)[0] if dark.any() else (0, 0)
        broken = f"no head lets query {i} look at key {j}, which {pattern} allows"
    share = f"{int(inside.sum()):,} places of {inside.size:,}"
    return _said(
        "reach", not outside.any() and not dark.any(), f"weight exactly where {pattern} allows: {share}", broken
    )


def _block(shown: int, real: int, block: int, given: int) -> Check:
    if given <= block:
        return Check("block", "not claimed", f"{given} tokens fit into the block of {block}")
    return _said(
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
            _said(
                "used",
                bool(off.max() <= SAME),
                f"equal to the weights that the loss is computed with, to {max(off.max(), 1e-9):.0e}",
                f"the loss is computed with other weights, by {off.max():.2g}: {_where(off)}",
            )
        )
    if logits is not None:
        mapped, plain = (np.asarray(x, dtype=np.float64) for x in logits)
        off = np.abs(mapped - plain).max() / max(1.0, np.abs(plain).max())
        checks.append(
            _said(
                "prediction",
                bool(off <= SAME_LOGITS),
                f"the same prediction without padding and maps, to {max(off, 1e-9):.0e}",
                f"the prediction is another without padding and maps, by {off:.2g}",
            )
        )
    return checks
