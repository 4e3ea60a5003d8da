"""Finds the query whose attention weights are nearest to a target: exactly, in the limit, or not at all.

A query q gives key i the score s_i = <q, k_i> and the weight a_i = softmax(s)_i. The target has weights w. S is the set
of keys with w_i > 0.

    exact          S contains all keys, and log w lies in the span of the keys' coordinates and the constant vector
    in the limit   a direction u has <u, k_i> equal on S and smaller for all other keys (S is a face of the hull of all
                   keys), and log w on S lies in the span there: q + t·u comes closer as t grows
    impossible     otherwise, for a query of any length

To select one key, this key must be a corner of the hull. To average all keys, q must be orthogonal to all differences
of two keys.

Shapes: n keys in d dimensions; keys (n, d), query (d,), weights and target (n,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = Any  # numpy array, float64
Kind = Literal["exact", "in the limit", "impossible"]
CLOSE = 1e-6  # distance at which a limit counts as reached
TIGHT = 1e-9  # margins and residuals below this count as zero, for keys of unit size


@dataclass(frozen=True)
class Reached:
    """The best query for a target, and why it is or is not exact."""

    kind: Kind
    query: Array  # (d,)
    method: str
    reason: str


def softmax(scores: Array) -> Array:
    """Softmax along the last axis. Subtracting the largest score first avoids overflow."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(keys: Array, query: Array) -> Array:
    """Attention weights (n,), or (m, n) for m queries. Scores are not divided by sqrt(d), as in the course report."""
    return softmax(query @ keys.T)


def distance(weights: Array, target: Array) -> float:
    """Total variation: the share of the attention that is in the wrong place, in the worst row."""
    return float(np.clip(0.5 * np.abs(weights - target).sum(axis=-1), 0.0, 1.0).max())


def reach(keys: Array, target: Array) -> Reached:
    """Find the query whose weights are nearest to the target, and whether it is exact, a limit or neither."""
    x, size = _standard(keys)
    inside = target > 0
    fitted, residual = _fit(x, target, inside)
    if residual <= TIGHT * (1 + len(keys)):
        if inside.all():
            why = "the scores log w + c are a combination of the keys' coordinates and a constant"
            return Reached("exact", fitted / size, "least squares on log w", why)
        u, margin = widest(x, inside)
        if margin > TIGHT:
            query = _lengthen(x, fitted, u, inside)
            if distance(attend(x, query), target) <= 10 * CLOSE:
                why = (
                    f"a query with entries of at most 1 scores {_names(inside)} {margin * size:.3g} above every other "
                    "key; a weight of exactly 0 would need an infinitely long query"
                )
                return Reached("in the limit", query / size, "linear programming: the widest margin", why)
    best, how = _nearest(x, target)
    return Reached("impossible", best / size, how, _obstacle(x, inside, residual))


def widest(keys: Array, inside: Array) -> tuple[Array, float]:
    """The direction u, |u_l| ≤ 1, that scores the keys inside equally and furthest above the others; and the margin."""
    from scipy.optimize import linprog

    n, d = keys.shape
    k, others = keys[inside], keys[~inside]
    ones = np.ones((n, 1))
    # unknowns: u (d numbers), the common score c, the margin
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
    """A proof that no direction separates `inside` from the other keys; None if there is such a direction.

    The proof is λ ≥ 0 on the other keys and ν on the keys inside, both with sum 1, with Σ λ_o k_o = Σ ν_i k_i. If all
    keys inside have the same score, it is then a weighted mean of scores of other keys.
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
    """Keys centred at zero and scaled to unit size, and that size. Centring adds the same number to every score, which
    does not change the softmax."""
    moved = keys - keys.mean(axis=0)
    size = float(np.abs(moved).max())
    if size <= 1e-12 * float(np.abs(keys).max()):  # only rounding errors
        return 0 * moved, 1.0
    return moved / size, size


def _fit(x: Array, target: Array, inside: Array) -> tuple[Array, float]:
    """Least squares for scores log w + c on the keys inside: the query and the largest residual."""
    logs = np.log(target[inside])
    logs = logs - logs.mean()  # c is free; with this choice, equal weights give exactly the zero query
    system = _with_constant(x[inside])
    solution = np.linalg.lstsq(system, logs, rcond=None)[0]
    return solution[:-1], float(np.abs(system @ solution - logs).max())


def _with_constant(x: Array) -> Array:
    return np.hstack([x, np.ones((len(x), 1))])


def _lengthen(x: Array, start: Array, u: Array, inside: Array) -> Array:
    """start + t·u, with t large enough that the other keys share at most CLOSE of the attention."""
    rise = (x @ u)[inside].min() - (x @ u)[~inside].max()
    behind = np.logaddexp.reduce((x @ start)[~inside]) - np.logaddexp.reduce((x @ start)[inside])
    return start + max(0.0, (behind - np.log(CLOSE)) / rise) * u


def _nearest(x: Array, target: Array) -> tuple[Array, str]:
    """The nearest query by gradient descent. The cross-entropy −Σ w log a is convex in the query, so the minimum is
    global. For a single key it is also the largest possible weight. For several keys, a search for the smallest total
    variation starts from there."""
    from scipy.optimize import minimize

    def cross_entropy(q: Array) -> tuple[float, Array]:
        s = x @ q
        return float(np.logaddexp.reduce(s) - target @ s), x.T @ (softmax(s) - target)

    best = minimize(cross_entropy, np.zeros(x.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    if (target > 0).sum() == 1 or x.shape[1] > 10:
        return best, "gradient on the cross-entropy, which is convex in the query"

    def distance_at(q: Array) -> float:
        return distance(attend(x, q), target)

    options = {"maxiter": 200 * x.shape[1], "xatol": 1e-7, "fatol": 1e-8}
    steps = np.random.default_rng(0).normal(size=(2, x.shape[1]))  # further starting points: it is not convex
    tried = [minimize(distance_at, best + step, method="Nelder-Mead", options=options).x for step in (0 * best, *steps)]
    method = "gradient on the cross-entropy, then a search for the smallest total variation"
    return min((best, *tried), key=distance_at), method


def _obstacle(x: Array, inside: Array, residual: float) -> str:
    """Why the target is impossible, in words."""
    if residual > TIGHT * (1 + len(x)):
        rank = int(np.linalg.matrix_rank(_with_constant(x[inside])))
        return (
            f"the scores must be log w plus a constant, {int(inside.sum())} numbers, but the keys and a constant span "
            f"only {rank} dimensions: least squares leaves a residual of {residual:.3g}"
        )
    proof = mixture(x, inside)
    if proof is None:
        return f"the margin between {_names(inside)} and the other keys is too small to compute with"
    others, own = proof
    if inside.sum() == 1:
        return f"{_names(inside)} = {_sum(others)}, a mix of other keys, so its score is never above all of theirs"
    return (
        f"{_sum(others)} = {_sum(own)}: a query that gives {_names(inside)} the same score gives those other keys "
        "this score on average"
    )


def _names(inside: Array) -> str:
    named = [f"k{i}" for i in np.flatnonzero(inside)]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _sum(weights: Array) -> str:
    """A weighted sum of keys in words, such as 0.5·k0 + 0.5·k1."""
    parts = [f"{w:+.3g}·k{i}".replace("+1·", "+") for i, w in enumerate(weights) if abs(w) > 1e-9]
    return " ".join(parts).removeprefix("+").replace(" +", " + ").replace(" -", " − ").replace("-", "−")
