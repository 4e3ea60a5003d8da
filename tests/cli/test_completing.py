"""TAB in bash, zsh and fish, after `h2h --install-completion`, which is the command of the README."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headtohead.cli import completing
from headtohead.spec.userfiles import recipe_names
from helpers.stores import stored
from helpers.terminal import H2H

pytestmark = pytest.mark.skipif(not Path(H2H).is_file(), reason="h2h is not installed as a program")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a new home folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HEADTOHEAD_"))}
    path = f"{Path(H2H).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb", "PS1": "> "}


def installed(shell: str, environment: dict[str, str]) -> None:
    """Type the command that installs completion into a shell; skip if the shell is not on this machine."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    command = [shell, "-c", "h2h --install-completion; true"]  # with another command the shell stays the parent
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert f"{shell} completion installed" in done.stdout, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_a_command(shell: str, environment: dict[str, str], tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed: pip install pexpect")
    installed(shell, environment)
    with pexpect.spawn(shell, ["-i"], env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=60) as terminal:
        terminal.sendline("echo rea''dy")
        terminal.expect_exact("ready")
        if shell == "zsh":  # the first TAB of a session loads the completion
            terminal.send("h2h \t")
            terminal.expect_exact("\a")
            terminal.sendintr()
        terminal.send("h2h doc\t")
        terminal.expect_exact("h2h doctor")
        terminal.sendintr()
        terminal.send("h2h run published/posit\t")
        terminal.expect_exact("published/positions")


def test_fish_completes_commands_and_settings(environment: dict[str, str], tmp_path: Path) -> None:
    installed("fish", environment)
    for typed, wanted in {"h2h doc": "doctor", "h2h run published/posit": "published/positions"}.items():
        done = subprocess.run(
            ["fish", "-c", f"complete -C '{typed}'"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [wanted], done.stderr


def test_scripts_for_the_shells_are_printed(environment: dict[str, str]) -> None:
    for shell, word in {"bash": "complete -o default", "zsh": "#compdef h2h", "fish": "complete --command h2h"}.items():
        asked = environment | {"_H2H_COMPLETE": f"source_{shell}"}
        done = subprocess.run([H2H], env=asked, capture_output=True, text=True, timeout=60, check=True)
        assert word in done.stdout


def test_words_that_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert completing.runs("") == ["latest"]
    stored(tmp_path / "home")
    assert {"latest", "stored"} < set(completing.runs(""))
    assert completing.runs("sto") == ["stored"]
    assert completing.recipes("") == ["lm", "classifier", *recipe_names()]
    assert completing.settings("model.posi") == ["model.position="]
    assert completing.corpora("sha") == ["shakespeare"]


def test_a_damaged_store_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "file" / "home"))
    assert completing.runs("lat") in ([], ["latest"])
