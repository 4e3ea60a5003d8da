"""Write down that verdicts of a study were shown. Imports no torch."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from headtohead.outcome.outcome import Outcome
from headtohead.run import store
from headtohead.run.studies import AnalysisRecord, read_study, write_study


def note_shown(outcome: Outcome, number: int | None = None) -> None:
    """Write into study.json that these verdicts were shown, unless the same verdicts were shown before.

    `number` is that of the planned analysis, 0 for a look that was not planned; None: the last analysis that was made.
    """
    rows = outcome.verdicts
    if not any(row.verdict.pairs for row in rows):
        return
    shown = AnalysisRecord(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        pairs={row.arm: row.verdict.pairs for row in rows},
        metric=outcome.metric,
        margin=outcome.record.margin,
        verdicts={row.arm: row.verdict.verdict for row in rows},
        number=max(row.verdict.analysis for row in rows) if number is None else number,
    )
    with store.lock(outcome.folder, patience=30):
        record = read_study(outcome.folder)
        if not any(dataclasses.replace(known, when=shown.when) == shown for known in record.history):
            write_study(outcome.folder, dataclasses.replace(record, history=(*record.history, shown)))
