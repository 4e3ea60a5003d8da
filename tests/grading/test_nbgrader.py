"""A notebook for nbgrader: what is written, and nbgrader grading a submission with it."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.grading.nbgrader import write_notebook
from headtohead.grading.rubric import read_rubric
from helpers.grading import COURSE, ROOT, small_rubric


def test_each_part_has_a_graded_cell_with_its_points(tmp_path):
    names = write_notebook(COURSE, tmp_path / "transformer.ipynb", 300)
    cells = json.loads((tmp_path / "transformer.ipynb").read_text())["cells"]
    graded = [cell["metadata"]["nbgrader"] for cell in cells if "nbgrader" in cell["metadata"]]
    parts = read_rubric(COURSE).parts
    assert [(cell["grade_id"], cell["points"]) for cell in graded] == [(part.name, part.points) for part in parts]
    assert names == [part.name for part in parts]
    assert all(cell["grade"] and cell["locked"] and not cell["solution"] for cell in graded)
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    for source in code:
        compile(source, "cell", "exec")
        shown = source.split("### BEGIN HIDDEN TESTS")[0]
        assert "points" in shown
        assert "rubric.toml" not in shown
        assert "within=300" in source


@pytest.mark.slow  # nbgrader takes half a minute
def test_nbgrader_grades_with_the_notebook(tmp_path):
    pytest.importorskip("nbgrader", reason="NBGRADER IS NOT TESTED: it is absent, get it with pip install nbgrader")
    rubric = small_rubric(tmp_path)
    course = tmp_path / "course"
    write_notebook(rubric, course / "source/transformer/transformer.ipynb", 16)
    (course / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'course'\nc.ExecutePreprocessor.timeout = 300\n"
    )
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls alembic by its name
    environment = {**os.environ, "PATH": programs, "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)}

    def run(*words: str) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "nbgrader", *words]
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr

    run("generate_assignment", "transformer")
    released = (course / "release/transformer/transformer.ipynb").read_text()
    assert "rubric.toml" not in released
    for student in ("ada", "ben"):
        handed = course / "submitted" / student / "transformer"
        shutil.copytree(COURSE / "solution", handed, ignore=shutil.ignore_patterns("__pycache__"))
        (handed / "transformer.ipynb").write_text(released)
    (handed / "puzzles.toml").write_text("select = [-20, 20]\naverage = [0, 0]\ncopy = [1, 1]\n")
    text = (handed / "exploration.py").read_text().replace("    half = x", "    while True: pass\n    half = x")
    (handed / "exploration.py").write_text(text)
    run("autograde", "transformer")
    run("export", "--to", "grades.csv")
    with (course / "grades.csv").open() as opened:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(opened)}
    assert scores == {"ada": 14, "ben": 8}
    assert "look for an endless loop" in (course / "autograded/ben/transformer/transformer.ipynb").read_text()
