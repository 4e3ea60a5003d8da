"""Reproduces the verdicts of a study from the files beside this script. It needs numpy and pandas, not headtohead.

    python verdicts.py             the study in the folder of this script
    python verdicts.py FOLDER ...  studies in other folders

runs.csv has the figure of every run. design.csv says when the study is analysed and how much error each analysis may
spend. verdicts.csv lists the arms, and the verdicts to compare with. Exit code 1: a verdict differs.

    d_s = value of the arm with seed s - value of the control with seed s

If the arm makes no difference, each d_s could as well have the opposite sign. So the test flips signs in all possible
ways and counts how often t is as large as in the data. An interval holds every difference delta that the same test,
made with d_s - delta, does not exclude. Names: n pairs, F sign patterns, d the differences (n, arms); nan is no pair.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ALL_SIGNS = 14  # up to this number of pairs, every sign pattern is used
TIE = 1e-9  # relative; statistics that differ by less count as equal
KAPPAS = (0.5, 1.5, 4.5)  # sizes of the bets of the anytime test
ANYTHING = (-np.inf, np.inf)  # the interval that excludes nothing


# -- the planned analyses ----------------------------------------------------------------------------------------------


def sign_patterns(n, folder):
    """Sign patterns (F, n). A pattern and its opposite give the same t^2, so the first sign is always +1. Beyond 14
    pairs there are too many: each later sign is the product of some of the first 14 signs, as signs.csv says."""
    free = min(n, ALL_SIGNS)
    signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=free - 1)])
    products = read(folder / "signs.csv")["product_of"][: n - free] if n > free else []
    later = [signs[:, [int(i) - 1 for i in text.split()]].prod(axis=1) for text in products]
    return np.column_stack([signs, *later])


def t_squared(d, signs):
    """Student's t squared (F,) of the differences d (n,), flipped by each pattern."""
    there = np.isfinite(d)
    d, signs, n = d[there], signs[:, there], there.sum()
    if n < 2 or not np.any(d):
        return np.zeros(len(signs))
    d = d / np.abs(d).max()
    share = (signs @ d) ** 2 / (n * np.sum(d**2))  # 0 to 1; a flip changes the sum, not the sum of squares
    share = np.where(share < 1e-18, 0, share)  # rounding errors
    rest = np.where(1 - share < 1e-12, 0, 1 - share)
    with np.errstate(divide="ignore"):
        return (n - 1) * share / rest


def last_limit(paths, spent):
    """The limit that t^2 must exceed at the last analysis. `paths` has the t^2 (F,) of each analysis. Of all patterns,
    at most the share spent[j] may exceed a limit at analysis j or before."""
    limit, left = np.inf, np.ones(len(paths[0]), dtype=bool)  # patterns that have not exceeded a limit yet
    for path, share in zip(paths, spent, strict=True):
        room = int(share * len(left) * (1 + TIE)) - np.sum(~left)
        values = np.sort(path[left])
        if room <= 0:
            limit = np.inf
        elif room >= len(values):
            limit = 0.0
        else:
            limit = values[-room - 1] * (1 + TIE)
        left = left & (path <= limit)
    return limit


def flip_interval(d, arm, analyses, tested, spent, signs):
    """The differences that the analyses so far do not exclude for one arm. While it is tested, the other arms are
    shifted to a mean of zero, so that their effects do not hide it. tested[j] are the arms of analysis j."""
    others = [np.zeros(len(signs)) for _ in analyses]  # the largest t^2 of the other arms
    for j, n in enumerate(analyses):
        for a in set(tested[j]) - {arm}:
            last = max(m for m, arms in zip(analyses, tested, strict=True) if a in arms)  # later pairs do not count
            shifted = d[:n, a] - np.nanmean(d[:last, a])
            shifted[np.abs(shifted) < TIE * np.nanmax(np.abs(d[:, a]))] = 0  # rounding errors of equal differences
            others[j] = np.maximum(others[j], t_squared(shifted, signs[:, :n]))

    def excluded(delta):
        own = [t_squared(d[:n, arm] - delta, signs[:, :n]) for n in analyses]
        return own[-1][0] > last_limit([np.maximum(x, y) for x, y in zip(own, others, strict=True)], spent)

    mean, error = mean_and_error(d[:, arm])
    return not_excluded(excluded, mean, error) if error > 0 else (mean, mean)


def not_excluded(excluded, mean, error):
    """The differences around the mean that a test does not exclude. Zero is one of them exactly if the test does not
    exclude it, so verdict and interval agree."""
    zero = excluded(0.0)
    below = end_of(lambda size: excluded(mean - size * error), mean / error, zero)
    above = end_of(lambda size: excluded(mean + size * error), -mean / error, zero)
    return mean - below * error, mean + above * error


def end_of(excluded, zero, zero_is_excluded):
    """How far from the mean exclusion begins, in standard errors; `zero` is the distance of the difference zero."""
    most = zero if zero > 0 and zero_is_excluded else np.inf
    inside = zero if zero > 0 and not zero_is_excluded else 0.0
    outside = min(max(2.0, 2 * inside), most)
    while outside < most and not excluded(outside):
        inside, outside = outside, min(2 * outside, most)
        if outside > 1e6 * max(1.0, zero):
            return np.inf
    for _ in range(40):
        if outside - inside < 1e-4 * outside:
            break
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if excluded(middle) else (middle, outside)
    return inside if outside == most else outside


def mean_and_error(d):
    """The mean and its standard error."""
    d = d[np.isfinite(d)]
    return d.mean(), d.std(ddof=1) / np.sqrt(len(d))


def planned_analyses(d, arms, margin, design, folder):
    """Replay the analyses: {arm: (decided, pairs, interval, inner interval)}. A decided arm leaves, and later pairs do
    not change its verdict. The inner interval decides equivalence: two one-sided tests, so twice the error."""
    found, tested = {}, []
    for number, n in enumerate(design["analyses"], start=1):
        if n > len(d):
            break
        tested.append([a for a in arms if np.isfinite(d[:n, a]).sum() >= design["fewest_pairs"]])
        points, spent = design["analyses"][:number], np.array(design["spent"][:number])
        signs = sign_patterns(n, folder) if design["rule"] == "flips" else None
        for a in tested[-1]:
            if design["rule"] == "flips":
                interval, inner = (flip_interval(d[:n], a, points, tested, k * spent, signs) for k in (1, 2))
            else:  # rule "t": the limits of t^2 come from simulated normal noise, and headtohead wrote them down
                mean, error = mean_and_error(d[:n, a])
                halves = [np.sqrt(float(limit)) * error for limit in design["limits"][a + 1, number]]
                interval, inner = ((mean - half, mean + half) for half in halves)
            found[a] = excludes_zero(interval) or is_within(inner, margin), n, interval, inner
        arms = [a for a in arms if a not in found or not found[a][0]]
    return found


# -- analyses that were not planned ------------------------------------------------------------------------------------


def anytime_interval(d, needed):
    """The differences delta that a gambler never disproved. The gambler bets on the sign of each d - delta before
    seeing it. If delta is right, the capital ever grows to `needed` with a probability of at most 1 / needed."""
    d = d[np.isfinite(d)]
    if len(d) < 2:
        return ANYTHING

    def excluded(delta):
        root_mean_square = np.sqrt(np.cumsum((d - delta) ** 2) / np.arange(1, len(d) + 1))
        z = np.divide(d - delta, root_mean_square, out=np.zeros(len(d)), where=root_mean_square > 0)
        bets = [np.cumprod(2 / (1 + np.exp(-2 * side * kappa * z))) for side in (-1, 1) for kappa in KAPPAS]
        return np.mean(bets, axis=0).max() >= needed

    mean, error = mean_and_error(d)
    if error > 0:
        return not_excluded(excluded, mean, error)
    return (mean, mean) if excluded(mean + 1) else ANYTHING


# -- verdicts ----------------------------------------------------------------------------------------------------------


def excludes_zero(interval):
    return interval[0] > 0 or interval[1] < 0


def is_within(inner, margin):
    return margin is not None and -margin < inner[0] and inner[1] < margin


def overlap(a, b):
    return max(a[0], b[0]), min(a[1], b[1])


def judge(d, later, parts, margin, design, folder):
    """The verdict on each arm: (pairs, difference, interval, word). Arms in `later` were added after an analysis, so
    only the anytime test judges them."""
    planned = planned_analyses(d, [a for a in range(d.shape[1]) if a not in later], margin, design, folder)
    reserve = design["alpha"] * design["reserve"]  # the error that is kept for the anytime test
    verdicts = []
    for a in range(d.shape[1]):
        decided, n, interval, inner = planned.get(a, (False, 0, ANYTHING, ANYTHING))
        own = d[:n, a] if decided else d[:, a]
        if not decided and reserve:
            interval = overlap(interval, anytime_interval(own, parts[a] / reserve))
            inner = overlap(inner, anytime_interval(own, parts[a] / (2 * reserve)))
        pairs, word = int(np.isfinite(own).sum()), "unresolved"
        if pairs >= design["fewest_pairs"] and excludes_zero(interval):
            word = "better" if (interval[1] < 0) == (design["better"] == "lower") else "worse"
        if pairs >= design["fewest_pairs"] and is_within(inner, margin):
            word = "equivalent"
        verdicts.append((pairs, np.nanmean(own) if pairs else np.nan, interval, word))
    return verdicts


def not_by_survivors(word, control_lost, arm_lost):
    """The verdict, or unresolved if it favours a side that lost runs (diverged or collapsed) whose seeds the other side
    finished: the runs that survived do not speak for it."""
    if arm_lost - control_lost and word in ("better", "equivalent"):
        return "unresolved"
    return "unresolved" if control_lost - arm_lost and word in ("worse", "equivalent") else word


# -- files -------------------------------------------------------------------------------------------------------------


def read(file):
    return pd.read_csv(file, dtype=str, keep_default_na=False)  # as text: an arm may be called NA


def read_design(folder, table):
    design = dict(read(folder / "design.csv").itertuples(index=False))
    design |= {name: float(design[name]) for name in ("alpha", "reserve", "fewest_pairs")}
    design |= {"analyses": [int(n) for n in design["analyses"].split()]}
    design |= {"spent": [float(share) for share in design["spent"].split()]}
    if design["rule"] == "t":
        limits = read(folder / "limits.csv")
        limits = limits[limits["table"] == table].itertuples(index=False)
        design["limits"] = {(int(x.place), int(x.analysis)): (x.limit, x.limit_for_equivalence) for x in limits}
    return design


def check(folder):
    """Print the verdicts of the study in this folder; return how many differ from headtohead's."""
    runs, given, different = read(folder / "runs.csv"), read(folder / "verdicts.csv"), 0
    for table, rows in given.groupby("table", sort=False):
        design, name = read_design(folder, table), rows["control"].iloc[0]
        of_arm = {
            arm: runs[(runs["table"] == table) & (runs["arm"] == arm)].set_index("seed") for arm in [name, *rows["arm"]]
        }
        lost = {arm: set(own.index[own["status"].isin(["diverged", "collapsed"])]) for arm, own in of_arm.items()}
        seeds = of_arm[name].index  # pairs are in the order of the control's seeds
        texts = {arm: own["value"].reindex(seeds, fill_value="") for arm, own in of_arm.items()}
        values = {arm: np.array([float(text or "nan") for text in own]) for arm, own in texts.items()}
        d = np.column_stack([values[arm] - values[name] for arm in rows["arm"]])
        d[np.abs(d) < 1e-12 * np.abs(values[name])[:, None]] = 0  # rounding errors
        later = np.flatnonzero(rows["added_later"] == "yes")
        parts = rows["reserve_parts"].astype(float).to_numpy()  # of the reserved error
        margin = float(rows["margin"].iloc[0]) if rows["margin"].iloc[0] else None
        print(f"{design['study']}: {design['metric']} against {name}{' ' * bool(table)}{table}")
        for row, (pairs, difference, (low, high), word) in zip(
            rows.to_dict("records"), judge(d, later, parts, margin, design, folder), strict=True
        ):
            word = not_by_survivors(word, lost[name], lost[row["arm"]])
            says = "as headtohead" if word == row["verdict"] else f"headtohead: {row['verdict']}"
            different += word != row["verdict"]
            print(f"  {row['arm']:24} {pairs:3d} {difference:10.5f} {low:10.5f} {high:10.5f}  {word:10}  {says}")
    return different


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]] or [Path(__file__).resolve().parent]
    print("  arm                    pairs difference        low       high  verdict")
    different = sum([check(folder) for folder in folders])
    print(f"{different} verdicts differ from headtohead's" if different else "all verdicts are headtohead's")
    sys.exit(1 if different else 0)
