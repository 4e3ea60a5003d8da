"""Compares models item by item on one test set, such as samples of lm-eval. It covers other items, not other seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from headtohead.errors import InputError
from headtohead.external.lm_eval import Item, Samples
from headtohead.stats import ALPHA, Way, mcnemar, over_items

LEAST_ITEMS = 30  # an interval of fewer items may be too narrow


@dataclass(frozen=True)
class ItemVerdict:
    """The comparison of two trained models on the same test items. `difference` is variant − control."""

    verdict: Literal["better", "worse", "equivalent", "unresolved"]
    difference: float
    low: float  # 95 % interval over items, for all arms together
    high: float
    p: float | None  # exact McNemar test, times the number of arms; None if values are not right or wrong
    items: int
    descriptive: bool  # True: too few items for a verdict
    gained: int | None  # items that only the variant got right
    lost: int | None  # items that only the control got right
    margin: float | None = None
    arms: int = 1

    @property
    def is_real(self) -> bool:
        return self.verdict in ("better", "worse")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def by_arm(samples: Sequence[Samples]) -> tuple[dict[str, dict[Item, float]], list[str]]:
    """The values of each arm over all its tasks, and names of items without a value."""
    arms: dict[str, dict[Item, float]] = {}
    missing = []
    for one in samples:
        own = arms.setdefault(one.arm, {})
        if not own.keys().isdisjoint(one.values):
            raise InputError(
                f"{one.arm} has two files for task '{one.task}': give one file per task, or put the seed into the names"
            )
        missing += [f"{one.arm}, item {item[1]} ({one.source})" for item, v in one.values.items() if math.isnan(v)]
        own.update(one.values)
    return arms, missing


def compare_items(
    control: str, arms: Mapping[str, Mapping[Item, float]], margin: float | None, better: Way
) -> tuple[dict[str, ItemVerdict], dict[str, float], list[str]]:
    """Verdicts of the arms against the control on the items that all of them answered, means, and notes."""
    common = [i for i in arms[control] if all(math.isfinite(values.get(i, math.nan)) for values in arms.values())]
    if not common:
        raise InputError("the files have no test item in common: compare samples of the same task")
    notes = []
    most = max(map(len, arms.values()))
    if len(common) < most:
        notes.append(f"{most - len(common):,} of {most:,} items are not in every file, or have no value: left out")
    table = {arm: np.array([values[i] for i in common]) for arm, values in arms.items()}
    right_or_wrong = all(np.isin(values, (0, 1)).all() for values in table.values())
    others = [arm for arm in arms if arm != control]
    verdicts = {
        arm: _verdict(table[control], table[arm], margin, better, len(others), right_or_wrong) for arm in others
    }
    return verdicts, {arm: float(values.mean()) for arm, values in table.items()}, notes


def _verdict(
    control: np.ndarray, variant: np.ndarray, margin: float | None, better: Way, arms: int, binary: bool
) -> ItemVerdict:
    test = over_items(variant - control)
    p = min(1.0, arms * mcnemar(control == 1, variant == 1)) if binary else None
    wider = _quantile(1 - ALPHA / 2 / arms) / _quantile(1 - ALPHA / 2)  # Bonferroni
    low = test.difference - wider * (test.difference - test.low)
    high = test.difference + wider * (test.high - test.difference)
    if p is not None and p > ALPHA:
        low, high = min(low, 0.0), max(high, 0.0)  # the exact test does not exclude zero: nor does the interval
    enough = len(control) >= LEAST_ITEMS
    word: Literal["better", "worse", "equivalent", "unresolved"] = "unresolved"
    if enough and (low > 0 or high < 0):
        word = "better" if (test.difference < 0) == (better == "lower") else "worse"
    if enough and margin is not None and -margin < low and high < margin:
        word = "equivalent"
    gained = int(((control == 0) & (variant == 1)).sum()) if binary else None
    lost = int(((control == 1) & (variant == 0)).sum()) if binary else None
    return ItemVerdict(word, test.difference, low, high, p, len(control), not enough, gained, lost, margin, arms)


def _quantile(share: float) -> float:
    import scipy

    return float(scipy.special.ndtri(share))
