"""Escape codes from files, labels and arguments never reach the terminal; output that cannot be written is one line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.stores import Shelf, stored
from helpers.terminal import H2H, Type, h2h, refused

EVIL = "\x1b[31mEVIL\x1b[0m\x9b2J\u202e"


def clean(text: str) -> None:
    for character in "\x1b\x9b\u202e\x07":
        assert character not in text, text


@pytest.mark.parametrize(
    "command",
    [
        ["list", "runs", EVIL],
        ["report", EVIL],
        ["train", "lm", "--data", f"{EVIL}.txt"],
        ["train", "lm", "--set", f"model.{EVIL}=1"],
        ["train", EVIL],
        ["run", f"{EVIL}.py"],
        ["compare", f"{EVIL}.csv"],
        [EVIL],
        ["doctor", f"--{EVIL}"],
        ["audit", f"model.position={EVIL}"],
    ],
    ids=str,
)
def test_escape_codes_in_arguments_are_shown(command: list[str], type_in: Type) -> None:
    done = type_in(*command)
    assert done.code in (0, 1, 2, 3)
    clean(done.out + done.err)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_escape_codes_in_a_study_are_shown(home: Path, type_in: Type, form: list[str]) -> None:
    stored(home, {f"Rope{EVIL}": -0.3}, control=f"Learned{EVIL}", question=f"Does {EVIL} matter?", command=EVIL)
    for command in (["list", "studies"], ["report", "stored"], ["list", "runs"]):
        done = type_in(*command, *form)
        assert done.code == 0, done
        clean(done.out + done.err)
        if form:
            assert "EVIL" in done.out or command[1] == "runs"
            json.loads(done.out)
    if not form:
        assert "\\x1b[31mEVIL" in type_in("list", "studies").out


def test_escape_codes_in_texts_and_labels_are_shown(shelf: Shelf, typed: Type) -> None:
    for command in (
        ["generate", "latest", f"the {EVIL} people", "--tokens", "5"],
        ["score", shelf.lm.id, f"the {EVIL} people"],
        ["classify", shelf.classifier.id, f"the {EVIL} people"],
        ["attend", shelf.lm.id, f"the {EVIL} people"],
    ):
        for form in ([], ["--json"]):
            done = typed(*command, *form)
            clean(done.out + done.err)


def test_escape_codes_do_not_reach_a_real_terminal(home: Path) -> None:
    """Colours do: they are ours."""
    arms = {f"Rope{EVIL}": -0.3}
    stored(home, arms, question=f"Does {EVIL} matter?")
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    both = f"{H2H} report stored && {H2H} list studies"
    process = subprocess.Popen(["sh", "-c", both], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert process.wait() == 0
    os.close(leader)
    text = seen.decode()
    assert "\x1b[2K" in text  # of the progress bar
    assert "\\x1b[31mEVIL" in text
    assert "\x1b[31mEVIL" not in text
    assert "\x9b" not in text


def test_a_limit_of_file_sizes_is_one_line(tmp_path: Path) -> None:
    """Here standard output is a file that must not grow, and standard error a pipe."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); from headtohead.cli import main; main()"
    for arguments in (["list", "parts"], ["--help"], ["doctor", "--json"]):
        with (tmp_path / "out").open("w") as out:
            ran = subprocess.run(
                [sys.executable, "-c", code, *arguments], stdout=out, stderr=subprocess.PIPE, text=True, check=False
            )
        assert ran.returncode == 3, ran.stderr
        assert ran.stderr.startswith(("h2h: the output cannot be written (File too large)", "h2h: no temporary file"))
        assert ran.stderr.count("\n") == 1


def test_a_store_beyond_the_limit_of_file_sizes_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("the people of our union are strong and free\n" * 200)
    ran = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$0" train lm --data mine.txt --set train.steps=1', H2H],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    assert ran.stderr.strip().splitlines()[-1].startswith("h2h: ")
    assert "Traceback" not in ran.stderr


def test_output_that_fails_does_not_hide_an_error() -> None:
    refused(h2h("report", "nothing", largest=100), "h2h: there are no studies")
