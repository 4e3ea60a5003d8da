"""h2h trust, and the commands that need the code of a run: refused, asked and approved."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import headtohead as h2h_module
from headtohead import load_file
from headtohead.cli import approving
from headtohead.spec import trust
from helpers.corpora import write_text
from helpers.registry import forgotten
from helpers.runs import SMALL_OPTIONS
from helpers.studies import carried, study
from helpers.terminal import Done, Type, h2h, is_one_line

SLOW = """
from headtohead import Rope

class Slow(Rope):
    def build(self, dims):
        return super().build(dims)
"""
TRAIN = ["train", "lm", *SMALL_OPTIONS, "--steps", "2", "--data", "mine.txt"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that somebody else trained: a study of a part of their own, and a run that was stopped."""
    folder = tmp_path_factory.mktemp("shared")
    text = write_text(folder)
    (folder / "slow.py").write_text(SLOW)
    with pytest.MonkeyPatch.context() as patch, forgotten():
        patch.chdir(folder)
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        patch.setenv("HEADTOHEAD_TRUST", str(folder / "theirs.json"))
        own = load_file("slow.py").Slow()
        carried(study(text, vary={"model.position": ["Learned", own]}, seeds=2), folder / "home")
    (folder / "slow.py").unlink()
    return folder


@pytest.fixture
def store(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of their store, for a user who has approved nothing."""
    shutil.copytree(shared / "home", tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(shared / "cache"))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    return tmp_path / "home"


def of_slow(store: Path) -> str:
    record = json.loads((store / "studies" / "tiny" / "study.json").read_text())
    return str(record["tables"][0]["arms"][1]["runs"]["0"])


NEED_CODE: dict[str, list[str]] = {
    "score": ["score", "RUN", "we the people"],
    "classify": ["classify", "RUN", "we the people"],
    "generate": ["generate", "RUN", "we", "--tokens", "3"],
    "attend": ["attend", "RUN", "we the people"],
    "compare": ["attend", "tiny/Learned", "we the people", "--compare", "RUN"],
    "heads": ["heads", "RUN", "--items", "4"],
    "export": ["export", "RUN", "exported"],
    "resume": ["train", "--resume", "RUN"],
    "parameters": ["list", "parameters", "RUN"],
}


@pytest.mark.parametrize("command", NEED_CODE)
def test_code_of_others_is_refused_and_runs_with_trust(command: str, store: Path, type_in: Type) -> None:
    run = of_slow(store)
    typed = [run if word == "RUN" else word for word in NEED_CODE[command]]
    with forgotten():
        done = type_in(*typed)
        is_one_line(done, f"h2h trust {run}", code=3)
        assert "Slow of slow.py" in done.err
        assert trust.approvals() == {}
        trusted = type_in(*typed, "--trust")
    if command == "classify":
        is_one_line(trusted, "use h2h score")
    else:
        assert trusted.code == 0, trusted.err
    (entry,) = trust.approvals().values()
    assert (entry.name, entry.folder) == ("slow.py", None)
    with forgotten():
        assert type_in(*typed).code == (trusted.code if command != "export" else 2), "it is remembered"


LISTS = [
    ["list", "runs"],
    ["list", "runs", "--json"],
    ["list", "studies"],
    ["list", "settings", "tiny/Slow@0"],
    ["report", "tiny", "--quick"],
    ["table", "tiny"],
    ["curves", "tiny"],
    ["export", "tiny", "--csv"],
]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("typed", LISTS, ids=lambda typed: " ".join(typed))
def test_lists_and_results_need_no_code(typed: list[str], type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with forgotten():
        before = set(sys.modules)
        done = type_in(*typed)
        assert done.code == 0, done.err
        assert not any(name.startswith("h2h_file_") for name in set(sys.modules) - before)
    if typed[1] in ("runs", "settings"):
        shown = "Slow(theta=10000, fraction=1)" in done.out  # as people read it, or as the text form of the part
        assert shown or "Slow(theta=10000.0, fraction=1.0)" in done.out, "the name and every knob"
    assert trust.approvals() == {}


def test_a_report_leaves_out_what_needs_the_code(store: Path, type_in: Type) -> None:
    with forgotten():
        done = type_in("report", "tiny")
        assert done.code == 0, done.err
        page = (store / "studies" / "tiny" / "report.html").read_text()
        assert page.count("h2h trust tiny") >= 1
        assert "Attention maps of Learned" in page
        assert "Attention maps of Slow" not in page
        assert trust.approvals() == {}
        assert type_in("report", "tiny", "--trust").code == 0
    page = (store / "studies" / "tiny" / "report.html").read_text()
    assert "h2h trust tiny" not in page
    assert "Attention maps of Slow" in page


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approving, "can_ask", lambda: True)
    import headtohead.cli.trust as command

    monkeypatch.setattr(command, "can_ask", lambda: True)


@pytest.mark.parametrize("answer", ["y\n", "n\n", "\n"])
def test_a_terminal_is_asked_once(answer: str, store: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    run = of_slow(store)
    with forgotten():
        done = type_in("score", run, "we the people", stdin=answer)
    assert done.err.count("Approve this file?") == 1
    assert trust.sha256_of(SLOW.encode()) in done.err
    assert f"{len(SLOW)} bytes" in done.err
    assert run in done.err
    assert "what it imports is not checked" in done.err
    assert done.code == (0 if answer == "y\n" else 3)
    assert len(trust.approvals()) == (1 if answer == "y\n" else 0)


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_trust_asks_on_a_terminal(answer: str, store: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    done = type_in("trust", of_slow(store), stdin=answer)
    assert done.code == (0 if answer == "y\n" else 1)
    assert len(trust.approvals()) == (1 if answer == "y\n" else 0)


def test_trust_shows_approves_lists_and_removes(store: Path, type_in: Type) -> None:
    run, sha256 = of_slow(store), trust.sha256_of(SLOW.encode())
    shown = type_in("trust", run)
    assert shown.code == 1
    assert sha256 in shown.err
    assert "class Slow(Rope):" in shown.err
    (row,) = (done := type_in("trust", "tiny", "--json")).json
    assert done.code == 1
    assert (row["sha256"], row["approved"], row["classes"]) == (sha256, False, ["Slow"])
    assert Path(row["file"]).read_text() == SLOW
    (row,) = (done := type_in("trust", "tiny", "--yes", "--json")).json
    assert (done.code, row["approved"]) == (0, True)
    assert "nothing to approve" in type_in("trust", run).out
    assert [entry["sha256"] for entry in type_in("trust", "--list", "--json").json] == [sha256]
    assert "1 file is approved; the list is" in type_in("trust", "--list").out
    assert sha256 in type_in("trust", "--remove", run).out
    assert type_in("trust", "--list", "--json").json == []
    assert type_in("trust", "--remove", run).out == "nothing was on the list\n"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("typed", "says", "code"),
    [
        ([], "say what to approve", 2),
        (["nope"], "no run 'nope'", 2),
        (["nope.py"], "no file nope.py", 2),
        (["--list", "tiny"], "leave out the names", 2),
        (["tiny", "--yes", "--remove"], "give one of them", 2),
        (["tiny/Nope"], "has no arm 'Nope'", 2),
    ],
)
def test_wrong_input_is_one_line(typed: list[str], says: str, code: int, type_in: Type) -> None:
    is_one_line(type_in("trust", *typed), says, code)


@pytest.mark.usefixtures("store")
def test_a_list_that_cannot_be_written_is_one_line(type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("blocked").write_text("")
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(Path("blocked/trusted.json").absolute()))
    done = type_in("trust", "tiny", "--yes")
    assert done.code == 3
    assert done.err.splitlines()[-1].startswith("h2h: cannot write ")


def typed_by_another_process(*arguments: Any) -> Done:
    """In a process that has loaded nothing yet."""
    return h2h(*arguments)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("jobs", [1, 2])
def test_own_code_is_never_asked_for(jobs: int, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the file was edited and when the list of the user was not writable while training."""
    assert text.name == "mine.txt"
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(Path("trusted.json").absolute()))
    Path("slow.py").write_text(SLOW)
    own = ["--set", "model.position=slow.py:Slow", "--seeds", "2", "--jobs", str(jobs)]
    done = typed_by_another_process(*TRAIN, *own)
    assert done.code == 0, done.err
    Path("slow.py").write_text(SLOW.replace("super().build(dims)", "None"))
    done = typed_by_another_process("score", "latest", "we the people")
    assert done.code == 0, done.err
    Path("blocked").write_text("")
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(Path("blocked/trusted.json").absolute()))
    Path("slow.py").write_text(SLOW + "# edited\n")
    done = typed_by_another_process(*TRAIN, *own, "--steps", "3")
    assert done.code == 0, done.err
    is_one_line(typed_by_another_process("score", "latest", "we the people"), "h2h trust", code=3)


@pytest.mark.usefixtures("home")
def test_code_of_a_script_is_never_asked_for(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    assert text.name == "mine.txt"
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(Path("trusted.json").absolute()))
    settings = dict(setting.split("=", 1) for setting in SMALL_OPTIONS[1::2])
    script = (
        SLOW
        + f"""
import headtohead as h2h
if __name__ == "__main__":
    h2h.train(data="mine.txt", steps=2, progress=False, set={{**{settings!r}, "model.position": Slow()}})
"""
    )
    Path("script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], check=True, env=dict(os.environ))
    Path("script.py").write_text("raise SystemExit('edited')\n")
    done = typed_by_another_process("score", "latest", "we the people")
    assert done.code == 0, done.err


def test_python_refuses_with_the_same_words(store: Path) -> None:
    run = of_slow(store)
    with forgotten():
        with pytest.raises(h2h_module.InputError, match=f"h2h trust {run}"):
            h2h_module.score(run, "we the people")
        assert h2h_module.score(h2h_module.load(run, trust=True), "we the people").loss > 0


def test_standard_input_that_is_no_terminal_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not approving.can_ask()
    monkeypatch.setattr(sys, "stdin", None)
    assert not approving.can_ask()
