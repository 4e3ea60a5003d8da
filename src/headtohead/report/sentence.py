"""The verdict in one or two sentences, from the numbers alone."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import ArmVerdict, Excluded, Verdicts
from headtohead.outcome.wording import family, is_to_come, p_text
from headtohead.report.number_text import UNFINISHED, amount, between, cause, difference_text, joined
from headtohead.stats import LEAST_PAIRS

NAMED = 5  # most arms of one verdict that are named
EACH = 3  # arms that are described with their interval and p


def sentence(verdicts: Verdicts) -> str:
    if not len(verdicts):
        return _single(verdicts)
    paired = [row for row in verdicts if row.verdict.pairs]
    if not paired:
        lacking = [*verdicts.control_excluded, *(e for row in verdicts for e in row.excluded)]
        if any(is_to_come(e.why) for e in lacking):
            return "There is no verdict yet: the first pair is not finished."
        said = f"There is no verdict: no seed has both {verdicts.control} and another arm with a value."
    elif all(row.verdict.descriptive for row in paired):
        said = _described(verdicts, paired)
    elif len(verdicts) == 1:
        said = _alone(verdicts, paired[0])
    else:
        said = _together(verdicts, paired)
    return f"{said} {lost_pairs(verdicts)}".strip()


def _single(verdicts: Verdicts) -> str:
    gone, seeds = verdicts.control_excluded, verdicts.seeds
    if len(gone) == seeds:
        return f"Nothing is compared here, and no run has a value: all {seeds} are lost to {_causes(gone)}."
    lost = f" {len(gone)} of {seeds} runs {_are(len(gone))} lost to {_causes(gone)}." if gone else ""
    reached = text_of(verdicts.metric, verdicts.control_mean)
    mean = f"the mean of {seeds - len(gone)} seed{'s' if seeds - len(gone) > 1 else ''}"
    return f"Nothing is compared here: {verdicts.metric} is {reached}, {mean}.{lost}"


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
    sure = f"in {metric} ({_sure(metric, row)}, {_pairs([row], verdicts)})"
    figures = f"{amount(metric, v.difference)} {sure}"
    if v.verdict in ("better", "worse"):
        return f"{row.arm} is {v.verdict} than {verdicts.control}: {figures}."
    if v.verdict == "equivalent":
        within = amount(metric, v.margin or 0.0, signed=False)
        return f"{row.arm} is equivalent to {verdicts.control} within ± {within}: {figures}."
    said = f"{row.arm} is at {amount(metric, v.difference)} from {verdicts.control} {sure}"
    return f"Unresolved: {said}. {_blind(metric, [row])}"


def _together(verdicts: Verdicts, paired: Sequence[ArmVerdict]) -> str:
    metric, told, spans = verdicts.metric, [], False
    judged = [row for row in paired if not row.verdict.descriptive]
    decided = [row for row in judged if row.verdict.verdict != "unresolved"]
    for word in ("better", "worse", "equivalent", "unresolved"):
        rows = [row for row in judged if row.verdict.verdict == word]
        if not rows:
            continue
        within = f" within ± {amount(metric, rows[0].verdict.margin or 0.0, signed=False)}"
        word_said = word + (within if word == "equivalent" else "")
        if len(judged if word == "unresolved" else decided) <= EACH:
            told += [
                f"{row.arm} is {word_said} ({amount(metric, row.verdict.difference)}, {_sure(metric, row)})"
                for row in rows
            ]
        else:
            spans = True
            is_are = "is" if len(rows) == 1 else "are"
            told.append(f"{_names(rows, len(verdicts))} {is_are} {word_said} ({_span(metric, rows)})")
    for rows, what in (
        ([row for row in paired if row.verdict.descriptive], f"fewer than {LEAST_PAIRS} pairs"),
        ([row for row in verdicts if not row.verdict.pairs], "no pair"),
    ):
        if rows:
            told.append(f"{_names(rows, len(verdicts))} {'has' if len(rows) == 1 else 'have'} {what} and no verdict")
    many = family(verdicts)
    corrected = f", p corrected for {many} arms" if many > 1 else ""
    said = f"Against {verdicts.control} in {metric}, {_pairs(judged, verdicts)}{corrected}: {'; '.join(told)}."
    if spans:
        said += " The table has the intervals and p" + (" of the others." if 0 < len(decided) <= EACH else ".")
    return said if decided else f"{said} {_blind(metric, judged)}"


def _sure(metric: str, row: ArmVerdict) -> str:
    return f"95 % interval {between(metric, row.verdict.low, row.verdict.high)}, p {p_text(row)}"


def _names(rows: Sequence[ArmVerdict], of: int) -> str:
    return f"{len(rows)} of {of} arms" if len(rows) > NAMED else joined([row.arm for row in rows])


def _span(metric: str, rows: Sequence[ArmVerdict]) -> str:
    low, high = (f(row.verdict.difference for row in rows) for f in (min, max))
    if len(rows) == 1 or text_of(metric, low) == text_of(metric, high):
        return amount(metric, low)
    return f"{difference_text(metric, low)} to {amount(metric, high)}"


def _pairs(rows: Sequence[ArmVerdict], verdicts: Verdicts) -> str:
    """The number of pairs, and of those that were wanted if some are lost."""
    counts = sorted({row.verdict.pairs for row in rows})
    said = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    wanted = max(row.verdict.pairs + lost(row, verdicts) for row in rows)
    return f"{said} of {wanted} pairs" if any(lost(row, verdicts) for row in rows) else f"{said} pairs"


def lost(row: ArmVerdict, verdicts: Verdicts) -> int:
    """The pairs of an arm that have no value, because a run of the arm or of the control has none."""
    gone = {e.seed for e in row.excluded} | {e.seed for e in verdicts.control_excluded if e.seed in row.seeds}
    return len(gone)


def _blind(metric: str, rows: Sequence[ArmVerdict]) -> str:
    """Why a difference is unresolved, and the smallest that would be detected."""
    if all(row.verdict.is_real for row in rows):
        return "Runs came to nothing that the other arm completed, and the pairs that are left do not speak for those."
    seen = [row.verdict.smallest_effect for row in rows if row.verdict.smallest_effect is not None]
    unknown = "That cannot be told from no difference" if len(rows) == 1 else "None can be told from no difference"
    if not seen:
        return f"{unknown}."
    counts = sorted({row.verdict.pairs for row in rows})
    pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{unknown}: {pairs} pairs detect one of {amount(metric, max(seen), signed=False)} or more, at 80 % power."


# -- what was lost -----------------------------------------------------------------------------------------------------


def lost_pairs(verdicts: Verdicts) -> str:
    """How many pairs are lost, of which arms and why; empty if none is."""
    told = []
    short = [row for row in verdicts if lost(row, verdicts)]
    if not short:
        return ""
    if len(short) > EACH:
        least, most = (f(lost(row, verdicts) for row in short) for f in (min, max))
        count = f"{least}" if least == most else f"{least} to {most}"
        lacking = [*verdicts.control_excluded, *(e for row in short for e in row.excluded)]
        seeds = max(len(row.seeds) for row in short)
        if {cause(e.why) for e in lacking} == {UNFINISHED}:
            return f"{count} of {seeds} pairs of {len(short)} arms {_are(most)} not finished."
        return f"{count} of {seeds} pairs of {len(short)} arms {_are(most)} lost to {_causes(lacking)}."
    for row in short:
        gone, seeds = lost(row, verdicts), len(row.seeds)
        own, of_control = row.excluded, verdicts.control_excluded
        whose = f" of {row.arm}" if len(verdicts) > 1 else ""
        if {cause(e.why) for e in (*own, *of_control)} == {UNFINISHED}:
            told.append(f"{gone} of {seeds} pairs{whose} {_are(gone)} not finished")
            continue
        by = [_causes(own)] if own else []
        if of_control:
            by.append(f"{_causes(of_control)} of {verdicts.control}")
        told.append(f"{gone} of {seeds} pairs{whose} {_are(gone)} lost to {joined(by) or 'runs that are not there'}")
    return f"{'; '.join(told)}."


def _causes(lacking: Sequence[Excluded]) -> str:
    return joined(list(dict.fromkeys(cause(e.why) for e in lacking)))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
