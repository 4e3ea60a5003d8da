"""The kit of the course: its files, its assignment, and the points of its starter and its solution."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.course.kit import rewrite, write_kit
from headtohead.errors import InputError
from headtohead.grading import grade, read_rubric
from helpers.grading import COURSE


@pytest.fixture(scope="module")
def kit(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("course") / "kit"
    write_kit(folder, seed=12)
    return folder


def test_the_solution_is_written_if_asked_for(kit, tmp_path):
    assert not (kit / "solution").exists()
    files = write_kit(tmp_path / "new", solution=True)
    assert {path.name for path in files if path.parent.name == "solution"} == {
        path.name for path in (COURSE / "solution").glob("*.*")
    }


def test_a_folder_with_files_is_left_alone(kit):
    with pytest.raises(InputError, match="is not empty: give a new folder"):
        write_kit(kit)


def test_the_seed_is_that_of_the_teacher(kit):
    ours, theirs = (tomllib.loads((place / "rubric.toml").read_text()) for place in (COURSE, kit))
    assert theirs.pop("seed") == 12
    ours.pop("seed")
    assert ours == theirs


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_starter_gets_no_points_and_is_told_why(kit, whole):
    rubric = read_rubric(kit)
    if not whole:  # transformers takes long to import
        rubric = replace(
            rubric, imports=(), parts=tuple(p for p in rubric.parts if p.name in ("exploration", "puzzles"))
        )
    found = grade(kit / "starter", rubric)
    assert found.points == 0
    assert found.out_of == rubric.points
    for item in found.items:
        assert item.says
        assert all(re.search(r"part \d: write|the output is", says) for says in item.says), item.says


@pytest.mark.slow  # trains small models: ten seconds, more on a busy machine
def test_the_solution_gets_all_points(kit):
    found = grade(COURSE / "solution", kit)
    assert found.points == found.out_of == 98, [item for item in found.items if item.says]


def test_the_starter_has_the_solutions_signatures():
    def signatures(file: Path) -> dict[str, str]:
        found = {}
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = ast.unparse(node.args)
            elif isinstance(node, ast.ClassDef):
                named = {n.name: ast.unparse(n.args) for n in node.body if isinstance(n, ast.FunctionDef)}
                found |= {f"{node.name}.{n}": named[n] for n in ("__init__", "forward") if n in named}
        return found

    for file in (COURSE / "starter").glob("*.py"):
        theirs = signatures(COURSE / "solution" / file.name)
        assert signatures(file).items() <= theirs.items()


def test_the_starter_can_be_audited(kit):
    command = [
        sys.executable,
        "-m",
        "headtohead.cli",
        "audit",
        "classifier.py:Classifier",
        "--vocab",
        "23",
        "--block",
        "9",
    ]
    done = subprocess.run(command, cwd=kit / "starter", capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert (
        done.stderr == "h2h: Classifier cannot be built: NotImplementedError: part 1: write the layers of Classifier\n"
    )


def test_the_assignment_names_the_rubrics_parts(kit):
    text = (kit / "assignment.md").read_text()
    for part in read_rubric(kit).parts:
        assert re.search(rf"^\| \d\. .+ \| `{part.file}` \| {part.points:g} \|$", text, flags=re.MULTILINE)
        assert f"{part.object}(" in text if part.object else True


def test_the_slides_count_the_classifiers_parameters(kit):
    code = "from classifier import Classifier; print(sum(p.numel() for p in Classifier(1000, 32).parameters()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=COURSE / "solution", capture_output=True, text=True, check=True
    )
    assert f"{int(done.stdout):,} parameters" in (kit / "slides.md").read_text()


def test_changed_slides_are_written_again(kit):
    before = (kit / "slides.html").read_text()
    assert rewrite(kit).read_text() == before
    (kit / "slides.md").write_text("# Mine\n\n---\n\n# Two\n\n![a block](pictures/block.svg)\n")
    assert rewrite(kit).read_text().count("<section") == 2


def test_the_command_writes_the_same(tmp_path):
    command = [sys.executable, "-m", "headtohead.cli", "course", "--out", str(tmp_path / "kit"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    names = {path.relative_to(tmp_path / "kit").as_posix() for path in (tmp_path / "kit").rglob("*") if path.is_file()}
    assert set(json.loads(done.stdout)["files"]) == names
    assert {"README.md", "assignment.md", "rubric.toml", "hidden.py", "slides.html", "starter/decoder.py"} <= names
