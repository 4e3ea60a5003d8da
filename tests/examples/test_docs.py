"""Every command and every program on these pages runs, in the order of the page, in an empty folder."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from headtohead.spec.userfiles import RECIPES
from headtohead.study.recipes import load_study
from helpers.docs import ROOT, blocks, run, understood, walk
from helpers.terminal import start

PAGES = [
    f"docs/how-to/{page}.md" for page in ("audit-a-module", "check-a-claim", "compare", "layers", "persist", "train")
]
# these train a hundred runs, or take a minute with commands that tests/cli covers
SLOW = [
    f"docs/how-to/{page}.md"
    for page in ("study", "look-inside", "puzzles", "report", "search", "export-results", "bughunt", "grade")
]
PAGES += [pytest.param(page, marks=pytest.mark.slow) for page in (*SLOW, "docs/how-to/testing.md")]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_programs_of_a_page_run(
    page: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
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


@pytest.mark.parametrize("page", SLOW)
def test_commands_of_slow_pages_parse(page: str) -> None:
    lines = [line for kind, text in blocks(ROOT / page) if kind == "sh" for line in text.splitlines()]
    typed = [line.partition(" # exits with ")[0] for line in lines if line.startswith("h2h ")]
    assert typed
    for line in typed:
        if not set(line) & set("|<>&;$*~"):
            understood(line)


def recipes_named() -> list[str]:
    """Every recipe that a page, or a recipe's own words, tells people to run."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *RECIPES.rglob("*.py")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    found = {name for text in texts for name in re.findall(r"h2h (?:run|plan|report) (published/[\w/.:]+\w)", text)}
    return sorted(found - {"published/mine"})  # the reader's own


@pytest.mark.parametrize("recipe", recipes_named())
def test_recipes_named_in_docs_are_studies(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for page in ["README.md", "docs/explanation/model.md", "docs/explanation/audit.md", "docs/how-to/check-a-claim.md"]
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


def test_every_package_has_a_line_in_code_md() -> None:
    tree = (ROOT / "docs" / "explanation" / "code.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "headtohead"
    folders = [f for f in source.iterdir() if f.is_dir() and not f.name.startswith("_")]
    assert [f.name for f in folders if f"{f.name}/" not in tree] == []
    named = set(re.findall(r"\b\w+\.py\b", tree))
    assert named - {f.name for f in source.rglob("*.py")} == set()
