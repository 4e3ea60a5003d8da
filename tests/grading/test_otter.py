"""Tests for otter-grader: what is written, and otter running them."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from headtohead.grading.otter import identifier, steps, write_tests
from headtohead.grading.rubric import Item, read_rubric
from helpers.grading import COURSE, ROOT, small_rubric

NOTEBOOK = {
    "cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "My work is in the files."}],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def test_each_part_has_a_file_with_its_points(tmp_path):
    files = write_tests(COURSE, tmp_path)
    parts = read_rubric(COURSE).parts
    assert [file.stem for file in files] == [part.name for part in parts]
    for file, part in zip(files, parts, strict=True):
        tree = ast.parse(file.read_text())
        given = [
            keyword.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "test_case"
            for keyword in node.keywords
            if keyword.arg == "points"
        ]
        assert sum(given) == part.points
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert len(set(names)) == len(names) == len(given)
    assert (tmp_path / "rubric/rubric.toml").is_file()
    assert (tmp_path / "rubric/solution/decoder.py").is_file()


@pytest.mark.parametrize(
    ("kind", "points", "given", "least"),
    [
        ("parameters", 2, {}, [2]),
        ("audit", 6, {"per_broken": 3}, [3, 6]),
        ("audit", 6, {}, [2, 4, 6]),
        ("cache", 6, {}, [2, 4, 6]),
        ("figure", 5, {}, [1, 2, 3, 4, 5]),
        ("function", 4, {"cases": [{}, {}]}, [2, 4]),
        ("attention", 6, {"answers": {"a": 1, "b": 2, "c": 3}}, [2, 4, 6]),
    ],
)
def test_checks_with_parts_of_their_points_have_several_cases(kind, points, given, least):
    found = list(steps(Item(kind, points, "x", given)))
    assert [one for _, one in found] == least
    assert sum(gain for gain, _ in found) == points


def test_names_that_files_can_have():
    assert identifier("Part 1: the classifier") == "part_1_the_classifier"
    assert identifier("1") == "part_1"


@pytest.mark.slow  # otter takes half a minute to start
def test_otter_runs_the_tests(tmp_path):
    pytest.importorskip("otter", reason="OTTER IS NOT TESTED: it is absent, get it with pip install otter-grader")
    write_tests(small_rubric(tmp_path), tmp_path / "otter")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    otter = [sys.executable, "-W", "ignore", "-m", "otter"]

    def run(*words: str) -> None:
        done = subprocess.run(
            [*otter, *words], cwd=tmp_path / "otter", env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("generate", "-t", "tests", "-r", "requirements.txt", "-o", "autograder.zip", "--no-environment", "rubric")
    handed = tmp_path / "handed"
    shutil.copytree(COURSE / "solution", handed, ignore=shutil.ignore_patterns("__pycache__"))
    (handed / "submission.ipynb").write_text(json.dumps(NOTEBOOK))
    (handed / "puzzles.toml").write_text("select = [-20, 20]\naverage = [0, 0]\ncopy = [1, 1]\n")
    # alibi is right, rotate never ends
    text = (handed / "exploration.py").read_text().replace("    half = x", "    while True: pass\n    half = x")
    (handed / "exploration.py").write_text(text)
    rubric = tmp_path / "otter/rubric/rubric.toml"
    rubric.write_text(f"limits = {{ seconds = 8 }}\n{rubric.read_text()}")
    run("generate", "-t", "tests", "-r", "requirements.txt", "-o", "autograder.zip", "--no-environment", "rubric")
    with zipfile.ZipFile(tmp_path / "handed.zip", "w") as archive:
        for path in handed.iterdir():
            archive.write(path, path.name)
    run("run", "-a", "autograder.zip", "-o", ".", "--no-logo", str(tmp_path / "handed.zip"))
    results = json.loads((tmp_path / "otter/results.json").read_text())
    found = {test["name"]: (test["score"], test["max_score"]) for test in results["tests"] if "score" in test}
    assert found == {"exploration": (4, 8), "puzzles": (4, 6)}
    said = json.dumps(results)
    assert "look for an endless loop" in said
    assert "copy: the output is 16.09, not 60" in said
