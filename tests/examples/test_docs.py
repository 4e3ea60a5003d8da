"""Every command and every program on these pages runs, in the order of the page, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headtohead.cli import app
from headtohead.study import load_study
from runs.small import start

ROOT = Path(__file__).parents[2]
PAGES = ["docs/how-to/add-a-part.md", "docs/how-to/audit-a-module.md", "docs/how-to/train.md"]
# a hundred runs, or a minute of commands that tests/look, puzzles, report and search type too
SLOW = [f"docs/how-to/{page}.md" for page in ("study", "look-inside", "puzzles", "report", "search")]
PAGES += [pytest.param(page, marks=pytest.mark.slow) for page in SLOW]


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.getbasetemp().parent / "docs-cache"  # of all processes: each corpus is tokenized once
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"HEADTOHEAD_HOME": str(tmp_path / "h2h-results"), "HEADTOHEAD_CACHE": str(cache)}
    found = blocks(ROOT / page)
    assert found
    for kind, text in found:
        named = re.match(r"# (\S+\.py)\n", text)
        if kind == "python" and named:
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
        elif kind == "python":
            run([sys.executable, "-W", "error", "-c", text], tmp_path, environment, 0)
        elif kind == "sh":
            for line in text.splitlines():
                line, _, code = line.partition(" # exits with ")
                walk(line, tmp_path, environment, int(code or 0))


def understood(line: str) -> None:
    """Every option of a command is known, and what is given to it is of the right kind."""
    command: Any = get_command(app)
    context, arguments = None, shlex.split(line)[1:]
    while hasattr(command, "resolve_command") and arguments:
        with command.make_context("h2h", list(arguments), parent=context) as context:
            _, command, arguments = command.resolve_command(context, arguments)
    if not hasattr(command, "resolve_command"):  # else a group by itself, such as h2h puzzles
        command.make_context(command.name, list(arguments), parent=context)


@pytest.mark.parametrize("page", SLOW)
def test_commands_are_understood(page: str) -> None:
    lines = [line for kind, text in blocks(ROOT / page) if kind == "sh" for line in text.splitlines()]
    typed = [line.partition(" # exits with ")[0] for line in lines if line.startswith("h2h ")]
    assert typed
    for line in typed:
        if not set(line) & set("|<>&;$*~"):
            understood(line)


def recipes_named() -> list[str]:
    """Every recipe that a page, or a recipe's own words, tells people to run."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.py")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    found = {name for text in texts for name in re.findall(r"h2h (?:run|plan|report) (recipes/[\w/.:]+\w)", text)}
    return sorted(found - {"recipes/published/mine.py"})  # the reader's own


@pytest.mark.parametrize("recipe", recipes_named())
def test_recipes_that_are_named_are_studies(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert load_study(recipe).question


def shown(page: Path) -> list[tuple[str, list[str]]]:
    """Commands of a page, as `$ h2h …` in an indented block, and the lines of output shown below each."""
    found: list[tuple[str, list[str]]] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ h2h"):
            found.append((line[6:].partition("  #")[0].strip(), []))
        elif not line.startswith("    "):
            found.append(("", []))
        elif found:
            found[-1][1].append(line)
    skipped = ("my_model.py", "--all")  # a file of the reader's; minutes
    return [(c, lines) for c, lines in found if c and not any(word in c for word in skipped)]


SHOWN = [
    pytest.param(command, lines, id=f"{page}: {command}")
    for page in ["README.md", "docs/explanation/model.md", "docs/explanation/audit.md"]
    for command, lines in shown(ROOT / page)
]


@pytest.mark.parametrize(("command", "lines"), SHOWN)
def test_commands_print_what_the_page_shows(command: str, lines: list[str]) -> None:
    done = start(*shlex.split(command)[1:], environment={**os.environ, "COLUMNS": "120"}).wait(300)
    assert done.code == (1 if any("broken " in line for line in lines) else 0), done.err
    printed = " ".join(done.out.split())
    for line in lines:
        if "…" not in line:
            assert " ".join(line.split()) in printed, done.out


def test_readme_program() -> None:
    programs = [text for kind, text in blocks(ROOT / "README.md") if kind == "python"]
    assert programs
    for text in programs:
        run([sys.executable, "-W", "error", "-c", text], ROOT, dict(os.environ), 0)


def test_every_file_has_its_line() -> None:
    tree = (ROOT / "docs" / "explanation" / "code.md").read_text(encoding="utf-8")
    missing = [f.name for f in (ROOT / "src" / "headtohead").rglob("*.py") if f.name not in tree]
    assert missing == []


def walk(line: str, folder: Path, environment: dict[str, str], wanted: int) -> str:
    """A line as typed: what a shell must read goes to one, other commands are there at once. What it prints."""
    if not line.startswith("h2h ") or set(line) & set("|<>&;$*~"):
        return run(["sh", "-c", line], folder, environment, wanted)
    done = start(*shlex.split(line)[1:], folder=folder, environment=environment).wait(900)
    assert done.code == wanted, f"{line}\n{done.out}\n{done.err}"
    return done.out + done.err


def run(command: list[str], folder: Path, environment: dict[str, str], wanted: int) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == wanted, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
