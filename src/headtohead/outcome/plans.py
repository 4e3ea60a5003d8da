"""What was planned, what was shown, and what was changed afterwards, in sentences. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import InputError
from headtohead.outcome.metrics import change_text
from headtohead.run.locks import as_run, read_lock
from headtohead.run.studies import StudyRecord
from headtohead.stats import Design


def plan_text(folder: Path, record: StudyRecord) -> str:
    """The plan of a study, whether it was locked, and every later change that a reader should know."""
    return " ".join([design_text(record.planned), *_lock(folder, record), *_changes(record), *_elsewhere(record)])


def design_text(design: Design) -> str:
    """The planned analyses in one sentence."""
    if len(design.analyses) == 1:
        return f"Plan: one analysis, of {design.pairs} pairs."
    points = ", ".join(map(str, design.analyses[:-1]))
    return f"Plan: up to {len(design.analyses)} analyses, after {points} and {design.pairs} pairs."


def _lock(folder: Path, record: StudyRecord) -> list[str]:
    if not record.locked:
        return []
    try:
        locked = read_lock(folder)
    except InputError as error:
        return [f"The locked plan cannot be checked: {error}."]
    if locked is None:
        return [f"The plan {record.locked} was locked before the first run, but its file is gone."]
    changed = locked.differences(as_run(record, locked))
    if not changed:
        return [f"As locked ({locked.hash})."]
    return [f"Differs from the locked plan {locked.hash}: {'; '.join(changed)}."]


def _changes(record: StudyRecord) -> list[str]:
    """What changed after verdicts had been shown."""
    if not record.history:
        return []
    told, planned = [], record.planned
    beyond = len(record.seeds) - planned.pairs
    if beyond > 0:
        told.append(
            f"{beyond} pair{'s were' if beyond > 1 else ' was'} added after the plan had ended; "
            "they count through the test for unplanned analyses."
        )
    if record.later:
        were = "were" if len(record.later) > 1 else "was"
        told.append(
            f"{', '.join(record.later)} {were} added after verdicts had been shown and {were} judged by the test for "
            "unplanned analyses."
        )
    margins = list(dict.fromkeys(_margin(a.margin, a.metric) for a in record.history))
    now = _margin(record.margin, record.metric)
    if now not in margins or len(margins) > 1:
        earlier = [margin for margin in margins if margin != now]
        told.append(f"The margin was {' and '.join(earlier)} when verdicts were shown before; it is {now} now.")
    return told


def _margin(margin: float | str | None, metric: str) -> str:
    if margin is None:
        return "none"
    return str(margin) if isinstance(margin, str) else change_text(metric, margin, signed=False)


def _elsewhere(record: StudyRecord) -> list[str]:
    return [f"The same question was asked by {' and '.join(record.asked_by)} before."] if record.asked_by else []
