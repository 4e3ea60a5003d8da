"""A study from its question to its report. `h2h run`, `Study.run()` and the web page all call `run_study`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from headtohead.auditor.stored import audit_once
from headtohead.errors import InputError, failure
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.report.models import audits_of
from headtohead.report.page import write_report, written_report
from headtohead.run import store
from headtohead.run.events import Analysed, AuditProgress, Finished, Note, ShownWarnings, Stage, Started
from headtohead.run.executors.execution import Execution
from headtohead.run.progress import ProgressFile
from headtohead.study.analyses import note_analysis
from headtohead.study.execution import StudyEvent, StudyTrained, folder_of, train_study
from headtohead.study.plan import compare_with_plan
from headtohead.study.study import Study

WorkflowEvent: TypeAlias = StudyEvent | AuditProgress | Note
Listener = Callable[[WorkflowEvent], object]


class StudyStopped(KeyboardInterrupt):
    """The user stopped the study. Everything is saved, and the same call continues."""


def run_study(
    study: Study,
    execution: Execution | None = None,
    *,
    home: Path | None = None,
    listen: Listener = lambda _: None,
) -> Outcome:
    """Audit every arm's model, train the runs that the store lacks, judge, and write the report.

    `listen` is called with every event as it happens. Raises StudyStopped when the user stops it, and InputError when
    no run could be completed.
    """
    home, how, started = home or store.home(), (execution or Execution()).checked(), time.monotonic()
    progress = ProgressFile(folder_of(study, home))

    def hear(event: WorkflowEvent) -> None:
        progress.hear(event)
        listen(event)

    try:
        audit_models(study, home, hear)
        outcome, trained = train_and_load(study, how, home, hear)
    finally:
        progress.close()
    _check_completed(outcome)
    write_report(outcome, audits_of(outcome)) if trained else written_report(outcome)
    for line in compare_with_plan(outcome.folder, (time.monotonic() - started) / 60, trained):
        listen(Note(line))
    return outcome


def train_and_load(study: Study, execution: Execution, home: Path, listen: Listener) -> tuple[Outcome, int]:
    """Train what the store lacks. Returns the outcome and the number of runs that were trained."""
    folder, trained, warned = None, set[str](), StudyWarnings()
    for event in train_study(study, execution, home=home):
        listen(event)
        for line in warned.lines(event):
            listen(Note(f"warning: {line}"))
        if isinstance(event, Started):
            trained.add(event.id)
        elif isinstance(event, Analysed):
            note_analysis(event)
        elif isinstance(event, StudyTrained):
            folder = event.folder
    if folder is None:
        raise StudyStopped
    return load_outcome(folder), len(trained)


@dataclass
class StudyWarnings:
    """The warnings of a study's runs: those about the data once, those about an arm once for all its seeds."""

    shown: ShownWarnings = field(default_factory=ShownWarnings)
    about_data: list[str] = field(default_factory=list)
    arms: dict[str, str] = field(default_factory=dict)  # by run

    def lines(self, event: StudyEvent) -> list[str]:
        """The warnings of an event that were not shown yet. A stored run has those of its result."""
        if isinstance(event, Stage):
            self.about_data, self.arms = event.warnings, {cell.id: cell.variant for cell in event.cells}
            return self.shown.new(event.warnings)
        if isinstance(event, Started):
            found = event.arm_warnings
        elif isinstance(event, Finished) and event.already:
            found = _stored_warnings(event)
        else:
            return []
        arm = self.arms.get(event.id, "")
        new = self.shown.new((warning for warning in found if warning not in self.about_data), arm)
        return [f"{arm}: {warning}" for warning in new]


def _stored_warnings(event: Finished) -> list[str]:
    try:
        return event.record.result.warnings if event.record.result else []
    except InputError:  # a damaged result: the table of verdicts reports it
        return []


def audit_models(study: Study, home: Path, listen: Listener) -> None:
    """Audit each model of the study once. A failed check is a warning: the user may want to measure its effect."""
    import torch

    torch.set_num_threads(1)  # many small operations
    by_model = {variant.arm.model.id: variant for variant in reversed(study.variants)}  # the first name of each
    for done, variant in enumerate(reversed(by_model.values()), start=1):
        try:
            report = audit_once(variant.arm.model, variant.name, causal=variant.arm.is_causal, home=home)
        except Exception as error:  # a part that cannot be built: its runs fail with the reason, the others continue
            listen(Note(f"warning: {variant.name} cannot be audited: {failure(error).splitlines()[0]}"))
        else:
            if report.broken:
                first, *more = report.broken
                rest = f", and {len(more)} more" if more else ""
                listen(
                    Note(
                        f"warning: the audit of {variant.name} finds {first.check} broken{rest}: {first.evidence}; "
                        f"{first.meaning}"
                    )
                )
        listen(AuditProgress(done / len(by_model)))


def _check_completed(outcome: Outcome) -> None:
    """Refuse an outcome without a single run to show."""
    if not any(row.status in ("complete", "diverged", "collapsed") for row in outcome.all_rows):
        raise InputError(f"no run of the study was completed: {outcome.all_rows[0].why}")
