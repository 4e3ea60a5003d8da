"""The notebooks: clean in the repository, run in a kernel, and their checks say what is right and what is wrong.

The ordinary suite runs their short form; --slow runs them in full and compares the figures of their texts.
"""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest

from clean_notebooks import METADATA, cleaned
from headtohead.run.doctor import processor
from helpers.docs import understood
from helpers.notebooks import FOLDER, NOTEBOOKS, PARAMETERS, execute, read, solutions, tagged

for name in ("nbformat", "nbclient", "ipykernel"):
    pytest.importorskip(name, reason=f"{name} is not installed: pip install nbclient ipykernel")

WRITTEN_ON = "AMD EPYC"
EXTRAS = {"4-look-inside": "anywidget", "6-fine-tune": "transformers"}
WIDEST = 120  # characters of a line of code
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def prose(path: Path) -> str:
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


# -- as they are in the repository -------------------------------------------------------------------------------------


@each
def test_a_notebook_is_clean(path: Path):
    text = path.read_text(encoding="utf-8")
    assert text == cleaned(text), "run python tools/clean_notebooks.py"
    assert json.loads(text)["metadata"] == METADATA


@each
def test_every_exercise_has_a_check_and_a_solution(path: Path):
    book = read(path)
    tags = [tag for cell in book.cells for tag in cell.metadata.get("tags", [])]
    exercises = tags.count("exercise")
    assert exercises >= 1
    assert tags == ["parameters", *["exercise", "check"] * exercises]
    assert len(solutions(book)) == exercises
    assert sum(PARAMETERS in cell.source for cell in book.cells if tagged(cell, "parameters")) == 1


@each
def test_code_parses_and_fits_the_page(path: Path):
    for cell in read(path).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            assert [line for line in cell.source.splitlines() if len(line) > WIDEST] == []


@each
def test_links_and_commands_of_a_notebook_hold(path: Path):
    text = prose(path)
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []
    for command in re.findall(r"`(h2h [a-z][^`]*)`", text):
        understood(command)


@each
def test_prose_of_a_notebook_is_plain(path: Path):
    text = prose(path)
    assert text.startswith(f"# {path.stem.partition('-')[0]}. ")
    assert not re.search(r"—|\b(simply|obviously|of course|whoever|nobody|lest)\b", text, re.IGNORECASE)
    assert "minutes" in text.partition("## ")[0], "say how long it takes"


def test_every_notebook_is_in_the_overview():
    overview = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"({path.name})" not in overview] == []
    assert len(NOTEBOOKS) == 6


# -- in a kernel -------------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder. Corpora are read once, and the kernel writes its own files elsewhere."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp().parent / "docs-cache"))
    for name in ("HEADTOHEAD_HOME", "HEADTOHEAD_DATA", "HEADTOHEAD_TRUST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere" / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "desk").mkdir()
    return tmp_path / "desk"


def run(path: Path, desk: Path, quick: bool) -> str:
    needed = EXTRAS.get(path.stem)
    if needed:
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    done = execute(path, desk, quick)
    for answer in done.answers:
        assert re.search(r"^Not (yet|answered yet): .", answer.unanswered, re.MULTILINE), answer
        assert re.search(r"^Right: .", answer.solved, re.MULTILINE), answer
    written = {p.relative_to(desk).parts[0] for p in desk.rglob("*") if p.is_file()}
    assert written <= {"h2h-results", "h2h-notebooks"}
    assert not [p for p in (desk.parent / "elsewhere").rglob("*") if "headtohead" in p.name]
    return done.printed


@pytest.mark.filterwarnings("ignore")  # the kernel's sockets are closed when the process ends
@each
def test_a_notebook_runs_in_short(path: Path, desk: Path):
    run(path, desk, quick=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@each
def test_a_notebook_runs_in_full(path: Path, desk: Path):
    printed = run(path, desk, quick=False)
    if processor() != WRITTEN_ON:
        pytest.skip(f"the notebook ran; the figures in its text are from another machine: {WRITTEN_ON}")
    text = re.sub(r"<details>.*", "", prose(path), flags=re.DOTALL)
    shown = {figure.replace("−", "-").lstrip("+") for figure in re.findall(r"[−+]?\d+\.\d{2,}", text)}
    assert sorted(figure for figure in shown if figure not in printed.replace("−", "-")) == []
    assert os.listdir(desk)
