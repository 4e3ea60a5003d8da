"""A release is refused until the checkout is ready, and two builds of one commit are the same bytes."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import release

TODAY = datetime.date(2026, 12, 1)
PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "headtohead"
description = "A tiny one"
readme = "README.md"
dynamic = ["version"]
[project.scripts]
h2h = "headtohead:main"
[tool.setuptools.dynamic]
version = { attr = "headtohead.__version__" }
"""
CODE = '__version__ = "0.3.0"\n\n\ndef main():\n    print(__version__)\n'


def git(root: Path, *words: str) -> None:
    who = {f"GIT_{role}_{what}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, env={**os.environ, **who})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout that is ready, of a package that is built in a second."""
    root = tmp_path / "project"
    (root / "src" / "headtohead").mkdir(parents=True)
    (root / "src" / "headtohead" / "__init__.py").write_text(CODE)
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "README.md").write_text("# headtohead\n\nTiny.\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 0.3.0, 2026-12-01\n\n- All.\n\n## 0.2.0, 2026-11-01\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return root


def changed(project: Path, file: str, old: str, new: str) -> None:
    text = (project / file).read_text()
    assert old in text
    (project / file).write_text(text.replace(old, new))
    git(project, "commit", "-qam", "change")


def test_a_ready_checkout_has_no_problem(project: Path) -> None:
    assert list(release.not_ready(project, TODAY)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("CHANGELOG.md", "0.3.0, 2026-12-01", "0.3.0, unreleased", "says 'unreleased' for 0.3.0: write the date"),
        ("CHANGELOG.md", "0.3.0, 2026-12-01", "0.3.0, 2026-12-02", "2026-12-02, which is in the future"),
        ("CHANGELOG.md", "## 0.3.0, 2026-12-01", "## 0.3.1, 2026-12-01", "begins with 0.3.1 and __version__ is 0.3.0"),
        ("CHANGELOG.md", "## ", "### ", "has no heading such as"),
        ("src/headtohead/__init__.py", "0.3.0", "0.3.0.dev1", "give a version such as"),
    ],
)
def test_what_is_not_ready_is_named(project: Path, file: str, old: str, new: str, says: str) -> None:
    changed(project, file, old, new)
    assert any(says in problem for problem in release.not_ready(project, TODAY))


def test_files_that_are_not_committed_are_named(project: Path) -> None:
    (project / "note.txt").write_text("mine")
    (problem,) = release.not_ready(project, TODAY)
    assert problem == "not committed: note.txt"


def test_a_version_is_released_once(project: Path) -> None:
    git(project, "tag", "v0.3.0")
    (problem,) = release.not_ready(project, TODAY)
    assert problem.startswith("the tag v0.3.0 exists")


def test_a_folder_without_git_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(release.Stopped, match="release from a git checkout"):
        list(release.not_ready(tmp_path, TODAY))


def test_a_release_stops_where_it_is_not_ready(project: Path, tmp_path: Path) -> None:
    changed(project, "CHANGELOG.md", "2026-12-01", "unreleased")
    with pytest.raises(release.Stopped, match=r"not ready.*--dry-run"):
        release.release(project, tmp_path / "dist", [], False, TODAY)
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
def test_a_dry_run_builds_and_checks(project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("build", reason="build is not installed: pip install build twine")
    skipped = ["check", "test", "install"]
    release.release(project, tmp_path / "dist", skipped, True, TODAY)  # two builds, compared
    out = capfd.readouterr().out
    assert "not ready" not in out
    assert out.count("PASSED") == 2
    assert "do not upload" in out
    sdist, wheel = (
        tmp_path / "dist" / "headtohead-0.3.0.tar.gz",
        tmp_path / "dist" / "headtohead-0.3.0-py3-none-any.whl",
    )
    assert out.count(release.digest(sdist)) == out.count(release.digest(wheel)) == 1
    with tarfile.open(sdist) as files:
        assert {(member.uid, member.uname) for member in files} == {(0, "")}
        assert len({member.mtime for member in files}) == 1
    with zipfile.ZipFile(wheel) as files:
        assert "headtohead/__init__.py" in files.namelist()
    with pytest.raises(release.Stopped, match="is not empty"):
        release.release(project, tmp_path / "dist", skipped, True, TODAY)


def test_a_build_that_fails_is_one_line(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("build", reason="build is not installed: pip install build twine")
    changed(project, "pyproject.toml", '"A tiny one"', "3")
    with pytest.raises(release.Stopped, match="the sdist cannot be built"):
        release.release(project, tmp_path / "dist", [s for s in release.STEPS if s != "build"], True, TODAY)


@pytest.mark.parametrize("words", [["--skip", "test"], ["--skip", "nothing"]])
def test_a_release_takes_all_steps(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["release.py"])
    with pytest.raises(SystemExit) as exit:
        release.main(words)
    assert exit.value.code == 2
