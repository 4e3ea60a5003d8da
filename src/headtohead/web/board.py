"""The verdict board: one row per study, as plain values for the page. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headtohead.outcome.outcome import Outcome, Verdicts, load_outcome
from headtohead.outcome.wording import floor_text, p_text, pairs_text, share_text, time_text, word
from headtohead.report.number_text import amount, between, is_share, unit_of
from headtohead.report.sentence import sentence
from headtohead.run import files, store


def board_row(folder: Path) -> dict[str, Any]:
    """What the board shows of a study."""
    return row_of(load_outcome(folder))


def row_of(outcome: Outcome) -> dict[str, Any]:
    verdicts, record = outcome.verdicts, outcome.record
    rows = outcome.all_rows
    states: dict[str, int] = {}
    for row in rows:
        states[row.status] = states.get(row.status, 0) + 1
    return store.plain(
        {
            "name": outcome.folder.name,
            "question": record.question,
            "task": record.task,
            "corpus": record.corpus,
            "metric": record.metric,
            "better": record.better,
            "scale": 100 if is_share(record.metric) else 1,
            "unit": unit_of(record.metric),
            "control": verdicts.control,
            "control_mean": verdicts.control_mean,
            "sentence": sentence(verdicts),
            "arms": arm_rows(outcome, verdicts),
            "floors": floors(verdicts),
            "scope": verdicts.scope,
            "plan": verdicts.plan,
            "command": record.command,
            "states": states,
            "runs": len(rows),
            "changed": _changed(outcome),
        }
    )


def arm_rows(outcome: Outcome, verdicts: Verdicts) -> list[dict[str, Any]]:
    """Every arm against the control: numbers for the picture, texts as everywhere else."""
    dots = outcome.differences(verdicts.title)
    made = []
    for row in verdicts:
        v = row.verdict
        made.append(
            {
                "arm": row.arm,
                "word": word(row),
                "verdict": v.verdict if v.pairs else "",
                "descriptive": v.descriptive,
                "difference": v.difference,
                "difference_text": amount(verdicts.metric, v.difference) if v.pairs else "–",
                "low": v.low,
                "high": v.high,
                "interval_text": between(verdicts.metric, v.low, v.high),
                "alone_low": v.alone_low,
                "alone_high": v.alone_high,
                "margin": v.margin,
                "p": v.p,
                "p_text": p_text(row),
                "pairs": v.pairs,
                "pairs_text": pairs_text(row, verdicts),
                "dots": [[seed, d] for seed, d in dots.get(row.arm, {}).items()],
                "analysis": v.analysis,
                "analyses": v.analyses,
                "spent": v.spent,
                "planned": v.planned,
                "parameters": row.extra_parameters,
                "time": row.extra_time,
                "flops": row.extra_flops,
                "cost_text": f"time {time_text(row)}, FLOPs {share_text(row.extra_flops)}",
                "dropped": row.dropped,
            }
        )
    return made


def floors(verdicts: Verdicts) -> list[dict[str, Any]]:
    """The control against itself."""
    made = []
    for kind, floor in (("noise", verdicts.noise), ("chaos", verdicts.chaos)):
        if floor is not None and floor.verdict.pairs:
            v = floor.verdict
            made.append(
                {"kind": kind, "low": v.alone_low, "high": v.alone_high, "sd": v.sd, "text": floor_text(verdicts, kind)}
            )
    return made


def _changed(outcome: Outcome) -> float:
    """When the study was last written or a run of it ended, in seconds since 1970."""
    try:
        written = os.stat(outcome.folder / files.STUDY).st_mtime
    except OSError:
        written = 0.0
    return max([written, *(row.finished for row in outcome.all_rows)])
