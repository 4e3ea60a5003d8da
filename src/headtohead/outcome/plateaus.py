"""Plateaus of the training loss: the step at which each run leaves, and what that explains. Imports no torch.

A loss that falls ever more slowly is convex in the step. A plateau breaks that: the loss stays flat and falls faster
later. So a plateau is a stretch in which the smoothed loss lies above its convex hull (the largest convex curve below
it), by more than noise and by more than a small share of the whole fall:

    loss │╲                    the curve ── and its hull ··
         │ ╲___ end            start: where the curve leaves the hull
         │  · ·.╲              end: where it is farthest above the hull, so that the drop begins
         │     · ╲             after: where it meets the hull again
         │        ·╲____       exit: where the loss falls below the middle of the drop
         └────────────── step

Two medians over the plateaus of a table serve all its runs: the step at which plateaus start, and the loss in the
middle of the drop, relative to the loss at that start. A run's **exit step** is the step at which its smoothed loss has
fallen by that much since the common start, interpolated between two records. So a run without a plateau has an exit
step too, a run that stays on the plateau to the end has none (infinity), and a run whose loss is lower throughout does
not leave earlier for that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headtohead.errors import InputError
from headtohead.run.store import Record
from headtohead.stats import t_quantile

if TYPE_CHECKING:
    from headtohead.outcome.outcome import Outcome, RunRow

LEAST_LOSSES = 20  # recorded losses of a run; with fewer, a plateau cannot be told from noise
REACH = 0.1  # the loss at step t is averaged from 0.9 t to 1.1 t, so that late noise makes no plateaus
LEAST_RECORDS = 2  # on either side in that average
CLEAR = 4.0  # standard errors that a plateau lies above the hull
STRONG = 6.0  # the same, of a plateau that hardly can be noise
HEIGHT = 0.03  # share of the run's whole fall that a plateau lies above the hull
LEAST_PLATEAUS = 2  # runs of one arm with a strong plateau; or half of its runs with a clear one
LEAST_PAIRS = 4  # for a correlation
SHARE = 0.5  # of the variance, from which on there is a warning
APART = 0.05  # of the steps: exits closer together do not count as different
GRADUAL = 1 / 3  # of a drop's length: the same. In a long drop, a better run is below another from the start
CONFIDENCE = 0.975  # one-sided, of the correlation that a warning rests on
NAMED = 3  # arms in a warning
REMEDY = "--set train.clip=1.0 --set 'train.schedule=WarmupCosine(warmup=0.3)'"


class Plateau(NamedTuple):
    """One plateau of one run; see the picture above."""

    start: float
    end: float
    after: float
    drop: float  # fall of the loss from the start to the middle of the drop
    from_start: bool  # the loss was flat from the first step on, as in a warm-up
    strong: bool


@dataclass(frozen=True)
class Plateaus:
    """The exit steps of a table's runs, and what they explain."""

    steps: float  # of the longest run
    start: float  # the step at which plateaus start
    drop: float  # the fall of the loss since then that counts as an exit
    from_start: bool  # the plateau is the start of training, as in a warm-up
    exits: dict[str, dict[int, float]]  # by arm, the control first, and seed; infinity: never
    correlations: dict[str, float]  # of exit step and final value, over an arm's runs; NaN if one of them is constant
    shares: dict[str, float]  # of the variance of an arm's differences, explained by differences of exit steps
    blamed: tuple[str, ...]  # arms whose differences depend on the exits, or whose runs leave at other steps

    def to_json(self) -> dict[str, Any]:
        exits = {
            arm: {str(seed): step if math.isfinite(step) else None for seed, step in of_arm.items()}
            for arm, of_arm in self.exits.items()
        }
        return {**vars(self), "exits": exits, "blamed": list(self.blamed)}


# -- one run -----------------------------------------------------------------------------------------------------------


def losses_of(lines: Sequence[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Steps and losses of one run from its lines of metrics: the batch losses, each at the middle of the steps it is
    the mean of; or the losses of its evaluations, if it recorded more of those."""
    steps, losses, before = [], [], 0
    for line in lines:
        if line.get("train/batch_loss") is not None:
            steps.append((before + 1 + line["step"]) / 2)
            losses.append(line["train/batch_loss"])
        before = line["step"]
    looks = [(line["step"], line["validation/loss"]) for line in lines if line.get("validation/loss") is not None]
    if len(looks) > len(steps):
        steps, losses = [step for step, _ in looks], [loss for _, loss in looks]
    return np.array(steps, dtype=float), np.array(losses, dtype=float)


def smoothed(steps: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss without spikes (median of three), averaged over a window that grows with the step; and the number of
    records in each average. The window is symmetric, so a straight line stays what it is."""
    count = len(losses)
    calm = losses.copy()
    calm[1:-1] = np.median([losses[:-2], losses[1:-1], losses[2:]], axis=0)
    here = np.arange(count)
    wide = np.searchsorted(steps, steps * (1 + REACH), side="right") - 1 - here
    wide = np.minimum(np.maximum(wide, LEAST_RECORDS), np.minimum(here, count - 1 - here))
    total = np.concatenate([[0.0], np.cumsum(calm)])
    records = 2 * wide + 1
    return (total[here + wide + 1] - total[here - wide]) / records, records


def convex_hull(x: np.ndarray, y: np.ndarray) -> list[int]:
    """The points of the largest convex curve below (x, y), as indices from left to right."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return kept


def plateaus_of(steps: np.ndarray, losses: np.ndarray) -> list[Plateau]:
    """The plateaus of one run, in order; none for a loss that falls ever more slowly."""
    if len(steps) < LEAST_LOSSES or not np.isfinite(losses).all():
        return []
    curve, records = smoothed(steps, losses)
    # losses of batches are independent, so second differences give their noise, whatever the slope
    noise = 1.4826 * float(np.median(np.abs(np.diff(losses, 2)))) / math.sqrt(6)
    corners = convex_hull(steps, curve)
    above = curve - np.interp(steps, steps[corners], curve[corners])
    least = HEIGHT * float(curve[0] - curve.min())
    found = []
    for left, right in itertools.pairwise(corners):
        end = left + int(np.argmax(above[left : right + 1]))
        drop = float(curve[left] - (curve[end] + curve[right]) / 2)
        share = (steps[end] - steps[left]) / (steps[right] - steps[left])
        error = noise * math.sqrt(1 / records[end] + (1 - share) ** 2 / records[left] + share**2 / records[right])
        if drop > 0 and above[end] > max(least, CLEAR * error, 1e-12):
            strong = bool(above[end] > STRONG * error)
            found.append(Plateau(float(steps[left]), float(steps[end]), float(steps[right]), drop, left == 0, strong))
    return found


def exit_step(steps: np.ndarray, losses: np.ndarray, start: float, drop: float) -> float:
    """The step at which the smoothed loss has fallen by `drop` since the step `start`; infinity if it never does."""
    curve, _ = smoothed(steps, losses)
    level = float(np.interp(start, steps, curve)) - drop
    below = np.flatnonzero((curve <= level) & (steps > start))
    if not len(below):
        return math.inf
    last = int(below[0])  # not the first record: the loss at the start is above the level
    share = (curve[last - 1] - level) / (curve[last - 1] - curve[last])
    return float(steps[last - 1] + share * (steps[last] - steps[last - 1]))


# -- a table -----------------------------------------------------------------------------------------------------------


def find_plateaus(outcome: Outcome, title: str) -> Plateaus | None:
    """The exit steps of a table's complete runs; None without plateaus. Arms with
    other tokens have other losses, so their exits cannot be compared."""
    if outcome.changes_tokens:
        return None
    arms = [arm.name for arm in outcome.record.table(title).arms]
    rows = {arm: [row for row in outcome.rows[title, arm] if row.status == "complete"] for arm in arms}
    curves = {arm: {row.seed: _curve(outcome, row) for row in rows[arm]} for arm in arms}
    values = {arm: {row.seed: row.value for row in rows[arm]} for arm in arms}
    return compare_exits(curves, values, lower_is_better=outcome.record.better == "lower")


def compare_exits(
    curves: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]],  # steps and losses by arm, the control first, and seed
    values: dict[str, dict[int, float]],  # final values
    *,
    lower_is_better: bool = True,
) -> Plateaus | None:
    """Find the exit step of every run and what the exits explain; None without plateaus."""
    curves = {arm: {s: c for s, c in of_arm.items() if len(c[0]) >= LEAST_LOSSES} for arm, of_arm in curves.items()}
    chosen = _choose({arm: [plateaus_of(*c) for c in of_arm.values()] for arm, of_arm in curves.items()})
    if not chosen:
        return None
    start, drop = (float(np.median([getattr(plateau, what) for plateau in chosen])) for what in ("start", "drop"))
    exits = {arm: {seed: exit_step(*c, start, drop) for seed, c in of_arm.items()} for arm, of_arm in curves.items()}
    steps = max(float(c[0][-1]) for of_arm in curves.values() for c in of_arm.values())
    from_start = chosen[0].from_start
    apart = max(APART * steps, GRADUAL * float(np.median([plateau.after - plateau.end for plateau in chosen])))
    control, *others = curves
    shares, blamed = {}, []
    for arm in others:
        pairs = [seed for seed in exits[arm] if seed in exits[control]]
        e = np.array([min(exits[arm][s], steps) - min(exits[control][s], steps) for s in pairs])
        d = np.array([values[arm][s] - values[control][s] for s in pairs])
        r = _correlation(e, d)
        shares[arm] = r * r
        later_is_worse = r if lower_is_better else -r
        spread = max(_spread(exits[control], steps), _spread(exits[arm], steps))
        depends = shares[arm] >= SHARE and later_is_worse > _least_correlation(len(pairs)) and spread >= apart
        if depends or (not from_start and _leaves_apart(e, d if lower_is_better else -d, apart)):
            blamed.append(arm)
    correlations = {
        arm: _correlation(
            np.array([min(step, steps) for step in of_arm.values()]), np.array([values[arm][s] for s in of_arm])
        )
        for arm, of_arm in exits.items()
    }
    return Plateaus(steps, start, drop, from_start, exits, correlations, shares, tuple(blamed))


def _choose(found: dict[str, list[list[Plateau]]]) -> list[Plateau]:
    """The last plateau of each run that has one, if an arm has enough of them: one alone may be noise. Plateaus after a
    first fall are preferred, because a slow start is there in every run with a warm-up."""
    for from_start in (False, True):
        chosen, enough = [], False
        for runs in found.values():
            last = [p[-1] for run in runs if (p := [x for x in run if x.from_start == from_start])]
            strong = sum(plateau.strong for plateau in last) >= LEAST_PLATEAUS
            enough = enough or strong or len(last) >= max(LEAST_PLATEAUS, len(runs) / 2)
            chosen += last
        if enough:
            return chosen
    return []


def _curve(outcome: Outcome, row: RunRow) -> tuple[np.ndarray, np.ndarray]:
    try:
        return losses_of(Record.at(outcome.home, row.run).metrics)
    except (InputError, KeyError, TypeError):  # a damaged file has no curve
        return np.array([]), np.array([])


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < LEAST_PAIRS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def _least_correlation(pairs: int) -> float:
    """The correlation that is significant with this number of pairs."""
    if pairs < LEAST_PAIRS:
        return math.inf
    t = t_quantile(CONFIDENCE, pairs - 1)
    return t / math.sqrt(pairs - 2 + t * t)


def _spread(exits: dict[int, float], steps: float) -> float:
    return float(np.ptp([min(step, steps) for step in exits.values()])) if exits else 0.0


def _leaves_apart(exits: np.ndarray, differences: np.ndarray, apart: float) -> bool:
    """Whether one arm leaves later in every pair, clearly, and is worse on average. `differences`: lower is better."""
    one_side = len(exits) >= LEAST_PAIRS and (np.all(exits > 0) or np.all(exits < 0))
    return bool(one_side and abs(exits.mean()) >= apart and exits.mean() * differences.mean() > 0)


# -- words -------------------------------------------------------------------------------------------------------------


def plateau_warnings(outcome: Outcome, title: str) -> list[str]:
    """A warning if the differences of a table depend on the step at which runs leave a plateau; otherwise nothing."""
    found = find_plateaus(outcome, title)
    if found is None or not found.blamed:
        return []
    return [warning_text(found, outcome.record.table(title).control.spec)]


def warning_text(found: Plateaus, control: dict[str, Any]) -> str:
    """What was found and what to try, for the blamed arms."""
    first = next(iter(found.exits))
    arms = [first, *found.blamed[:NAMED]]
    more = f", and {len(found.blamed) - NAMED} more arms" if len(found.blamed) > NAMED else ""
    said = "; ".join(f"{arm}: {_range(found.exits[arm])}" for arm in arms)
    shares = [100 * found.shares[arm] for arm in found.blamed if found.shares[arm] >= SHARE]
    variance, about = "", "Part of the effect may be"
    if shares:
        low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
        span = high if low == high else f"{low} to {high}"
        about = "The effect is likely about"
        variance = f"; {span} % of the variance of the differences goes with this"
    return (
        f"runs leave a plateau of the training loss at different steps ({said}{more}){variance}. {about} "
        f"how early training gets going, not the final quality: try {_remedy(control)}"
    )


def _range(exits: dict[int, float]) -> str:
    """46 to 96, 1 of 6 never"""
    left = sorted(step for step in exits.values() if math.isfinite(step))
    never = len(exits) - len(left)
    said = [f"{left[0]:.0f}" + (f" to {left[-1]:.0f}" if f"{left[0]:.0f}" != f"{left[-1]:.0f}" else "")] if left else []
    said += [f"{never} of {len(exits)} never"] if never else []
    return ", ".join(said)


def _remedy(control: dict[str, Any]) -> str:
    train = control.get("train", {})
    kind = train.get("schedule", {}).get("kind", "Constant")
    if train.get("clip") is not None and kind != "Constant":
        return "a longer warm-up, a lower learning rate or more steps"
    return REMEDY
