"""Verdicts in words, the same on the screen and in reports. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from headtohead.outcome.metrics import change_span, change_text, effect_text, figure_of
from headtohead.outcome.outcome import ArmVerdict, Noise, Verdicts
from headtohead.outcome.worth_text import worth_lines
from headtohead.stats import LEAST_PAIRS, CrossedTest, ItemTest
from headtohead.stats.clusters import LEAST_BLOCKS
from headtohead.stats.items import LEAST_CLUSTERS

MOST_SHARE = 10.0  # a bound of a time above it is not written out: two pairs have a very wide interval


def word(row: ArmVerdict) -> str:
    """The verdict, or why there is none."""
    if not row.verdict.pairs:
        lost = row.excluded and not any(is_to_come(e.why) for e in row.excluded)
        return "no pair" if lost else "first pair not finished"
    return f"{row.verdict.verdict} (descriptive)" if row.verdict.descriptive else row.verdict.verdict


def is_to_come(why: str) -> bool:
    """Whether a run without a value is still to be trained to its end."""
    return why in ("not trained yet", "its run is running", "its run is stopped")


def pairs_text(row: ArmVerdict, verdicts: Verdicts) -> str:
    """1 pair, first analysis after 6 pairs; 8 pairs, analysis 2 of 5, error 3.3 %."""
    pairs = "1 pair" if row.verdict.pairs == 1 else f"{row.verdict.pairs or 'no'} pairs"
    planned = verdicts.planned
    if planned is None or len(planned.analyses) < 2:
        return pairs
    if row.verdict.analysis:
        number, _, error = analysis_text(row).partition(", ")
        return f"{pairs}, analysis {number}, error {error}"
    return f"{pairs}, not planned" if row.later else f"{pairs}, first analysis after {planned.analyses[0]} pairs"


def interval_text(metric: str, low: float, high: float) -> str:
    return change_span(metric, low, high)


def share_text(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:+.1f} %".replace("-", "−")


def time_text(row: ArmVerdict | Noise) -> str:
    """Time per step against the control's with its 95 % interval: +13.9 % (+9.1 … +18.9 %). If the interval includes
    0, the difference cannot be measured in these runs."""
    if row.time is None:
        return "–" if row.extra_time is None else f"{share_text(row.extra_time)} (one pair)"
    low, high = row.time.low - 1, row.time.high - 1
    ends = f"{_end(low).removesuffix(' %')} … {_end(high)}"
    return f"not measurable ({ends})" if low <= 0 <= high else f"{share_text(row.extra_time)} ({ends})"


def _end(share: float) -> str:
    return share_text(share) if share < MOST_SHARE else f"over {100 * MOST_SHARE:+.0f} %"


def p_text(row: ArmVerdict) -> str:
    if not row.verdict.pairs:
        return "–"
    return "<0.001" if row.verdict.p < 0.001 else f"{row.verdict.p:.3f}"


def r_text(row: ArmVerdict) -> str:
    if row.verdict.correlation is None or not math.isfinite(row.verdict.correlation):
        return "–"
    return f"{round(row.verdict.correlation, 2) + 0.0:.2f}".replace("-", "−")  # zero has no sign


def parameters_text(row: ArmVerdict) -> str:
    if row.extra_parameters is None:
        return "–"
    active = "" if row.extra_active is None else f" ({row.extra_active:+,} active)"
    return f"{row.extra_parameters:+,}{active}".replace("-", "−")


def count_text(parameters: int | None, active: int | None) -> str:
    """The number of a model's parameters, and of those that one token uses where that differs."""
    if parameters is None:
        return "–"
    return f"{parameters:,}" if active is None else f"{parameters:,} ({active:,} active)"


def family(verdicts: Verdicts) -> int:
    """How many arms p is corrected for: those with enough pairs for a verdict or, if there are none, with any pair."""
    pairs = [row.verdict.pairs for row in verdicts]
    return sum(n >= LEAST_PAIRS for n in pairs) or sum(n > 0 for n in pairs)


def corrected_text(verdicts: Verdicts) -> str:
    """The arms and analyses that intervals and p are corrected for, as text; empty if there is one of each."""
    many, planned = family(verdicts), verdicts.planned
    enough = f"{LEAST_PAIRS} pairs" if any(row.verdict.pairs >= LEAST_PAIRS for row in verdicts) else "a pair"
    some = f"the {many} arms that have {enough}" if many < len(verdicts) else f"all {many} arms"
    parts = [some] if many > 1 else []
    if planned is not None and len(planned.analyses) > 1:
        parts.append(f"{len(planned.analyses)} analyses")
    return f"; intervals and p are corrected for {' and '.join(parts)}" if parts else ""


def lines_under(verdicts: Verdicts) -> list[str]:
    """The lines below a table of verdicts."""
    metric = verdicts.metric
    lines = [line for line in (floor_text(verdicts, "noise"), floor_text(verdicts, "chaos")) if line]
    detectable = [row.verdict.smallest_effect for row in verdicts if row.verdict.smallest_effect is not None]
    if detectable:
        counts = sorted({row.verdict.pairs for row in verdicts if row.verdict.smallest_effect is not None})
        pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        low, high = (change_text(metric, f(detectable), signed=False) for f in (min, max))
        span = low if low == high else change_span(metric, min(detectable), max(detectable), signed=False, to=" to ")
        lines.append(f"smallest detectable difference ({pairs} pairs, 80 % power, each arm): {span}")
    elif any(row.verdict.descriptive and row.verdict.pairs for row in verdicts):
        lines.append("fewer than six pairs: the figures describe these runs and cannot tell better from worse")
    if len({row.verdict.pairs for row in verdicts if row.verdict.pairs}) > 1:
        lines.append("numbers of pairs differ: a mean is over all runs of an arm, a difference over its pairs")
    for row in verdicts:
        lines += _lines_of(row, verdicts)
    lines += too_short(verdicts)
    lines += worth_lines(verdicts)
    lines += _left_out(verdicts)
    lines += [f"warning: {note}" for note in verdicts.notes]
    if verdicts.plan:
        lines.append(_lower(verdicts.plan))
    lines += [f"training of the control: {verdicts.training}"] if verdicts.training else []
    lines.append(f"scope: {verdicts.scope}; {verdicts.better} is better{corrected_text(verdicts)}")
    return lines


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].removesuffix(".")


FLOORS = {"noise": "the control against itself, new runs", "chaos": "the control against itself, numerical chaos"}
FLOOR_MEANINGS = {"noise": "other batch order", "chaos": "same batches, weights perturbed by 1e-6"}


def analysis_text(row: ArmVerdict) -> str:
    """The planned analysis that a verdict is from and the error spent up to it: 2 of 5, 3.3 %."""
    v = row.verdict
    if not v.planned:
        return "not planned"
    return f"{v.analysis} of {v.analyses}, {100 * v.spent:.1f} %" if v.analysis else "–"


def floor_text(verdicts: Verdicts, kind: str) -> str:
    """One noise floor. Its true difference is zero, so a difference that looks certain is a chance finding."""
    floor, metric = getattr(verdicts, kind), verdicts.metric
    if floor is None or not floor.verdict.pairs:
        return ""
    v = floor.verdict
    size = f", sd {_small(metric, v.sd)}" if math.isfinite(v.sd) else ""
    time = "" if floor.extra_time is None or kind == "chaos" else f"; time per step {time_text(floor)}"
    chance = "; zero lies outside, which is a chance finding: the true difference is zero" if v.is_real else ""
    return (
        f"{FLOORS[kind]} ({FLOOR_MEANINGS[kind]}, {v.pairs} pairs): {change_text(metric, v.difference)} "
        f"({interval_text(metric, v.alone_low, v.alone_high)}{size}){chance}{time}"
    )


def _small(metric: str, value: float) -> str:
    """A value that may be too small for the usual digits."""
    usual = change_text(metric, value, signed=False)
    return f"{value:.1e}" if value > 0 and not any(digit in usual for digit in "123456789") else usual


def _lines_of(row: ArmVerdict, verdicts: Verdicts) -> Iterator[str]:
    """What there is to say about one arm."""
    v, metric = row.verdict, verdicts.metric
    if v.resolved_alone:
        among = f"among {v.arms} arms" if v.arms > 1 else "with the analyses that were made"
        alone = interval_text(metric, v.alone_low, v.alone_high)
        yield f"{row.arm}: resolved alone ({alone}), not {among}"
    if v.verdict == "equivalent":
        inside = interval_text(metric, v.inner_low, v.inner_high)
        margin = change_text(metric, v.margin or 0.0, signed=False)
        yield f"{row.arm}: {inside} lies inside the margin of ±{margin} (two one-sided tests)"
    if v.verdict == "unresolved" and v.pairs_for_margin and not v.descriptive and not row.later:
        margin = change_text(metric, v.margin or 0.0, signed=False)
        yield f"{row.arm}: if it is equal, about {v.pairs_for_margin:,} pairs show it within the margin of ±{margin}"
    if not v.planned:
        yield f"{row.arm}: decided by the test for unplanned analyses (anytime-valid)"
    if verdicts.published is not None and not v.descriptive:
        said = "excluded" if excluded(verdicts.published, row) else "compatible"
        yield f"{row.arm}: the published {change_text(metric, verdicts.published)} is {said}"
    yield from item_lines(metric, row)


def excluded(published: float, row: ArmVerdict) -> bool:
    """Whether the interval that decides excludes a published difference."""
    return not row.verdict.low <= published <= row.verdict.high


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


def item_lines(metric: str, row: ArmVerdict) -> list[str]:
    """What the test items say of an arm: for other seeds and texts, and for other texts alone."""
    of = "by accuracy, " if figure_of(metric) == "macro_f1" else ""  # an item has no F1
    lines = []
    if row.crossed is not None and row.crossed.has_interval:
        lines.append(f"{row.arm}, {of}over other seeds and other test texts: {_item_interval(metric, row.crossed)}")
    if row.items is not None and row.items.has_interval:
        groups = "documents" if row.items.documents else "groups"
        agree = "" if row.items_agree is None else f"; McNemar p ≤ 0.05 in {row.items_agree} of {row.items_pairs} pairs"
        lines.append(
            f"{row.arm}, {of}if only the test texts were resampled (same trained models, {row.items.items:,} texts in "
            f"{row.items.clusters} {groups}): {_item_interval(metric, row.items)}{agree}"
        )
    return lines


def too_short(verdicts: Verdicts) -> list[str]:
    """Why there is no interval over texts, in one line for all arms."""
    without = [row.items for row in verdicts if row.items is not None and not row.items.has_interval]
    if not without:
        return []
    why = f"the test text is too short, it needs {LEAST_BLOCKS * LEAST_CLUSTERS} windows side by side"
    if without[0].documents:
        have, least = without[0].clusters, LEAST_CLUSTERS
        why = f"the windows are from {have} document{'s' if have > 1 else ''}, it needs {least}; evaluate more windows"
    return [f"no interval over other test texts: {why}"]


def _item_interval(metric: str, found: ItemTest | CrossedTest) -> str:
    right = figure_of(metric) in ("accuracy", "macro_f1")
    said = effect_text("x/accuracy" if right else "x/loss", found.difference, found.low, found.high)
    return said if right else said.replace(" (", " nats (")
