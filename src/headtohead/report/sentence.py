"""The verdict in one sentence, made of the numbers and saying no more than they do."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.metrics import UNITS, figure_of, text_of
from headtohead.outcome import ArmVerdict, Verdicts
from headtohead.stats import LEAST_PAIRS
from headtohead.wording import interval_text, p_text

NAMED = 5  # arms of one verdict that are called by name; the table has them all


def sentence(verdicts: Verdicts) -> str:
    if not len(verdicts):
        reached = text_of(verdicts.metric, verdicts.control_mean)
        return f"Nothing is compared here: {verdicts.metric} is {reached}, the mean of {verdicts.seeds} seeds."
    paired = [row for row in verdicts if row.verdict.pairs]
    if not paired:
        return f"There is no verdict: no seed has both {verdicts.control} and another arm with a value."
    if all(row.verdict.descriptive for row in paired):
        return _described(verdicts, paired)
    if len(verdicts) == 1:
        return _alone(verdicts, paired[0])
    return _together(verdicts, paired)


def amount(metric: str, value: float, signed: bool = True) -> str:
    """A difference with its unit; of shares in percentage points, lest it be taken for a share of a share."""
    figure = figure_of(metric)
    if figure in ("accuracy", "macro_f1"):
        return text_of(metric, value, signed).replace(" %", " percentage points")
    return f"{text_of(metric, value, signed)} {UNITS[figure]}".rstrip()


def _described(verdicts: Verdicts, rows: Sequence[ArmVerdict]) -> str:
    pairs = max(row.verdict.pairs for row in rows)
    few = f"{pairs} pair{'s' if pairs > 1 else ''} only describe{'' if pairs > 1 else 's'}"
    if len(rows) == 1:
        v = rows[0].verdict
        said = f"{rows[0].arm} is at {amount(verdicts.metric, v.difference)} from {verdicts.control}"
        said += f", with that sign in {v.agree} of {v.pairs}"
    else:
        said = f"{len(rows)} arms are at {_span(verdicts.metric, rows)} from {verdicts.control}"
    return f"Unresolved: {few}, {LEAST_PAIRS} or more decide; so far {said} in {verdicts.metric}."


def _alone(verdicts: Verdicts, row: ArmVerdict) -> str:
    v, metric = row.verdict, verdicts.metric
    figures = f"{amount(metric, v.difference)} in {metric} (95 % interval {interval_text(metric, v.low, v.high)}, "
    figures += f"p {p_text(row)}, {_pairs([row], verdicts.seeds)})"
    if v.verdict in ("better", "worse"):
        return f"{row.arm} is {v.verdict} than {verdicts.control}: {figures}."
    if v.verdict == "equivalent":
        within = amount(metric, v.margin or 0.0, signed=False)
        return f"{row.arm} is equivalent to {verdicts.control} within ± {within}: {figures}."
    return f"Unresolved: {row.arm} is at {figures} from {verdicts.control}, {_blind(metric, [row])}."


def _together(verdicts: Verdicts, paired: Sequence[ArmVerdict]) -> str:
    metric, told = verdicts.metric, []
    for word in ("better", "worse", "equivalent", "unresolved"):
        rows = [row for row in paired if row.verdict.verdict == word]
        if not rows:
            continue
        said = f"{_names(rows, len(verdicts))} {'is' if len(rows) == 1 else 'are'} {word} ({_span(metric, rows)}"
        if word == "equivalent":
            said += f", within ± {amount(metric, rows[0].verdict.margin or 0.0, signed=False)}"
        if word == "unresolved" and len(rows) == len(paired):
            said += f"; {_blind(metric, rows)}"
        told.append(f"{said})")
    lacking = [row for row in verdicts if not row.verdict.pairs]
    if lacking:
        told.append(f"{_names(lacking, len(verdicts))} {'has' if len(lacking) == 1 else 'have'} no pair and no verdict")
    pairs = _pairs(paired, verdicts.seeds)
    return f"Against {verdicts.control}, {'; '.join(told)} in {metric}, {pairs}, p corrected for {len(verdicts)} arms."


def _names(rows: Sequence[ArmVerdict], of: int) -> str:
    names = [row.arm for row in rows]
    if len(names) > NAMED:
        return f"{len(names)} of {of} arms"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _span(metric: str, rows: Sequence[ArmVerdict]) -> str:
    low, high = (f(row.verdict.difference for row in rows) for f in (min, max))
    if len(rows) == 1 or text_of(metric, low) == text_of(metric, high):
        return amount(metric, low)
    return f"{text_of(metric, low, signed=True)} to {amount(metric, high)}"


def _pairs(rows: Sequence[ArmVerdict], seeds: int) -> str:
    """How many, and how many the study asked for where it is not all of them."""
    counts = sorted({row.verdict.pairs for row in rows})
    said = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{said} pairs" if counts == [seeds] else f"{said} of {seeds} pairs"


def _blind(metric: str, rows: Sequence[ArmVerdict]) -> str:
    """What an unresolved arm could have been."""
    seen = [row.verdict.smallest_effect for row in rows if row.verdict.smallest_effect is not None]
    if not seen:
        return "which they do not tell from nothing"
    return f"which they do not tell from nothing: they would see {amount(metric, max(seen), signed=False)} or more"
