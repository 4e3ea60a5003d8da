"""On paper and in a paper: the PDF by a real browser, figures and tables for TeX."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from headtohead.errors import Unavailable
from headtohead.report import printed
from headtohead.report.page import write_report
from headtohead.run import store
from helpers.stores import stored


@pytest.mark.usefixtures("chromium")
def test_the_page_is_written_as_pdf(home: Path):
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


def test_a_browser_that_writes_nothing_is_one_line(home: Path):
    with pytest.raises(Unavailable, match="made no PDF"):
        printed.write_pdf(write_report(stored(home)), "/bin/false")
    with pytest.raises(Unavailable, match="made no PDF"):
        printed.write_pdf(write_report(stored(home)), "/no/such/browser")


def test_figures_for_tex_embed_their_fonts(home: Path, tmp_path: Path):
    outcome = stored(home, {"a_b 中": -0.3})
    written = printed.write_figures(outcome, tmp_path / "figures")
    names = [f"{name}.{kind}" for name in ("forest", "curves", "cost") for kind in ("pdf", "png")]
    assert [p.name for p in written] == [*names, "table.tex", "figures.tex"]
    for path in written[:6:2]:
        data = path.read_bytes()
        assert data.startswith(b"%PDF-")
        assert b"/FontFile2" in data  # TrueType, embedded
        assert b"/Type3" not in data
    text = written[-1].read_text()
    for name in ("forest.pdf", "curves.pdf", "cost.pdf", "\\input{table}"):
        assert name in text
    assert "a\\_b" in written[6].read_text()
    assert "\\caption{validation/loss during training" in text  # what is plotted, not what is judged


def test_figures_as_png_are_opaque_and_wide_enough(home: Path, tmp_path: Path):
    written = printed.write_figures(stored(home), tmp_path)
    for path in [p for p in written if p.suffix == ".png"]:
        with Image.open(path) as image:
            pixels = image.convert("RGBA")
        assert pixels.width >= 1500
        assert pixels.getpixel((0, 0)) == (255, 255, 255, 255)
        assert len(pixels.getcolors(maxcolors=1 << 20)) > 10, "something is drawn"


def test_captions_state_what_is_cut_and_missing(home: Path, tmp_path: Path):
    lost = {("Gone", seed): "diverged" for seed in range(6)}
    written = printed.write_figures(stored(home, {"Rope": -0.01, "Boom": 1e5, "Gone": 0.0}, lost=lost), tmp_path)
    captions = [line for line in written[-1].read_text().splitlines() if line.startswith("\\caption")]
    assert len(captions) == 3
    assert all("Beyond the edge, where arrows point: Boom" in line for line in captions)
    assert all("Gone, of which all 6 runs diverged" in line for line in captions[1:])


def test_a_folder_not_ours_has_its_own_remedy(tmp_path: Path):
    with pytest.raises(Unavailable, match="choose a folder of yours"):
        store.write_whole(Path("/proc/x/y"), "")
    (tmp_path / "there").mkdir()
    with pytest.raises(Unavailable, match="there: it is a folder; rename or remove it"):
        store.write_whole(tmp_path / "there", "")
