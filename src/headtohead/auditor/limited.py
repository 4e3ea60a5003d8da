"""Audits of code that may not end, or do harm: each in a process of its own, with limits."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headtohead.auditor import Claims, audit_named, names_of_checks
from headtohead.auditor.report import Finding, Report, finding
from headtohead.errors import InputError, describe
from headtohead.sandbox import Ended, Limits, Nursery
from headtohead.sandbox.batch import harmless, in_order
from headtohead.sandbox.channel import Channel

MEANING = "the module cannot be used in training, and a batch of audits must not wait for it"
IMPORTS = ("headtohead.auditor.limited", "headtohead.parts", "headtohead.model.transformer")


def audit_limited(what: str, claims: Claims, limits: Limits, nursery: Nursery | None = None) -> list[Report]:
    """Audit what `audit_named` takes, in a process with limits. A module that does not end, or that ends its process,
    breaks the claim that it ends."""
    if nursery is None:
        with Nursery(IMPORTS) as made:
            return audit_limited(what, claims, limits, made)
    file = Path(what.partition(".py:")[0] + ".py") if ".py:" in what else Path(what)
    readable = [file.resolve().parent if file.is_file() else file.resolve()] if file.exists() else []
    now = ""
    request = {"what": str(file.resolve()) + what[len(str(file)) :] if readable else what, "claims": asdict(claims)}
    with (
        tempfile.TemporaryDirectory(prefix="h2h-audit-") as folder,
        nursery.work("headtohead.auditor.limited:work", Path(folder), limits, readable) as running,
    ):
        running.send(request)
        try:
            while True:
                said, _ = running.hear()
                if "reports" in said:
                    return [_report(one) for one in said["reports"]]
                now = str(said["now"])
        except Ended as ended:
            if ended.why == "error":
                raise InputError(str(ended).replace(str(request["what"]), what)) from None
            evidence = f"{now}: {ended}" if now else str(ended)
        except InputError:
            raise
        except Exception:  # foreign code may answer anything
            evidence = "it wrote into the audit's own messages"
    return [Report(what, (Finding("ends", "it ends within the limits", "broken", evidence, MEANING),))]


def _report(value: dict[str, Any]) -> Report:
    return Report(str(value["subject"]), tuple(finding(row) for row in value["findings"]))


def work(channel: Channel) -> None:
    """What the process with limits does: audit, and tell which check runs."""
    request, _ = channel.receive()
    given = request["claims"]
    claims = Claims(**{**given, "only": tuple(given["only"]), "skip": tuple(given["skip"])})
    reports = audit_named(request["what"], claims, lambda name: channel.send({"now": name}))
    channel.send({"reports": [report.to_json() for report in reports]})


@dataclass(frozen=True)
class Entry:
    """The audit of one submission: a report, or why there is none."""

    name: str
    report: Report | None
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.report is not None and self.report.ok

    def to_json(self) -> dict[str, Any]:
        found = self.report.to_json() if self.report else {"subject": self.name, "ok": False, "findings": []}
        return {"submission": self.name, **found, "error": self.error}


def submissions(folder: Path, each: str) -> list[tuple[str, str]]:
    """Return the name of each submission in a folder and what is audited of it.

    With `model.py:GPT`, a submission is a folder that has model.py; with `GPT`, it is a file."""
    file, _, name = each.rpartition(":")
    if not name.isidentifier() or (file and not file.endswith(".py")):
        raise InputError(f"--each {each}: give FILE.py:CLASS if each submission is a folder, CLASS if it is a file")
    if file:
        return [(one.name, f"{one / file}:{name}") for one in sorted(folder.iterdir()) if one.is_dir()]
    return [(one.name, f"{one}:{name}") for one in sorted(folder.glob("*.py"))]


def audit_folder(todo: Sequence[tuple[str, str]], claims: Claims, limits: Limits, jobs: int = 1) -> Iterator[Entry]:
    """Audit many submissions, some at the same time, and yield each when it is done, in order."""

    def run(entry: tuple[str, str], nursery: Nursery) -> Entry:
        name, what = entry
        try:
            return Entry(name, audit_limited(what, claims, limits, nursery)[0])
        except InputError as error:
            return Entry(name, None, str(error))
        except OSError as error:
            return Entry(name, None, describe(error))

    return in_order(todo, run, IMPORTS, jobs)


def as_csv(entries: Iterable[Entry]) -> str:
    """One line per submission: counts, the error, and the status of every check."""
    names = ["ends", *names_of_checks()]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["submission", "ok", "proved", "broken", "advice", "error", *names])
    for entry in entries:
        findings = entry.report.findings if entry.report else ()
        status = {f.check: f.status for f in findings}
        counts = [sum(s == kind for s in status.values()) for kind in ("proved", "broken", "advice")]
        row = [entry.name, "yes" if entry.ok else "no", *counts, entry.error, *(status.get(n, "") for n in names)]
        writer.writerow([harmless(str(cell)) for cell in row])
    return out.getvalue()
