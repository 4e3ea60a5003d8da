"""A study's result in two sentences: what was found, and how certain it is. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.outcome.metrics import change_text
from headtohead.outcome.outcome import ArmVerdict, Verdicts
from headtohead.stats import ALPHA

ORDER = ("better", "worse", "equivalent", "unresolved")


def found(verdicts: Verdicts) -> str:
    """Which arms are better, worse, equivalent and unresolved."""
    decided = [row for row in verdicts if not row.verdict.descriptive]
    if not decided:
        return "nothing yet: a verdict needs six pairs or more."
    groups = []
    for word in ORDER:
        rows = [row for row in decided if row.verdict.verdict == word]
        if rows:
            than = {"better": f" than {verdicts.control}", "worse": f" than {verdicts.control}"}.get(word, "")
            groups.append(f"{_arms(verdicts.metric, rows)} {'is' if len(rows) == 1 else 'are'} {word}{than}")
    return "; ".join(groups) + "."


def certain(verdicts: Verdicts) -> str:
    """The number of pairs, the error rate, what pairing gained and the smallest detectable difference."""
    pairs = sorted({row.verdict.pairs for row in verdicts if not row.verdict.descriptive})
    if not pairs:
        return "no error rate can be given for so few pairs."
    count = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    parts = [f"each arm was trained {count} times with the control's seeds, first weights and batches"]
    gains = [r for row in verdicts if (r := row.verdict.correlation) is not None and r > 0]
    if gains:
        low, high = (f"{100 * share:.0f}" for share in (min(gains), max(gains)))
        parts.append(f"this pairing removed {low if low == high else f'{low} to {high}'} % of the noise between seeds")
    parts.append(
        f"the chance of any wrong better or worse in the table is at most {100 * ALPHA:.0f} %, early analyses included"
    )
    smallest = [row.verdict.smallest_effect for row in verdicts if row.verdict.smallest_effect is not None]
    if smallest:
        parts.append(f"differences below {change_text(verdicts.metric, max(smallest), signed=False)} may be missed")
    return "; ".join(parts) + "."


def _arms(metric: str, rows: Sequence[ArmVerdict]) -> str:
    named = [f"{row.arm} ({change_text(metric, row.verdict.difference)})" for row in rows]
    return named[0] if len(named) == 1 else ", ".join(named[:-1]) + f" and {named[-1]}"
