"""Gradescope's autograder: built, unpacked as Gradescope does, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.grading.formats import gradescope
from headtohead.grading.gradescope import NO_TIME, grade_within, write_autograder
from headtohead.grading.rubric import read_rubric
from headtohead.sandbox import Limits
from helpers.grading import COURSE, ROOT, small_rubric

# from Gradescope's "Autograder Specifications", output format
OF_RESULTS = {"score", "execution_time", "output", "output_format", "test_output_format", "test_name_format"}
OF_RESULTS |= {"visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"}
OF_TEST = {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format", "tags"}
OF_TEST |= {"visibility", "extra_data"}
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}
FORMATS = {"text", "html", "simple_format", "md", "ansi"}


def assert_documented(results: dict) -> None:
    """The keys, types and values that Gradescope documents."""
    assert set(results) <= OF_RESULTS
    assert isinstance(results["score"], int | float)
    assert results.get("stdout_visibility", "hidden") in VISIBILITIES
    for test in results["tests"]:
        assert set(test) <= OF_TEST
        assert 0 <= test["score"] <= test["max_score"]
        assert isinstance(test["output"], str)
        assert test["output_format"] in FORMATS
        assert test["visibility"] in VISIBILITIES
    assert results["score"] == pytest.approx(sum(test["score"] for test in results["tests"]))


@pytest.fixture
def autograder(tmp_path: Path):
    """The folder of the autograder, with a zip unpacked and a submission as Gradescope lays them out."""

    def laid_out(made: Path, submission: Path) -> Path:
        root = tmp_path / "autograder"
        with zipfile.ZipFile(made) as archive:
            archive.extractall(root / "source")
            programs = {info.filename: info.external_attr >> 16 & 0o111 for info in archive.infolist()}
        assert programs["setup.sh"]
        assert programs["run_autograder"]
        shutil.copytree(submission, root / "submission")
        (root / "results").mkdir()
        for name in ("setup.sh", "run_autograder"):
            (root / "source" / name).chmod(0o755)
        shutil.copy(root / "source" / "run_autograder", root)
        return root

    return laid_out


def run(program: Path, root: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "AUTOGRADER_ROOT": str(root), **more}
    return subprocess.run([program], cwd=root, env=environment, capture_output=True, text=True, timeout=900)


def test_run_autograder_with_this_python_writes_results(autograder, tmp_path):
    made = tmp_path / "autograder.zip"
    write_autograder(small_rubric(tmp_path), made)
    submission = tmp_path / "handed"
    shutil.copytree(COURSE / "solution", submission)
    (submission / "puzzles.toml").write_text("select = [-20, 20]\naverage = [0, 0]\n")
    root = autograder(made, submission)
    done = run(root / "run_autograder", root, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 0, done.stderr
    results = json.loads((root / "results/results.json").read_text())
    assert_documented(results)
    assert [(t["name"], t["score"], t["max_score"]) for t in results["tests"]] == [
        ("exploration: alibi", 4, 4),
        ("exploration: rotate", 4, 4),
        ("puzzles: attention", 4, 6),
    ]
    assert "copy: give 2 numbers" in results["tests"][2]["output"]


def test_a_grader_that_fails_still_leaves_results(autograder, tmp_path):
    made = tmp_path / "autograder.zip"
    write_autograder(small_rubric(tmp_path), made)
    root = autograder(made, COURSE / "starter")
    (root / "source/rubric/rubric.toml").write_text("nonsense")
    done = run(root / "run_autograder", root, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 2
    assert "tell your teacher" in json.loads((root / "results/results.json").read_text())["output"]


def test_the_zip_holds_the_rubric_and_what_it_needs(tmp_path):
    names = write_autograder(COURSE, tmp_path / "a.zip")
    assert {"setup.sh", "run_autograder", "rubric/rubric.toml", "rubric/hidden.py"} <= set(names)
    assert "rubric/solution/decoder.py" in names
    assert not [name for name in names if "starter" in name or "__pycache__" in name]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        setup = archive.read("setup.sh").decode()
    assert "transformers" in setup
    assert "headtohead==" in setup


def test_the_given_wheel_is_installed_instead(tmp_path):
    wheel = tmp_path / "headtohead-9-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    assert wheel.name in write_autograder(small_rubric(tmp_path), tmp_path / "a.zip", wheel)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert f'"$root/source/{wheel.name}"' in archive.read("setup.sh").decode()


def test_another_file_is_no_wheel(tmp_path):
    with pytest.raises(InputError, match="is not a wheel of headtohead"):
        write_autograder(small_rubric(tmp_path), tmp_path / "a.zip", tmp_path / "torch.whl")


def test_a_submission_that_hangs_ends_in_time(tmp_path):
    (tmp_path / "handed").mkdir()
    (tmp_path / "handed/exploration.py").write_text("while True: pass\n")
    rubric = replace(read_rubric(small_rubric(tmp_path)), limits=Limits(seconds=60))
    start = time.monotonic()
    *_, last = grade_within(tmp_path / "handed", rubric, 12)
    assert time.monotonic() - start < 40  # a busy machine needs long to start the process
    assert_documented(json.loads(gradescope(last)))
    assert last.points == 0
    said = " ".join(last.items[0].says)
    assert "endless loop" in said or said == NO_TIME


def test_without_time_the_rest_is_not_graded(tmp_path):
    *_, last = grade_within(COURSE / "solution", read_rubric(small_rubric(tmp_path)), 0)
    assert {item.says for item in last.items} == {(NO_TIME,)}
    assert last.out_of == 14


@pytest.mark.slow  # builds a wheel and an environment: a minute
def test_setup_installs_a_wheel_and_the_autograder_uses_it(autograder, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*pip, str(source)], check=True)
    (wheel,) = tmp_path.glob("headtohead-*.whl")
    made = tmp_path / "autograder.zip"
    write_autograder(COURSE, made, wheel)
    root = autograder(made, COURSE / "solution")
    # what the package needs is seen through a .pth file; uv would install it again
    done = run(
        root / "source/setup.sh", root, PIP_NO_DEPS="1", UV_OFFLINE="1", PYTHONPATH=sysconfig.get_path("purelib")
    )
    assert done.returncode == 0, done.stderr
    (packages,) = (root / "venv/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    done = run(root / "run_autograder", root, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    results = json.loads((root / "results/results.json").read_text())
    assert_documented(results)
    assert results["score"] == 98
    assert len(results["tests"]) == 22
    where = [root / "venv/bin/python", "-I", "-c", "import headtohead; print(headtohead.__file__)"]
    assert str(root) in subprocess.run(where, capture_output=True, text=True, cwd=tmp_path).stdout
