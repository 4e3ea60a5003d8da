"""The script of the GitHub action in a real repository with two commits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headtohead.testing.changed import Result
from headtohead.testing.pull_request import comment, main
from helpers.docs import ROOT
from helpers.projects import commit, make_project

COMPARED = ["--command", "python train.py {seed}", "--pattern", "loss=([0-9.]+)", "--metric", "loss"]


def test_a_pull_request_is_audited_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path / "project", "pull_pack")
    commit(project, "A leak, and worse", layers=("tril()", "tril(1)"), effects=("0.0", "0.3"))
    monkeypatch.chdir(project)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("Earlier.\n")
    assert main(["--base", "main", *COMPARED, "--comment", str(tmp_path / "comment.md")]) == 1
    text = (tmp_path / "comment.md").read_text()
    assert "| **broken** | `pull_pack/gpt.py:GPT` | future-gradient is broken" in text
    assert "In loss, the head is **worse**." in text
    assert "<summary>" in text
    assert str(tmp_path) not in text
    assert (tmp_path / "summary.md").read_text() == f"Earlier.\n{text}"
    assert "A leak, and worse" in capsys.readouterr().out
    commit(project, "No leak", layers=("tril(1)", "tril()"))
    out = ["--comment", str(tmp_path / "comment.md")]
    assert main(["--base", "main", *COMPARED, *out]) == 0
    assert main(["--base", "main", *COMPARED, *out, "--fail-on-worse"]) == 1


def test_a_comparison_that_fails_leaves_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, "half_pack")
    commit(project, "No effect", effects=("0.0", "0.0 / 0"))
    monkeypatch.chdir(project)
    assert main(["--base", "main", *COMPARED]) == 2
    text = (project / "comment.md").read_text()
    assert "No torch module was changed." in text
    assert "Not done: " in text
    assert "ZeroDivisionError" in text


def test_an_empty_base_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--base", ""]) == 2
    assert "the base is empty" in capsys.readouterr().err


def test_text_of_a_module_is_no_markup() -> None:
    result = Result("m.py:A", "broken", "it raised ValueError: <img src=x> | `x`\n# heading")
    text = comment([result], None, "", "a", "b")
    assert "| it raised ValueError: &lt;img src=x> \\| 'x' # heading |" in text


def test_the_action_runs_its_steps(tmp_path: Path) -> None:
    """The second step, with the inputs' defaults, as GitHub fills them in. The first one installs headtohead."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, step = action["runs"]["steps"]
    assert install["run"].startswith('python -m pip install --quiet "$GITHUB_ACTION_PATH"')
    project = make_project(tmp_path / "project", "action_pack")
    commit(project, "Better", effects=("0.0", "-0.3"))
    given = {name: value.get("default", "") for name, value in action["inputs"].items()}
    given |= {"base": "main", "command": COMPARED[1], "pattern": COMPARED[3], "metric": "loss"}
    filled = dict(step["env"])
    for name, value in given.items():
        filled = {k: v.replace("${{ inputs." + name + " }}", value) for k, v in filled.items()}
    assert not any("${{" in value for value in filled.values())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **filled, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "In loss, the head is **better**." in (project / given["comment"]).read_text()
