"""Verdicts in words, the same on the screen and in reports. Imports no torch."""

from __future__ import annotations

import math

from headtohead.outcome.metrics import figure_of, text_of
from headtohead.outcome.outcome import ArmVerdict, Verdicts
from headtohead.stats import LEAST_PAIRS


def word(row: ArmVerdict) -> str:
    return f"{row.verdict.verdict} (descriptive)" if row.verdict.descriptive else row.verdict.verdict


def interval_text(metric: str, low: float, high: float) -> str:
    if not math.isfinite(low):
        return "–"
    return f"{text_of(metric, low, signed=True)} … {text_of(metric, high, signed=True)}"


def share_text(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:+.1f} %".replace("-", "−")


def p_text(row: ArmVerdict) -> str:
    if not row.verdict.pairs:
        return "–"
    return "<0.001" if row.verdict.p < 0.001 else f"{row.verdict.p:.3f}"


def r_text(row: ArmVerdict) -> str:
    if row.verdict.correlation is None or not math.isfinite(row.verdict.correlation):
        return "–"
    return f"{round(row.verdict.correlation, 2) + 0.0:.2f}".replace("-", "−")  # zero has no sign


def parameters_text(row: ArmVerdict) -> str:
    return "–" if row.extra_parameters is None else f"{row.extra_parameters:+,}".replace("-", "−")


def family(verdicts: Verdicts) -> int:
    """How many arms p is corrected for: those with enough pairs for a verdict or, if there are none, with any pair."""
    pairs = [row.verdict.pairs for row in verdicts]
    return sum(n >= LEAST_PAIRS for n in pairs) or sum(n > 0 for n in pairs)


def corrected_text(verdicts: Verdicts) -> str:
    """The arms that p is corrected for, as text; empty if fewer than two."""
    many = family(verdicts)
    if many < 2:
        return ""
    enough = any(row.verdict.pairs >= LEAST_PAIRS for row in verdicts)
    some = f"the {many} arms that have {'pairs enough for a verdict' if enough else 'a pair'}"
    return f"; p is corrected for {f'all {many} arms' if many == len(verdicts) else some}"


def lines_under(verdicts: Verdicts) -> list[str]:
    """The lines below a table of verdicts."""
    metric = verdicts.metric
    lines = []
    if verdicts.noise is not None:
        n = verdicts.noise.verdict
        time = "" if verdicts.noise.extra_time is None else f"; time per step {share_text(verdicts.noise.extra_time)}"
        lines.append(
            f"control against itself with reshuffled batches: {text_of(metric, n.difference, signed=True)} "
            f"({interval_text(metric, n.low, n.high)}), {n.verdict}{time}"
        )
    detectable = [row.verdict.smallest_effect for row in verdicts if row.verdict.smallest_effect is not None]
    if detectable:
        counts = sorted({row.verdict.pairs for row in verdicts if row.verdict.smallest_effect is not None})
        pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        low, high = text_of(metric, min(detectable)), text_of(metric, max(detectable))
        span = low if low == high else f"{low} to {high}"
        lines.append(f"smallest detectable difference ({pairs} pairs, 80 % power, each arm): {span}")
    elif any(row.verdict.descriptive for row in verdicts):
        lines.append("fewer than six pairs: the figures describe these runs and cannot tell better from worse")
    for row in verdicts:
        if row.verdict.verdict == "unresolved" and row.verdict.pairs_needed and not row.verdict.descriptive:
            needed = row.verdict.pairs_needed
            lines.append(f"{row.arm}: a difference of this size needs about {needed:,} pairs to be resolved")
        if row.items is not None:
            i = row.items
            agree = (
                "" if row.items_agree is None else f"; McNemar p ≤ 0.05 in {row.items_agree} of {row.items_pairs} pairs"
            )
            of = ", by accuracy" if figure_of(metric) == "macro_f1" else ""  # an item has no F1
            lines.append(
                f"{row.arm}, if only the test texts were resampled (same trained models, {i.items:,} texts{of}): "
                + f"{_item_text(metric, i.difference)} "
                + f"({_item_text(metric, i.low)} … {_item_text(metric, i.high)}){agree}"
            )
    lines += _left_out(verdicts)
    lines += [f"warning: {note}" for note in verdicts.notes]
    lines.append(f"scope: {verdicts.scope}; {verdicts.better} is better{corrected_text(verdicts)}")
    return lines


def _left_out(verdicts: Verdicts) -> list[str]:
    """Runs without a value, by reason; arms that lack the same seeds for the same reason share a line."""
    missing = [*verdicts.control_excluded, *(e for row in verdicts for e in row.excluded)]
    by_reason: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for arm, why in dict.fromkeys((e.arm, e.why) for e in missing):
        seeds = tuple(e.seed for e in missing if (e.arm, e.why) == (arm, why))
        by_reason.setdefault((why, seeds), []).append(arm)
    lines = []
    for (why, seeds), arms in by_reason.items():
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        lines.append(f"pairs left out, {which}: {', '.join(arms)}: {why}")
    return lines


def _item_text(metric: str, value: float) -> str:
    right = figure_of(metric) in ("accuracy", "macro_f1")
    return text_of("x/accuracy" if right else "x/loss", value, signed=True) + ("" if right else " nats")
