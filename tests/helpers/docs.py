"""Pages of the documentation: their code blocks, and commands as a page shows them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from typer.main import get_command

from headtohead.cli import app
from helpers.terminal import start

ROOT = Path(__file__).parents[2]


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def understood(line: str) -> None:
    """Assert that a command line parses: every option is known and its value has the right type."""
    command: Any = get_command(app)
    context, arguments = None, shlex.split(line)[1:]
    while hasattr(command, "resolve_command") and arguments:
        with command.make_context("h2h", list(arguments), parent=context) as context:
            _, command, arguments = command.resolve_command(context, arguments)
    if not hasattr(command, "resolve_command"):  # else a group by itself, such as h2h puzzles
        command.make_context(command.name, list(arguments), parent=context)


def walk(line: str, folder: Path, environment: dict[str, str], wanted: int) -> str:
    """Run a line as typed, in a shell only where it needs one; return what it prints."""
    if not line.startswith("h2h ") or set(line) & set("|<>&;$*~"):
        return run(["sh", "-c", line], folder, environment, wanted)
    done = start(*shlex.split(line)[1:], folder=folder, environment=environment).wait(900)
    assert done.code == wanted, f"{line}\n{done.out}\n{done.err}"
    return done.out + done.err


def run(command: list[str], folder: Path, environment: dict[str, str], wanted: int) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == wanted, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
