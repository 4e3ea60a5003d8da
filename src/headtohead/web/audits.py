"""The page of audits: parts, models of stored runs and, where the user has allowed it, pasted modules."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from typing import Any

from starlette.routing import Route

from headtohead.display.catalogue import catalogue
from headtohead.errors import InputError
from headtohead.outcome.outcome import load_outcome
from headtohead.run import files
from headtohead.run.store import Record
from headtohead.web import audit_work
from headtohead.web.answers import answered
from headtohead.web.background import Tasks
from headtohead.web.bench import ALLOW, Bench, NotFound
from headtohead.web.field_text import without_empty_knobs
from headtohead.web.modules import ModuleAudit, module_audit

FAMILIES = ("position", "pattern", "fusion", "norm", "residual", "feedforward", "pooling")
RUN = re.compile(r"[0-9a-f]{16}")
MOST_TEXT = 300  # characters of a part


def routes(bench: Bench) -> list[Route]:
    worker, tasks, modules = bench.worker, Tasks(), Modules()

    def parts() -> dict[str, Any]:
        tasks.ask("warm", lambda hear: worker.run(audit_work.warm, hear=hear))
        return {"families": families(), "allow_code": bench.allow_code, "read_only": bench.access.read_only}

    def audit(part: str = "", causal: bool = False, run: str = "") -> dict[str, Any]:
        if bool(part) == bool(run):
            raise InputError("give a part or a run, and not both")
        if part:
            given = (part_text(part), causal)
            return tasks.ask(f"part {given}", lambda hear: worker.run(audit_work.audit_part, *given, hear=hear))
        known = run_with_model(bench, run)
        wanted = str(bench.home), known, not bench.access.read_only
        return tasks.ask(f"run {known}", lambda hear: worker.run(audit_work.audit_run, *wanted, hear=hear))

    def arms(study: str) -> dict[str, Any]:
        outcome = load_outcome(bench.study_folder(study))
        first = outcome.titles[0]
        found = {arm: rows for (title, arm), rows in outcome.rows.items() if title == first}
        return {"arms": [{"arm": arm, "run": rows[0].run} for arm, rows in found.items() if rows]}

    def module(
        source: str,
        name: str = "",
        causal: bool = False,
        relative: bool = False,
        window: int | None = None,
        vocab: int | None = None,
        block: int | None = None,
        pad: int | None = None,
    ) -> dict[str, Any]:
        if not bench.allow_code:
            raise InputError(f"this server executes no pasted code: start it with {ALLOW}")
        claims = {"causal": causal, "relative": relative, "window": window, "vocab": vocab, "block": block, "pad": pad}
        return {"id": modules.start(module_audit(source, name, claims))}

    def module_running() -> dict[str, Any]:
        return {"id": modules.running}

    def module_state(id: str) -> dict[str, Any]:
        return modules.state(id)

    def module_stop(id: str) -> dict[str, Any]:
        modules.find(id).stop()
        return {}

    return [
        Route("/api/audit", answered(audit)),
        Route("/api/audit/parts", answered(parts)),
        Route("/api/audit/arms", answered(arms)),
        Route("/api/audit/module", answered(module), methods=["POST"]),
        Route("/api/audit/module/running", answered(module_running)),
        Route("/api/audit/module/state", answered(module_state)),
        Route("/api/audit/module/stop", answered(module_stop), methods=["POST"]),
    ]


def families() -> list[dict[str, Any]]:
    """The families of a model's parts, each part with its equation and knobs. Imports no torch."""
    found: dict[str, list[dict[str, Any]]] = {family: [] for family in FAMILIES}
    for entry in catalogue().parts:
        if entry.family in found:
            found[entry.family].append(entry.to_json())
    return [{"family": family, "parts": parts} for family, parts in found.items() if parts]


def part_text(text: str) -> str:
    """The text form of a built-in part. A form that would load a file is refused."""
    text = without_empty_knobs(text.strip())
    if len(text) > MOST_TEXT:
        raise InputError(f"the part is longer than {MOST_TEXT} characters: choose one from the list")
    if ".py" in text:
        raise InputError("files are not loaded from here: paste the class under 'a module of yours', or use h2h audit")
    return text


def run_with_model(bench: Bench, run: str) -> str:
    """The id of a stored run whose model can be built without code that the user has not approved."""
    if not RUN.fullmatch(run) or not (bench.home / files.RUNS / run / files.RUN).is_file():
        raise NotFound(f"there is no run '{run[:40]}' in {bench.home}: choose a study and an arm")
    record = Record.at(bench.home, run)
    if not isinstance(record.spec.get("arm"), dict) or "model" not in record.spec["arm"]:
        raise InputError(f"run {run} has no readable run.json: check it with h2h verify {run}")
    bench.check_code(record)
    return run


class Modules:
    """The audits of pasted modules, one at a time."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._audits: OrderedDict[str, ModuleAudit] = OrderedDict()
        self._one = threading.Lock()
        self.running = ""  # its id: a page that was loaded again can follow it, and stop it

    def start(self, audit: ModuleAudit) -> str:
        if not self._one.acquire(blocking=False):
            raise InputError("another module is being audited: wait for it, or stop it")
        id = self.running = secrets.token_hex(6)
        self._audits[id] = audit
        while len(self._audits) > self._tasks.kept:
            self._audits.popitem(last=False)

        def work(hear: Any) -> Any:
            try:
                return audit.run(hear)
            finally:
                self.running = ""
                self._one.release()

        self._tasks.ask(id, work)
        return id

    def find(self, id: str) -> ModuleAudit:
        if id not in self._audits:
            raise NotFound("there is no such audit: paste the module again")
        return self._audits[id]

    def state(self, id: str) -> dict[str, Any]:
        self.find(id)
        return self._tasks.state(id)
