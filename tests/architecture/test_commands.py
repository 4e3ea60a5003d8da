"""One file for each command, and a help page that fits the screen."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import headtohead.cli
from headtohead.cli import COMMANDS, app
from headtohead.cli.entry import PANELS

FOLDER = Path(headtohead.cli.__file__).parent
SHARED = {
    "__init__",
    "__main__",
    "approving",
    "completing",
    "entry",
    "options",
    "output",
    "persistence",
    "printing",
    "screens",
    "texts",
}
GROUP = typer.main.get_command(app)


def module(command: str) -> str:
    return command.replace("-", "_")


def test_every_command_has_a_file_of_its_name() -> None:
    assert set(GROUP.commands) == set(COMMANDS)  # type: ignore[attr-defined]
    assert {path.stem for path in FOLDER.glob("*.py")} == {*map(module, COMMANDS), *SHARED}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("list", "puzzles")])
def test_a_commands_function_is_in_its_file(name: str) -> None:
    callbacks = {c.name or c.callback.__name__: c.callback for c in app.registered_commands if c.callback}
    assert callbacks[name].__module__ == f"headtohead.cli.{module(name)}"
    assert import_module(f"headtohead.cli.{module(name)}").__doc__.startswith(f"h2h {name}: ")


def test_help_shows_all_panels_in_order_at_80_columns() -> None:
    page = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80", "TERM": "dumb"}).output
    titles = [line.split("─")[1].strip() for line in page.splitlines() if line.startswith("╭─ ")]
    assert titles == ["Options", *PANELS]
    assert max(map(len, page.splitlines())) <= 80


def test_every_commands_help_has_one_line_in_its_panel() -> None:
    page = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80", "TERM": "dumb"}).output
    commands = page[page.index("╭─ Ask") :]
    lines = [line for line in commands.splitlines() if line.startswith("│")]
    assert [line.split()[1] for line in lines] == list(COMMANDS)
