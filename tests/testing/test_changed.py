"""Audits of changed files in a real repository, as pre-commit and as a person call them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headtohead.testing.changed import audit_changed, exit_code, main
from helpers.docs import ROOT
from helpers.projects import commit, git, make_project

LEAK = {"layers": ("tril()", "tril(1)")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("changed"), "changed_pack")


def test_classes_are_audited_found_or_skipped_with_a_reason(project: Path) -> None:
    results = list(audit_changed(["changed_pack/gpt.py", "train.py", "experiments/stops.py"], project))
    assert exit_code(results) == 0
    lines = {r.target: f"{r.status}: {r.text}" for r in results}
    assert lines["changed_pack/gpt.py:GPT"].startswith("ok: 1")
    assert lines["changed_pack/gpt.py:GPT"].endswith("(causal = true)")
    assert "16 numbers for each token of a vocabulary of 30" in lines["changed_pack/gpt.py:Embedded"]
    assert lines["train.py"] == "skipped: it defines no subclass of nn.Module; it was not executed"
    assert lines["experiments/stops.py"] == "skipped: it is set to false in pyproject.toml; it was not executed"


def test_a_declared_class_is_audited_if_what_it_imports_changed(project: Path) -> None:
    results = {r.target: r for r in audit_changed(["changed_pack/layers.py"], project)}
    assert results["changed_pack/gpt.py:GPT"].status == "ok"
    assert "cannot be built without 'width'" in results["changed_pack/layers.py:Attention"].text
    assert "changed_pack/gpt.py:GPT" not in {r.target for r in audit_changed(["effects.py"], project)}


def test_a_declared_class_that_is_missing_fails(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.headtohead.audit]\n"m.py:Gone" = true\n"n.py:A" = true\n')
    (tmp_path / "m.py").write_text("import torch\n")
    (tmp_path / "n.py").write_text("import no_such_module\n")
    results = list(audit_changed(["m.py", "n.py"], tmp_path))
    assert [(r.target, r.status) for r in results] == [("m.py:Gone", "failed"), ("n.py", "failed")]
    assert "No module named 'no_such_module'" in results[1].text
    assert exit_code(results) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give file names or --since COMMIT"),
        (["a.py", "--since", "main"], "give file names or --since COMMIT"),
        (["--since", "no-such-branch"], "git merge-base failed: fatal: Not a valid object name no-such-branch"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], says: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert main(words) == 2
    assert says in (line := capsys.readouterr().err)
    assert line.count("\n") == 1


def test_the_hook_finds_a_leak_in_what_was_committed(tmp_path: Path) -> None:
    project = make_project(tmp_path, "hooked_pack")
    commit(project, "A leak", **LEAK)
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["types"]) == ("h2h-audit", ["python"])
    python, *words = hook["entry"].split()
    assert python == "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    command = [sys.executable, *words, "hooked_pack/layers.py", "hooked_pack/__init__.py"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "broken   hooked_pack/gpt.py:GPT  future-gradient is broken" in done.stdout
    assert "position 0 saw position 1" in done.stdout


def test_since_takes_what_changed_on_the_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path, "since_pack")
    monkeypatch.chdir(project)
    assert main(["--since", "main"]) == 0
    assert capsys.readouterr().out == "no Python file was changed\n"
    commit(project, "A leak", **LEAK)
    (project / "effects.py").write_text("EFFECT = 1\n")  # not committed
    assert main(["--since", "main", "--json"]) == 1
    found = {r["target"]: r["status"] for r in json.loads(capsys.readouterr().out)}
    assert found == {
        "since_pack/gpt.py:GPT": "broken",
        "since_pack/gpt.py:Embedded": "skipped",
        "since_pack/layers.py:Attention": "skipped",
        "effects.py": "skipped",
    }


@pytest.mark.slow
def test_pre_commit_runs_the_hook_from_a_clone(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    hooks = tmp_path / "hooks"  # a repository with this file, as a clone of headtohead
    hooks.mkdir()
    (hooks / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text())
    git(hooks, "init", "-q", "-b", "main", ".")
    commit(hooks, "Hooks")
    (tmp_path / "project").mkdir()
    project = make_project(tmp_path / "project", "pre_commit_pack")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PATH": path,
        "PYTHONPATH": str(ROOT / "src"),
    }

    def pre_commit() -> subprocess.CompletedProcess[str]:
        words = ["try-repo", str(hooks), "h2h-audit", "--verbose", "--from-ref", "main", "--to-ref", "HEAD"]
        command = [sys.executable, "-m", "pre_commit", *words]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)

    commit(project, "No leak", layers=("T = x.shape[1]", "T = x.size(1)"))
    done = pre_commit()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok       pre_commit_pack/gpt.py:GPT" in done.stdout
    commit(project, "A leak", **LEAK)
    done = pre_commit()
    assert done.returncode == 1
    assert "future-gradient is broken" in done.stdout
