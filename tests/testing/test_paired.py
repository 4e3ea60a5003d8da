"""Two commits are trained with the same seeds, in clean worktrees."""

from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.testing.paired import Asked, compare_commits, is_same
from helpers.projects import commit, git, make_project

COMMAND = {"command": "python train.py {seed}", "pattern": "loss=([0-9.]+)", "metric": "loss"}
ARM = """
import headtohead as h2h

small = h2h.Arm(
    model=h2h.ModelSpec(layers=1, width=16),
    train=h2h.TrainSpec(steps=STEPS, batch=4),
    evaluate=h2h.EvalSpec(windows=4),
)
"""


def compare(project: Path, head: str, **changed: object) -> object:
    return compare_commits("main", head, Asked(**{**COMMAND, **changed}), lambda _: None, project)  # type: ignore[arg-type]


def test_a_better_head_gets_its_verdict_and_the_folder_stays(tmp_path: Path) -> None:
    project = make_project(tmp_path, "paired_pack")
    commit(project, "A better effect", effects=("0.0", "-0.3"))
    (project / "effects.py").write_text("EFFECT = 99.0\n")  # not committed, so not compared
    found = compare(project, "HEAD")
    assert found.design == "paired"  # type: ignore[attr-defined]
    assert found.verdicts["head"].verdict == "better"  # type: ignore[attr-defined]
    assert found.means["head"] < found.means["base"] < 4  # type: ignore[attr-defined]
    assert git(project, "worktree", "list").count("\n") == 0
    assert git(project, "status", "--short") == "M effects.py"


def test_a_change_that_does_not_reach_the_training_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path, "unreached_pack")
    commit(project, "A leak", layers=("tril()", "tril(1)"))
    assert is_same(compare(project, "HEAD"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"command": ""}, "give --arm FILE.py:NAME or --command"),
        ({"arm": "a.py:small"}, "give --arm FILE.py:NAME or --command"),
        ({"command": "python train.py"}, "needs {seed} in it"),
        ({"pattern": ""}, "and --pattern such as"),
        ({"pattern": "loss=("}, "is no regular expression"),
        ({"pattern": "loss="}, "must have one pair of brackets"),
        ({"seeds": 5}, "a verdict needs 6 seeds or more"),
    ],
)
def test_wrong_settings_are_one_line(changed: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Asked(**{**COMMAND, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"command": "python absent.py {seed}"}, "ended with exit code 2: .*absent.py"),
        ({"command": "python train.py x{seed}"}, "ended with exit code 1: ValueError"),
        ({"command": "no-such-program {seed}"}, "cannot run no-such-program 0: No such file"),
        ({"pattern": "accuracy=([0-9.]+)"}, "seed 0: the command printed nothing that fits"),
        ({"command": "python -c 'while {seed} == 0: pass'", "minutes": 0.005}, "did not end within 0.005 minutes"),
    ],
)
def test_a_command_that_fails_is_one_line(changed: dict[str, object], says: str, tmp_path: Path) -> None:
    project = make_project(tmp_path, "failing_pack")
    with pytest.raises(InputError, match=says):
        compare(project, "HEAD", **changed)
    assert git(project, "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_an_arm_of_headtohead_is_trained_at_both_commits(tmp_path: Path) -> None:
    project = make_project(tmp_path, "arm_pack")
    (project / "arms.py").write_text(ARM.replace("STEPS", "40"))
    base = commit(project, "An arm")
    commit(project, "Fewer steps", arms=("steps=40", "steps=2"))
    found = compare_commits(base, "HEAD", Asked(arm="arms.py:small", metric="validation/loss"), root=project)
    assert found.verdicts["head"].verdict == "worse"
    with pytest.raises(InputError, match="--metric nothing/loss: the runs of arms"):
        compare_commits(base, "HEAD", Asked(arm="arms.py:small", metric="nothing/loss"), root=project)
