"""An exception inside the user's own part shows its file and line in two lines, wherever the run was trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.run.events import Failed
from helpers.runs import SMALL_OPTIONS
from helpers.studies import carried, study
from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("home")

PART = '''"""Parts that fail."""

import torch
from headtohead import Position, PositionHooks


class Mishap(Exception):
    def __init__(self, one, two):  # it does not survive pickling
        super().__init__(f"{one} and {two}")


class Bad(Position):
    """Fails in bias."""

    def build(self, dims):
        return BadHooks()


class BadHooks(PositionHooks):
    def bias(self, q, k, i, j):
        zero = 0
        return 1 / zero


class Odd(Position):
    """Fails while it is built, with a class of its own."""

    def build(self, dims):
        raise Mishap("one", "two")


class Wide(Position):
    """Returns a bias of a wrong shape: the failing line is not in this file."""

    def build(self, dims):
        return WideHooks()


class WideHooks(PositionHooks):
    def bias(self, q, k, i, j):
        return torch.zeros(1, 1, 3, 5)
'''
WHERE = {
    "Bad": "bad.py:22: ZeroDivisionError: division by zero\n    return 1 / zero",
    "Odd": 'bad.py:29: Mishap: one and two\n    raise Mishap("one", "two")',
}


@pytest.fixture(autouse=True)
def part(tmp_path: Path) -> Path:
    (tmp_path / "bad.py").write_text(PART)
    return tmp_path / "bad.py"


@pytest.mark.parametrize("which", ["Bad", "Odd"])
@pytest.mark.parametrize("seeds", [1, 2], ids=["here", "in workers"])
def test_train_shows_the_failing_line(text: Path, which: str, seeds: int):
    chosen = ["--set", f"model.position=bad.py:{which}", "--steps", 3, "--seeds", seeds, "--jobs", 2]
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, *chosen)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"h2h: {WHERE[which]}\n"


def test_train_shows_where_a_wrong_shape_is_used(text: Path):
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--set", "model.position=bad.py:Wide", "--steps", 3)
    assert done.code == 2
    first, second = done.err.splitlines()
    assert first.startswith("h2h: headtohead/parts/mixers/attention.py:")
    assert "RuntimeError: " in first
    assert second.startswith("    ")


def test_other_commands_show_the_failing_line():
    done = h2h("list", "parameters", "--set", "model.position=bad.py:Odd", "--vocab", 50)
    assert (done.code, done.err) == (2, f"h2h: {WHERE['Odd']}\n")


def test_edited_file_shows_the_line_that_was_loaded(part: Path):
    from headtohead.errors import failure
    from headtohead.spec import Dims, parse

    loaded = parse("bad.py:Odd")
    part.write_text("# edited\n" * 40)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        loaded.build(Dims(8, 2, 4, 1, 16))
    assert failure(caught.value) == WHERE["Odd"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_study_notes_the_failing_line(text: Path, home: Path, jobs: int):
    made = study(text, vary={"model.position": ["Learned", "bad.py:Bad", "bad.py:Odd"]}, seeds=2)
    reasons = {event.reason for event in carried(made, home, jobs=jobs) if isinstance(event, Failed)}
    assert reasons == set(WHERE.values())
    assert {e.why for row in made.outcome(home).verdicts for e in row.excluded} == set(WHERE.values())


def test_run_shows_the_failing_line_on_screen_and_page(text: Path, home: Path):
    data = ["--data", text, "--set", "train.steps=4", *SMALL_OPTIONS]
    given = ["run", "lm", *data, "--vary", "model.position=Learned,bad.py:Bad,bad.py:Odd", "--seeds", 2]
    done = h2h(*given)
    assert done.code == 1
    assert f"pairs left out, seeds 0, 1: Bad: {WHERE['Bad']}\n" in done.out
    assert "it raised bad.py:22: ZeroDivisionError: division by zero;" in done.err
    assert "warning: Odd cannot be audited: bad.py:29: Mishap: one and two\n" in done.err
    report = next((home / "studies").glob("*/report.html")).read_text()
    assert "bad.py:22: ZeroDivisionError: division by zero" in report
    assert "<code>return 1 / zero</code>" in report
    row, _ = h2h(*given, "--json").json["tables"][0]["arms"]
    assert row["excluded"][0]["why"] == WHERE["Bad"]


def test_failed_run_keeps_the_failing_line(text: Path, home: Path):
    carried(study(text, vary={"model.position": ["Learned", "bad.py:Bad"]}, seeds=2), home)
    reasons = {json.loads(f.read_text())["reason"] for f in (home / "runs").glob("*/failed.json")}
    assert reasons == {WHERE["Bad"]}


@pytest.mark.filterwarnings("ignore")  # Ray closes its sockets and files when the process ends
def test_study_on_ray_notes_the_failing_line(text: Path, home: Path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'headtohead[ray]'")
    made = study(text, vary={"model.position": ["Learned", "bad.py:Bad", "bad.py:Odd"]}, seeds=2)
    reasons = {event.reason for event in carried(made, home, jobs=2, on="ray") if isinstance(event, Failed)}
    assert reasons == set(WHERE.values())
