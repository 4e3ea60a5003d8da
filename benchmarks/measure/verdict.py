"""The wall time to a verdict: unpaired runs of the best peer one after the other, and paired runs of ours, one a core.

    python benchmarks/measure/verdict.py window-window    # a kept study of the decoder, of two arms; some minutes

The study's own runs say how large the effect is and how much runs differ by chance, within pairs and between seeds. The
runs that 80 % power takes follow from that: Welch's test for unpaired runs, the rule of `headtohead.stats` for pairs.
What a run takes is measured here, peers and ours in turns. Training hundreds of peers' runs to the end would say the
same an hour later.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import nct, t

from headtohead import stats
from headtohead.claims import stored as kept
from headtohead.spec.userfiles import RECIPES

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))
import steps as bench  # noqa: E402

TASK = "decoder"


def unpaired_runs(effect: float, sd: float) -> int:
    """Runs of each arm that a two-sample t-test needs to see the effect with 80 % power."""
    for n in range(2, 100_000):
        if nct.sf(t.ppf(0.975, 2 * n - 2), 2 * n - 2, effect / sd * math.sqrt(n / 2)) >= 0.8:
            return n
    raise SystemExit("no number of runs sees so small an effect")


def main(name: str, rounds: int = 4, steps: int = 20) -> None:
    with tempfile.TemporaryDirectory() as room:
        outcome = kept.unpacked(RECIPES / "published" / "measured" / f"{name}.json", Path(room))
        verdicts, rows = outcome.verdicts(), outcome.rows
    control = np.array([row.value for row in rows[verdicts.title, verdicts.control]])
    result = bench.run(TASK, HERE, rounds, steps)
    alone = next(c for c in result.comparisons() if c.what.startswith("runs per hour, peers alone"))
    made = []
    for row in verdicts:
        variant = np.array([r.value for r in rows[verdicts.title, row.arm]])
        sd = math.sqrt((control.var(ddof=1) + variant.var(ddof=1)) / 2)
        effect = abs(row.verdict.difference)
        theirs, pairs = 2 * unpaired_runs(effect, sd), stats.pairs_for(effect / row.verdict.sd)
        if pairs is None:
            continue
        ratio = theirs / (2 * pairs) * alone.median
        made.append(
            {
                "study": name,
                "arm": row.arm,
                "effect": effect,
                "sd_between_seeds": sd,
                "sd_within_pairs": row.verdict.sd,
                "unpaired_runs": theirs,
                "paired_runs": 2 * pairs,
                "peer": alone.against,
                "runs_per_hour_ratio": alone.median,
                "times_faster": ratio,
            }
        )
        print(
            f"{row.arm}: an effect of {effect:.4f} takes {theirs} unpaired runs of {alone.against} "
            f"or {2 * pairs} paired runs of ours; with {alone.median:.2f} × the runs an hour, {ratio:.0f} × sooner"
        )
    (HERE / "measured" / "verdict.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "window-window")
