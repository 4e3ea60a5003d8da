"""Replay planned analyses on every stored comparison: how many pairs would a sequential study have used?

    python benchmarks/measure/replay.py        # seconds; nothing is trained

Every stored comparison has ten or more pairs. The fixed design judges them once, the sequential ones after 6, 8 and 10
pairs and stop as soon as an arm is decided. The two must never decide in opposite directions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headtohead.claims import stored as kept
from headtohead.spec.userfiles import RECIPES
from headtohead.stats import Design
from headtohead.stats.sequential import judge

HERE = Path(__file__).resolve().parents[1]
PAIRS = 10
DESIGNS = {"6, 8, 10": (6, 8, 10), "7, 8, 10": (7, 8, 10), "6, 10": (6, 10)}
LARGE = 2.0  # standard deviations


@dataclass(frozen=True)
class Comparison:
    study: str
    differences: np.ndarray  # (pairs, arms)

    @property
    def effects(self) -> np.ndarray:
        """|mean| / sd of each arm."""
        return np.abs(self.differences.mean(axis=0)) / self.differences.std(axis=0, ddof=1)


def comparisons() -> list[Comparison]:
    """The tables of all stored studies, without arms that lost a pair."""
    found = []
    with tempfile.TemporaryDirectory() as room:
        for file in sorted((RECIPES / "published" / "measured").glob("*.json")):
            outcome = kept.unpacked(file, Path(room) / file.stem)
            for title in outcome.titles:
                table = list(outcome.differences(title).values())
                whole = [list(arm.values())[:PAIRS] for arm in table if len(arm) >= PAIRS]
                columns = [arm for arm in whole if np.std(arm) > 0]
                if columns:
                    found.append(Comparison(f"{file.stem} {title}".strip(), np.array(columns).T))
    return found


def replay(found: list[Comparison]) -> dict[str, object]:
    fixed = [judge(c.differences, Design((PAIRS,))) for c in found]
    rows = []
    for name, points in DESIGNS.items():
        decided = lost = opposite = 0
        used: list[int] = []
        large: list[int] = []
        for c, at_the_end in zip(found, fixed, strict=True):
            for one, other, effect in zip(judge(c.differences, Design(points)), at_the_end, c.effects, strict=True):
                used.append(one.pairs)
                if effect >= LARGE:
                    large.append(one.pairs)
                decided += one.state == "differs"
                lost += other.state == "differs" and one.state != "differs"
                opposite += one.state == other.state == "differs" and one.estimate * other.estimate < 0
        rows.append(
            [
                f"after {name} pairs",
                f"{decided}",
                f"{lost}",
                f"{opposite}",
                f"{np.mean(used):.1f} ({100 * (np.mean(used) / PAIRS - 1):+.0f} %)".replace("-", "−"),
                f"{np.mean(large):.1f} ({100 * (np.mean(large) / PAIRS - 1):+.0f} %)".replace("-", "−"),
            ]
        )
    arms = sum(c.differences.shape[1] for c in found)
    differ = sum(j.state == "differs" for one in fixed for j in one)
    rows.insert(0, [f"once, after {PAIRS} pairs", f"{differ}", "", "", f"{PAIRS}", f"{PAIRS}"])
    large_ones = int(sum((c.effects >= LARGE).sum() for c in found))
    return {
        "command": "python benchmarks/measure/replay.py",
        "columns": [
            f"analyses ({arms} comparisons)",
            "better or worse",
            f"decided only by {PAIRS} pairs",
            "opposite sign",
            "mean pairs",
            f"mean pairs, effect ≥ 2 sd ({large_ones})",
        ],
        "rows": rows,
    }


if __name__ == "__main__":
    made = replay(comparisons())
    print(json.dumps(made, indent=1, ensure_ascii=False))
    if "--write" in sys.argv:
        (HERE / "measured" / "replay.json").write_text(
            json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
