"""What all commands share: standard output that is closed early, as by `| head -1`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from headtohead.cli import app, main
from headtohead.errors import describe
from helpers.corpora import write_text
from helpers.docs import ROOT
from helpers.recipes import GATE
from helpers.runs import run_on, train
from helpers.terminal import H2H, Type, h2h, is_one_line, start

SETTINGS = ["train.steps=12", "model.heads=2", "model.layers=2", "evaluate.snapshots=3"]


@pytest.fixture(scope="module")
def trained_home(tmp_path_factory):
    """A run with snapshots, and a small study."""
    from helpers.studies import carried, study

    folder = tmp_path_factory.mktemp("pipe")
    text = write_text(folder)
    carried(study(text, vary={"model.position": ["Learned", "Rope"]}, seeds=2), folder / "home")
    train(run_on(text, *SETTINGS), folder / "home")
    return folder / "home"


@pytest.fixture(autouse=True)
def home(trained_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADTOHEAD_HOME", str(trained_home))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return trained_home


def close_standard_output() -> None:
    """Make standard output a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)
    os.close(reading)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    ("command", "file", "code"),
    [
        (["attend", "latest", "the people of our union", "--out", "map.png"], "map.png", 0),
        (["attend", "latest", "--evolution", "--out", "lines.svg"], "lines.svg", 0),
        (["heads", "latest", "--out", "heads.png"], "heads.png", 0),
        (["report", "tiny", "--quick", "--figures", "figures"], "figures/forest.pdf", 0),
        (["puzzles", "solve", "1", "--out", "solved.svg"], "solved.svg", 0),
        (["puzzles", "check", "1", "--query", "9,0,0", "--out", "checked.svg"], "checked.svg", 1),
        (["export", "latest", "exported"], "exported/model.safetensors", 0),
    ],
)
def test_closed_pipe_loses_no_file_and_no_exit_code(tmp_path, command, file, code, form):
    done = h2h(*command, *form, before=close_standard_output)
    assert (tmp_path / file).stat().st_size > 100, done.err
    assert done.code == code
    assert "Error" not in done.err


def test_a_closed_pipe_is_no_error():
    done = h2h("list", "settings", before=close_standard_output)
    assert (done.code, done.err) == (0, "")


def test_closed_pipe_stops_generation():
    began = time.monotonic()
    done = start("generate", "latest", "the", "--tokens", 1_000_000, before=close_standard_output).wait(60)
    assert (done.code, done.err) == (0, "")
    assert time.monotonic() - began < 30


def test_reader_gets_its_line_before_the_pipe_closes(tmp_path):
    picture = tmp_path / "map.png"
    program = [sys.executable, "-c", "from headtohead.cli import main; main()"]
    running = subprocess.Popen([*program, "attend", "latest", "the people", "--out", picture], stdout=subprocess.PIPE)
    first = running.stdout.readline()
    running.stdout.close()
    assert running.wait(120) == 0
    assert b"step 12" in first
    assert picture.read_bytes().startswith(b"\x89PNG")


OUT_OF_MEMORY = [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to\nallo"),
    RuntimeError("Storage size calculation overflowed with sizes=[1, 2]"),
]


def test_the_installed_program_shows_its_help() -> None:
    done = subprocess.run([H2H, "--help"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert "audit" in done.stdout


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("train lm --set model.fusion=gate.py:Nope", "gate.py has no part 'Nope': it has Gate, Other"),
        ("run lm --vary model.fusion=gate.py:Gate,gate.py:Nope", "gate.py has no part 'Nope': it has Gate, Other"),
        ("frobnicate", "No such command 'frobnicate'"),
    ],
)
def test_bad_input_of_any_command_is_one_line(command: str, says: str, tmp_path: Path, type_in: Type) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    is_one_line(type_in(*command.split()), says)


def test_every_command_is_on_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    names = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    names |= {group.name for group in app.registered_groups if group.name}
    assert {name for name in names if f"`h2h {name}`" not in page} == set()


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_out_of_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("headtohead.run.doctor.examine", fail)
    monkeypatch.setattr(sys, "argv", ["h2h", "doctor"])
    with pytest.raises(SystemExit) as exit:
        main()
    said = capsys.readouterr().err
    assert exit.value.code == 3
    assert said == f"h2h: {describe(error)}\n"
    assert "make model.width or train.batch smaller" in said


def test_other_torch_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = torch.zeros(2, 3)  # called without a line of this file: else it would be an error of the user's code
    monkeypatch.setattr("headtohead.run.doctor.examine", partial(torch.mm, wrong, wrong))
    monkeypatch.setattr(sys, "argv", ["h2h", "doctor"])
    with pytest.raises(RuntimeError, match="mat1"):
        main()
