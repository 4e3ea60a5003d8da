"""`h2h report` as a stranger types it, on studies that were really trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.stores import stored
from helpers.studies import carried, study
from helpers.terminal import h2h


def test_a_head_that_no_arm_has_is_refused(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    done = h2h("report", "tiny", "--heads", "0.0,9.9")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "no arm has the head 9.9: layers are 0 to " in done.err
    assert not (home / "studies" / "tiny" / "report.html").exists()


def test_the_command_runs_end_to_end(text: Path, home: Path, tmp_path: Path):
    carried(study(text, seeds=2), home)
    done = h2h("report", "tiny", "--heads", "0.1", "--prompt", "we", "--figures", "figures", "--pdf")
    assert done.code == 0, done.err
    report = Path(re.search("report: (.*)", done.out)[1])
    assert "layer 0 head 1" in report.read_text()
    assert Path(re.search("pdf: (.*)", done.out)[1]).read_bytes().startswith(b"%PDF")
    assert (tmp_path / "figures" / "forest.pdf").is_file()
    quick = h2h("report", "tiny", "--quick", "--json").json
    assert quick["report"] == str(report)
    assert "Not audited." in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--heads", "x"], "--heads takes LAYER.HEAD"),
        (["--quick", "--heads", "0.0"], "--quick loads no model: leave out --heads"),
        (["nothing"], "no study 'nothing'"),
        (["--heads", "9.9"], "no arm has the head 9.9"),
    ],
)
def test_what_cannot_be_done_is_one_line(home: Path, arguments: list[str], says: str):
    stored(home)
    done = h2h("report", *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert says in done.err


@pytest.mark.parametrize(
    ("where", "says"), [("/proc/x", "No such file"), ("/etc/passwd", "it is a file"), ("/etc/passwd/x", "Not a dir")]
)
def test_an_unwritable_figures_folder_is_one_line(home: Path, where: str, says: str):
    stored(home)
    done = h2h("report", "--quick", "--figures", where)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert f"cannot write figures into {where}: {says}" in done.err
    assert done.err.endswith("give --figures a folder of yours\n")
    assert not list(home.glob("studies/*/report.html"))  # said before the work


def test_a_folder_named_like_the_report_is_one_line(home: Path):
    path = stored(home).folder / "report.html"
    path.mkdir()
    done = h2h("report", "--quick")
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "report.html: it is a folder; rename or remove it" in done.err
    assert not list(path.parent.glob(".*"))


def test_pdf_without_a_browser_fails_before_the_work(home: Path, monkeypatch: pytest.MonkeyPatch):
    stored(home)
    monkeypatch.setenv("PATH", "/nowhere")
    done = h2h("report", "--pdf")
    assert done.code == 3
    assert "install one" in done.err
    assert not list(home.glob("studies/*/report.html"))
