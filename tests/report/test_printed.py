"""On paper and in a paper: the PDF by a real browser, figures and tables for TeX."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headtohead.errors import Unavailable
from headtohead.report import printed
from headtohead.report.page import write_report
from report.stored import stored


@pytest.mark.usefixtures("chromium")
def test_the_page_as_pdf(home: Path):
    path = printed.write_pdf(write_report(stored(home)))
    data = path.read_bytes()
    assert path.name == "report.pdf"
    assert data.startswith(b"%PDF-")
    assert data.rstrip().endswith(b"%%EOF")
    assert 2 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") + data.count(b"/Type/Page") <= 20


def test_no_browser_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Unavailable, match=r"--pdf needs Chromium or Chrome .*: install one"):
        printed.browser()


def test_a_browser_that_makes_nothing_is_one_line(home: Path):
    with pytest.raises(Unavailable, match="made no PDF"):
        printed.write_pdf(write_report(stored(home)), "/bin/false")
    with pytest.raises(Unavailable, match="made no PDF"):
        printed.write_pdf(write_report(stored(home)), "/no/such/browser")


def test_figures_for_tex_have_their_fonts_in_them(home: Path, tmp_path: Path):
    outcome = stored(home, {"a_b 中": -0.3})
    written = printed.write_figures(outcome, tmp_path / "figures")
    assert [p.name for p in written] == ["forest.pdf", "curves.pdf", "cost.pdf", "table.tex", "figures.tex"]
    for path in written[:3]:
        data = path.read_bytes()
        assert data.startswith(b"%PDF-")
        assert b"/FontFile2" in data  # TrueType, embedded
        assert b"/Type3" not in data
    text = written[-1].read_text()
    for name in ("forest.pdf", "curves.pdf", "cost.pdf", "\\input{table}"):
        assert name in text
    assert "a\\_b" in written[3].read_text()
