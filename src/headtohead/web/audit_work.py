"""The audits of the page, as values for it. They run in a process beside the server, which alone imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.errors import InputError
from headtohead.run import files
from headtohead.run.store import Record
from headtohead.web.background import Hear, counted
from headtohead.web.field_text import of_field

if TYPE_CHECKING:
    from headtohead.auditor import Report, Subject
    from headtohead.spec import Part


def warm(hear: Hear) -> None:  # noqa: ARG001  (as every work)
    """Import what audits need, so that the first of them starts at once."""
    import torch

    import headtohead.auditor  # noqa: F401  (loaded once, for all audits)
    from headtohead.spec import families

    torch.set_num_threads(1)
    families()


def audit_part(text: str, causal: bool, hear: Hear) -> dict[str, Any]:
    """Audit a part by its text form, as `h2h audit` does."""
    warm(hear)
    from headtohead.auditor.stored import audit_part_once
    from headtohead.spec import Part, families, parse

    try:
        part = parse(text)
        part = parse(f"{part}()") if isinstance(part, str) else part
    except InputError as error:
        raise of_field(error) from None
    if not isinstance(part, Part) or part.family not in families():
        raise InputError(f"'{text[:80]}' is not a part of a model: choose one from the list")
    report = audit_part_once(part, causal=causal, hear=counted(hear, steps(part, causal)))
    command = f"h2h audit '{part}'" + (" --causal" if causal else "")
    return {**shown(report, model_of(part, causal)), "command": command, "family": part.family}


def audit_run(home: str, run: str, keep: bool, hear: Hear) -> dict[str, Any]:
    """Audit the model of a stored run, with its parts and sizes. `keep` writes the audit into the store."""
    warm(hear)
    from headtohead.auditor import CHECKS
    from headtohead.auditor.stored import audit_once
    from headtohead.auditor.subject import from_spec
    from headtohead.spec import Spec
    from headtohead.training.arm import is_causal

    record = Record.at(Path(home), run)
    arm = record.spec["arm"]
    model = Spec.from_json(arm["model"], record.code if record.code.is_dir() else None)
    causal = is_causal(arm, record.code if record.code.is_dir() else None)
    report = audit_once(
        model, f"run {run}", causal=causal, home=Path(home) if keep else None, hear=counted(hear, len(CHECKS))
    )
    return {**shown(report, from_spec(model, f"run {run}", causal=causal)), "command": "", "model": str(model)}


def steps(part: Part, causal: bool) -> int:
    """The number of checks in the audit of a part."""
    from headtohead.auditor import CHECKS
    from headtohead.auditor.parts import PART_CHECKS

    models = 1 if causal or part.family == "pooling" else 2
    return len(PART_CHECKS) + models * len(CHECKS)


def model_of(part: Part, causal: bool) -> Subject | None:
    """The language model that a part is audited in; None for a pooling, which only classifiers have."""
    from headtohead.auditor import as_language_model

    return None if part.family == "pooling" else as_language_model(part, causal=causal)


def shown(report: Report, subject: Subject | None) -> dict[str, Any]:
    """A report with the grid of its positions."""
    from headtohead.auditor.grid import token_grid

    grid = token_grid(subject) if subject is not None else None
    return {**report.to_json(), "summary": report.summary(), "grid": grid.to_json() if grid else None}


def audit_and_sample(home: str, study: str, arms: list[str], prompt: str, keep: bool, hear: Hear) -> dict[str, Any]:
    """Audits of the models of a study, and what they write after a prompt."""
    warm(hear)
    from headtohead.outcome.outcome import load_outcome
    from headtohead.report.models import audits_and_samples

    found = audits_and_samples(load_outcome(Path(home) / files.STUDIES / study), arms, prompt, keep=keep)
    audits, samples = [vars(audit) for audit in found.audits], [vars(sample) for sample in found.samples]
    return {"audits": audits, "samples": samples, "absent": found.absent}
