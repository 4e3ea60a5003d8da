"""Reports of audits as text."""

from __future__ import annotations

import pytest

from headtohead.auditor.report import Finding, Report, finding


def test_a_printed_report_shows_its_findings():
    broken = Finding("window", "attention sees its window", "broken", "saw <b>9</b>", "distant tokens matter")
    report = Report("Local(4)", (broken,))
    assert str(report).splitlines()[:2] == ["Local(4)", "  broken         window           attention sees its window"]
    assert "saw <b>9</b>" in str(report)
    assert "if broken: distant tokens matter" in str(report)
    assert "saw &lt;b&gt;9&lt;/b&gt;" in report._repr_html_()


@pytest.mark.parametrize("changed", [{"status": "fine"}, {"evidence": 3}, {"status": None}, {"check": ["x"]}])
def test_what_is_no_finding_is_refused(changed: dict) -> None:
    row = Finding("seed", "the same seed gives the same bits", "proved", "", "").to_json()
    assert finding(row).status == "proved"
    with pytest.raises(ValueError, match="no finding"):
        finding(row | changed)
