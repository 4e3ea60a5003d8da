"""A page is written again when something it tells of has changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.report.page import page, write_report
from headtohead.report.up_to_date import digest, is_current
from headtohead.run.studies import read_study
from helpers.runs import without_checksums
from helpers.stores import stored
from helpers.studies import carried, study
from helpers.terminal import h2h

QUICK = {"quick": True}


@pytest.fixture
def outcome(home: Path) -> Outcome:
    return stored(home, seeds=3)


def reported(*options: str) -> bool:
    """Whether `h2h report` wrote the page."""
    done = h2h("report", *options, "--json")
    assert done.code == 0, done.err
    written = done.json["written"]
    assert ("the report is up to date; --again writes it again" in done.err) is not written
    return written


def test_a_page_is_written_once_for_the_same_options(outcome: Outcome) -> None:
    path = outcome.folder / "report.html"
    assert reported("--quick")
    before = path.read_bytes(), path.stat().st_ino
    assert not reported("--quick")
    assert not reported("stored", "--quick")
    assert (path.read_bytes(), path.stat().st_ino) == before
    assert reported("--quick", "--again")
    assert reported()  # with what is in the models
    assert not reported()
    assert reported("--prompt", "We")
    assert not reported("--prompt", "We")
    assert reported("--quick")


def first_run(outcome: Outcome) -> Path:
    return outcome.home / "runs" / outcome.record.runs[0]


def longer(outcome: Outcome) -> None:
    with open(first_run(outcome) / "metrics.jsonl", "a") as file:
        file.write('{"step": 99, "validation/loss": 1.0}\n')


def same_size(outcome: Outcome) -> None:
    path = first_run(outcome) / "result.json"
    path.write_text(path.read_text().replace("2", "3"))


def older(outcome: Outcome) -> None:
    os.utime(first_run(outcome) / "result.json", (1, 1))  # as a copy that keeps its times


def less(outcome: Outcome) -> None:
    (first_run(outcome) / "env.json").unlink()


def more(outcome: Outcome) -> None:
    (first_run(outcome) / "snapshots").mkdir()
    (first_run(outcome) / "snapshots" / "1.safetensors").touch()


def asked_otherwise(outcome: Outcome) -> None:
    path = outcome.folder / "study.json"
    path.write_text(path.read_text().replace("Does it matter?", "Does it?"))


@pytest.mark.parametrize("change", [longer, same_size, older, less, more, asked_otherwise])
def test_a_page_is_not_current_after_a_change(outcome: Outcome, change) -> None:
    path = write_report(outcome, made_of=digest(outcome, QUICK))
    assert is_current(path, digest(load_outcome(outcome.folder), QUICK))
    change(outcome)
    assert not is_current(path, digest(load_outcome(outcome.folder), QUICK))


def test_reading_the_state_of_a_run_changes_nothing(outcome: Outcome) -> None:
    path = write_report(outcome, made_of=digest(outcome, QUICK))
    assert h2h("list", "runs").code == 0
    (first_run(outcome) / "LOCK").touch()
    assert is_current(path, digest(load_outcome(outcome.folder), QUICK))


def test_a_study_with_an_unfinished_run_has_no_digest(home: Path) -> None:
    assert digest(stored(home, lost={("Rope", 0): "missing"}), QUICK) == ""
    assert reported("--quick")
    assert reported("--quick")


@pytest.mark.parametrize("content", ["", "<html>", '<meta name="made-of" content="">', "\x00" * 5000])
def test_a_page_without_a_digest_is_not_current(tmp_path: Path, content: str) -> None:
    path = tmp_path / "report.html"
    assert not is_current(path, "a" * 64)
    path.write_text(content)
    assert not is_current(path, "a" * 64)
    assert not is_current(path, "")
    assert not is_current(tmp_path, "a" * 64)


def test_the_digest_is_hidden_in_the_page(outcome: Outcome) -> None:
    assert '<meta name="made-of" content="abc">' in page(outcome, made_of="abc")
    assert "made-of" not in page(outcome)


def test_report_rewrites_the_page_that_run_wrote(text: Path, home: Path) -> None:
    carried(study(text, seeds=2), home)
    (folder,) = (home / "studies").iterdir()
    write_report(load_outcome(folder))  # as `h2h run` does at its end
    assert reported("tiny")
    assert not reported("tiny")


def test_an_incomplete_page_is_written_again(text: Path, home: Path) -> None:
    carried(study(text, seeds=2), home)
    (folder,) = (home / "studies").iterdir()
    run = read_study(folder).runs[0]
    weights = home / "runs" / run / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-9])
    assert reported("tiny")
    assert not reported("tiny")  # the page says that the run is damaged
    weights.write_bytes(whole)
    assert reported("tiny")
    assert not reported("tiny")
    without_checksums(home / "runs" / run)
    weights.write_bytes(whole[:-9])
    assert reported("tiny")
    assert reported("tiny")  # the weights cannot be read: another try may find them whole
    weights.write_bytes(whole)
    assert reported("tiny")
    assert not reported("tiny")


def test_a_changed_part_of_the_user_makes_a_new_page(text: Path, home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from headtohead import Rope\n\n\nclass Twist(Rope):\n    '''Twisted.'''\n")
    carried(study(text, vary={"model.position": ["Learned", f"{mine}:Twist"]}, seeds=2), home)
    (folder,) = (home / "studies").iterdir()
    before = digest(load_outcome(folder), QUICK)
    assert digest(load_outcome(folder), QUICK) == before
    mine.write_text(mine.read_text() + "# changed\n")
    changed = digest(load_outcome(folder), QUICK)
    mine.unlink()
    assert len({before, changed, digest(load_outcome(folder), QUICK)}) == 3
