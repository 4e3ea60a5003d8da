"""The ledger: published claims with their verdicts, and published figures beside measured ones.

Judging all stored results takes seconds and torch. It is done in a process beside the server, once: the value is kept
in the cache until a recipe, a stored result or this program changes.
"""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from headtohead.display.claims import Shown, judged, stored_digest
from headtohead.outcome.metrics import UNITS
from headtohead.report.number_text import is_share
from headtohead.run.derived import derived
from headtohead.web.answers import answered
from headtohead.web.background import Hear, Tasks, Worker, counted
from headtohead.web.bench import Bench

EVERY = "all"
CASES = {"holds": "better", "does not hold": "worse", "unresolved": "unresolved"}  # how each word is drawn


def routes(bench: Bench) -> list[Route]:  # noqa: ARG001  (as every page)
    worker, tasks = Worker(), Tasks()

    def work(hear: Hear) -> dict[str, Any]:
        try:
            return worker.run(judge, hear=hear)
        finally:
            worker.close()

    def ledger() -> dict[str, Any]:
        return tasks.ask("ledger", work)

    return [Route("/api/ledger", answered(ledger))]


def judge(hear: Hear) -> dict[str, Any]:
    """The ledger as the page shows it, from the cache or computed now."""

    def compute() -> Shown:
        from headtohead.claims import workflow

        return workflow.judge_stored(EVERY, counted(hear, len(workflow.asked(EVERY))))

    hear({"now": "reading the stored results"})
    found: dict[str, Any] = derived("ledger", stored_digest(EVERY), lambda: page(judged(EVERY, compute)))
    return found


def page(found: Shown) -> dict[str, Any]:
    values = found["json"]
    return {
        "claims": [{**claim, "report": claim["id"][:3], "findings": _drawn(claim)} for claim in values["claims"]],
        "untested": values["untested"],
        "reports": [_report(section, values["figures"]) for section in found["sections"]],
        "legend": found["legend"],
        "lines": [line for line in found["lines"] if not line.startswith("not yet: ")],
        "missing": found["missing"],
    }


def _drawn(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of a claim, with what a picture of their intervals needs."""
    made = []
    for number, finding in enumerate(claim["findings"]):
        metric = finding["metric"]
        share = bool(metric) and is_share(metric)
        made.append(
            {
                **finding,
                "decides": number < claim["deciding"],
                "drawn": CASES[finding["word"]],
                "scale": 100 if share else 1,
                "unit": "points" if share else UNITS.get(metric.rpartition("/")[2], ""),
            }
        )
    return made


def _report(section: Any, figures: list[dict[str, Any]]) -> dict[str, Any]:
    number, _, title = section["title"].partition(": ")
    own = [{**row, "name": _name(row["figure"])} for row in figures if row["figure"][3:6] == number]
    return {"number": number, "title": title, "tables": section["tables"], "notes": section["notes"], "figures": own}


def _name(figure: str) -> str:
    """decoder, obama from doc000.decoder.obama."""
    return figure.partition(".")[2].replace(".", ", ").replace("_", " ")
