"""The ledger as the page shows it."""

from __future__ import annotations

from typing import Any

from headtohead.display.claims import Shown
from headtohead.web.ledger import page


def finding(word: str, metric: str, numbers: dict[str, Any] | None) -> dict[str, Any]:
    texts = {"says": "A against B", "word": word, "effect": "−0.1", "design": "", "study": "s", "metric": metric}
    return {**texts, "numbers": numbers, "runs": ["r"]}


def found() -> Shown:
    numbers = {"difference": -0.1, "low": -0.2, "high": -0.05, "margin": None, "pairs": 10, "p": 0.01}
    findings = [finding("holds", "test/loss", numbers), finding("does not hold", "filling/after", numbers)]
    findings += [finding("unresolved", "test/accuracy", numbers), finding("does not hold", "", None)]
    claim = {"id": "001.2", "claim": "A beats B", "verdict": "holds", "findings": findings, "deciding": 2}
    figures = [{"figure": "doc001.decoder.w_bush", "published": 2.0}, {"figure": "doc002.rate", "published": 1.0}]
    return {
        "json": {"claims": [claim], "untested": ["002.1"], "figures": figures},
        "legend": "One run.",
        "sections": [{"title": "001: A report", "tables": [], "notes": ["[1] why"], "claims": []}],
        "lines": ["Of 2 claims 1 holds.", "not yet: x"],
        "missing": ["x"],
        "damaged": [],
    }


def test_findings_say_how_they_are_drawn():
    (claim,) = page(found())["claims"]
    loss, odd, share, audit = claim["findings"]
    assert claim["report"] == "001"
    assert (loss["decides"], loss["drawn"], loss["scale"], loss["unit"]) == (True, "better", 1, "nats")
    assert (odd["decides"], odd["drawn"], odd["unit"]) == (True, "worse", "")
    assert (share["decides"], share["drawn"], share["scale"], share["unit"]) == (False, "unresolved", 100, "points")
    assert audit["numbers"] is None


def test_figures_belong_to_their_report():
    made = page(found())
    (report,) = made["reports"]
    assert (report["number"], report["title"]) == ("001", "A report")
    assert [figure["name"] for figure in report["figures"]] == ["decoder, w bush"]
    assert made["lines"] == ["Of 2 claims 1 holds."]
