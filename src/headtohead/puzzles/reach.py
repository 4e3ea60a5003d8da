"""What attention over given keys can do: which weights a query reaches exactly, which in the limit, which never.

A query q gives key i the score s_i = <q, k_i> and the weight a_i = softmax(s)_i. S are the keys that shall have weight.

    exact          every w_i > 0, and log w lies in the span of the keys' coordinates and the constant vector
    in the limit   a direction u has <u, k_i> equal on S and smaller everywhere else (S are the keys of one face of the
                   hull of all keys), and log w on S lies in the span there: q + t·u comes closer as t grows
    impossible     everything else, however long the query

One key: it must be a corner of the hull. All keys alike: q must be at right angles to every difference of two keys.

Shapes: n keys in d dimensions; keys (n, d), query (d,), weights and target (n,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = Any  # of numpy, float64
Kind = Literal["exact", "in the limit", "impossible"]
CLOSE = 1e-6  # how near a limit is called reached
TIGHT = 1e-9  # a margin or a residual below this is none, for keys of unit size


@dataclass(frozen=True)
class Reached:
    """The best query for a target, and what keeps it from being exact."""

    kind: Kind
    query: Array  # (d,)
    method: str
    reason: str


def softmax(scores: Array) -> Array:
    """Along the last axis; the largest score is taken off first, so nothing overflows."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(keys: Array, query: Array) -> Array:
    """(n,), or (m, n) for m queries. Scores are not divided by sqrt(d): the documents' puzzles do not."""
    return softmax(query @ keys.T)


def distance(weights: Array, target: Array) -> float:
    """Total variation: the share of the attention that is in the wrong place; of several rows the worst."""
    return float(np.clip(0.5 * np.abs(weights - target).sum(axis=-1), 0.0, 1.0).max())


def reach(keys: Array, target: Array) -> Reached:
    """The query whose weights are nearest to the target, and whether that is exact, a limit, or as far as it goes."""
    x, size = _standard(keys)
    inside = target > 0
    fitted, missing = _fit(x, target, inside)
    if missing <= TIGHT * (1 + len(keys)):
        if inside.all():
            why = "the scores log w + c are a combination of the keys' coordinates and a constant"
            return Reached("exact", fitted / size, "least squares on log w", why)
        u, margin = widest(x, inside)
        if margin > TIGHT:
            found = _lengthen(x, fitted, u, inside)
            if distance(attend(x, found), target) <= 10 * CLOSE:
                why = (
                    f"a query with entries of at most 1 scores {_names(inside)} {margin * size:.3g} above every other "
                    "key; a weight of exactly 0 would take an endless one, so only the limit is exact"
                )
                return Reached("in the limit", found / size, "linear programming: the widest margin", why)
    best, how = _nearest(x, target)
    return Reached("impossible", best / size, how, _obstacle(x, inside, missing))


def widest(keys: Array, inside: Array) -> tuple[Array, float]:
    """The direction u, |u_l| ≤ 1, that scores all keys inside alike and furthest above the others; and by how much."""
    from scipy.optimize import linprog

    n, d = keys.shape
    k, others = keys[inside], keys[~inside]
    ones = np.ones((n, 1))
    # unknown: u (d), the common score c, the margin
    equal = np.hstack([k, -ones[: len(k)], 0 * ones[: len(k)]])  # <u, k_i> = c
    below = np.hstack([others, -ones[: len(others)], ones[: len(others)]])  # <u, k_o> + margin ≤ c
    bounds = [(-1, 1)] * d + [(None, None), (0, None)]
    cost = np.r_[np.zeros(d + 1), -1.0]
    solved = linprog(
        cost, A_ub=below, b_ub=np.zeros(len(others)), A_eq=equal, b_eq=np.zeros(len(k)), bounds=bounds, method="highs"
    )
    if not solved.success:
        return np.zeros(d), 0.0
    return solved.x[:d], float(solved.x[-1])


def mixture(keys: Array, inside: Array) -> tuple[Array, Array] | None:
    """Why no direction sets `inside` apart: λ ≥ 0 on the others and ν on the inside, both summing to 1, with
    Σ λ_o k_o = Σ ν_i k_i. Scores alike inside are then the mean score of some others. None where there is a direction.
    """
    from scipy.optimize import linprog

    n, d = keys.shape
    columns = np.where(inside[:, None], -keys, keys).T  # (d, n)
    sums = np.stack([inside, ~inside]).astype(float)  # Σ ν = 1, Σ λ = 1
    bounds = [(None, None) if i else (0, None) for i in inside]
    solved = linprog(
        np.zeros(n),
        A_eq=np.vstack([columns, sums]),
        b_eq=np.r_[np.zeros(d), 1.0, 1.0],
        bounds=bounds,
        method="highs",
    )
    if not solved.success:
        return None
    return np.where(inside, 0.0, solved.x), np.where(inside, solved.x, 0.0)


def _standard(keys: Array) -> tuple[Array, float]:
    """Keys around zero and of unit size. Moving all keys adds the same to every score, which softmax takes off."""
    moved = keys - keys.mean(axis=0)
    size = float(np.abs(moved).max())
    if size <= 1e-12 * float(np.abs(keys).max()):  # nothing but rounding
        return 0 * moved, 1.0
    return moved / size, size


def _fit(x: Array, target: Array, inside: Array) -> tuple[Array, float]:
    """Least squares for scores log w + c on the keys inside; the query and the largest gap that is left."""
    logs = np.log(target[inside])
    logs = logs - logs.mean()  # the constant is free; equal weights then give the zero query to the last bit
    system = _with_constant(x[inside])
    solution = np.linalg.lstsq(system, logs, rcond=None)[0]
    return solution[:-1], float(np.abs(system @ solution - logs).max())


def _with_constant(x: Array) -> Array:
    return np.hstack([x, np.ones((len(x), 1))])


def _lengthen(x: Array, start: Array, u: Array, inside: Array) -> Array:
    """start + t·u with t so large that the others share no more than CLOSE of the attention."""
    rise = (x @ u)[inside].min() - (x @ u)[~inside].max()
    behind = np.logaddexp.reduce((x @ start)[~inside]) - np.logaddexp.reduce((x @ start)[inside])
    return start + max(0.0, (behind - np.log(CLOSE)) / rise) * u


def _nearest(x: Array, target: Array) -> tuple[Array, str]:
    """By gradient. −Σ w log a is convex in the query, so its best is the best of all; for a single key that is also the
    largest weight there can be. For several, the total variation is then searched from there."""
    from scipy.optimize import minimize

    def cross_entropy(q: Array) -> tuple[float, Array]:
        s = x @ q
        return float(np.logaddexp.reduce(s) - target @ s), x.T @ (softmax(s) - target)

    best = minimize(cross_entropy, np.zeros(x.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    if (target > 0).sum() == 1 or x.shape[1] > 10:
        return best, "gradient on the cross-entropy, which is convex in the query"

    def apart(q: Array) -> float:
        return distance(attend(x, q), target)

    options = {"maxiter": 200 * x.shape[1], "xatol": 1e-7, "fatol": 1e-8}
    aside = np.random.default_rng(0).normal(size=(2, x.shape[1]))  # it is not convex: a few more places to start from
    found = [minimize(apart, best + step, method="Nelder-Mead", options=options).x for step in (0 * best, *aside)]
    return min((best, *found), key=apart), "gradient on the cross-entropy, then a search for the least total variation"


def _obstacle(x: Array, inside: Array, missing: float) -> str:
    if missing > TIGHT * (1 + len(x)):
        rank = int(np.linalg.matrix_rank(_with_constant(x[inside])))
        return (
            f"the scores must be log w plus a constant, {int(inside.sum())} numbers, and the keys with a constant span "
            f"only {rank} dimensions: least squares leaves {missing:.3g}"
        )
    found = mixture(x, inside)
    if found is None:
        return f"{_names(inside)} stand out from the other keys by less than can be computed with"
    others, own = found
    if inside.sum() == 1:
        return f"{_names(inside)} = {_sum(others)}, a mix of other keys, so its score is never above all of theirs"
    return (
        f"{_sum(others)} = {_sum(own)}: a query that scores {_names(inside)} alike scores such other keys "
        "as high on average"
    )


def _names(inside: Array) -> str:
    named = [f"k{i}" for i in np.flatnonzero(inside)]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _sum(weights: Array) -> str:
    """0.5·k0 + 0.5·k1"""
    parts = [f"{w:+.3g}·k{i}".replace("+1·", "+") for i, w in enumerate(weights) if abs(w) > 1e-9]
    return " ".join(parts).removeprefix("+").replace(" +", " + ").replace(" -", " − ").replace("-", "−")
