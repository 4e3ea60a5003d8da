"""Verdicts in words, alike on the screen and in reports. Imports no torch."""

from __future__ import annotations

import math

from headtohead.metrics import figure_of, text_of
from headtohead.outcome import ArmVerdict, Verdicts


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
    return f"{round(row.verdict.correlation, 2) + 0.0:.2f}".replace("-", "−")  # nothing has no sign


def parameters_text(row: ArmVerdict) -> str:
    return "–" if row.extra_parameters is None else f"{row.extra_parameters:+,}".replace("-", "−")


def lines_under(verdicts: Verdicts) -> list[str]:
    """What belongs under a table of verdicts, on the screen as in the report."""
    metric = verdicts.metric
    made = []
    if verdicts.noise is not None:
        n = verdicts.noise.verdict
        time_said = (
            "" if verdicts.noise.extra_time is None else f"; its time a step {share_text(verdicts.noise.extra_time)}"
        )
        made.append(
            f"noise floor (the control again, batches in another order): {text_of(metric, n.difference, signed=True)} "
            f"({interval_text(metric, n.low, n.high)}), {n.verdict}{time_said}"
        )
    seen = [row.verdict.smallest_effect for row in verdicts if row.verdict.smallest_effect is not None]
    if seen:
        counts = sorted({row.verdict.pairs for row in verdicts if row.verdict.smallest_effect is not None})
        pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        low, high = text_of(metric, min(seen)), text_of(metric, max(seen))
        span = low if low == high else f"{low} to {high}, arm by arm"
        made.append(f"smallest effect that {pairs} pairs see at 80 % power: {span}")
    elif any(row.verdict.descriptive for row in verdicts):
        made.append("fewer than six pairs are descriptive: they cannot tell better from worse")
    for row in verdicts:
        if row.verdict.verdict == "unresolved" and row.verdict.pairs_needed and not row.verdict.descriptive:
            needed = row.verdict.pairs_needed
            made.append(f"{row.arm}: to tell a difference this large from noise takes about {needed:,} pairs")
        if row.items is not None:
            i = row.items
            agree = (
                "" if row.items_agree is None else f"; McNemar p ≤ 0.05 in {row.items_agree} of {row.items_pairs} pairs"
            )
            of = ", by accuracy" if figure_of(metric) == "macro_f1" else ""  # an item has no F1
            made.append(
                f"{row.arm}, other texts but these checkpoints ({i.items:,} items{of}): "
                + f"{_item_text(metric, i.difference)} "
                + f"({_item_text(metric, i.low)} … {_item_text(metric, i.high)}){agree}"
            )
    made += _left_out(verdicts)
    made += [f"warning: {note}" for note in verdicts.notes]
    better = f"{verdicts.better} is better"
    if len(verdicts) > 1:
        better += f"; p is corrected for all {len(verdicts)} arms"
    made.append(f"scope: {verdicts.scope}; {better}")
    return made


def _left_out(verdicts: Verdicts) -> list[str]:
    """Runs without a value by arm and reason; seeds that several arms lack for one reason are said once."""
    lacking = [*verdicts.control_excluded, *(e for row in verdicts for e in row.excluded)]
    by_reason: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for arm, why in dict.fromkeys((e.arm, e.why) for e in lacking):
        seeds = tuple(e.seed for e in lacking if (e.arm, e.why) == (arm, why))
        by_reason.setdefault((why, seeds), []).append(arm)
    made = []
    for (why, seeds), arms in by_reason.items():
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        made.append(f"pairs left out, {which}: {', '.join(arms)}: {why}")
    return made


def _item_text(metric: str, value: float) -> str:
    right = figure_of(metric) in ("accuracy", "macro_f1")
    return text_of("x/accuracy" if right else "x/loss", value, signed=True) + ("" if right else " nats")
