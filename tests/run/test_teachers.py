"""Distillation from a stored run: what the student learns, which teachers are refused, and resuming."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import Arm, Files, InputError, RunSpec
from headtohead.run.session import Options, execute
from helpers.runs import SMALL, give_up, results, run_on, train, trained_record


def taught(text: Path, teacher: str, *settings: str) -> RunSpec:
    return run_on(text, "train.steps=6", f"train.objective=Distillation(run='{teacher}', weight=0.9)", *settings)


def test_a_student_learns_from_a_stored_run(text: Path, home: Path, tmp_path: Path) -> None:
    teacher = trained_record(run_on(text, "train.steps=40", "train.optimizer.lr=0.01", "model.width=32"), home)
    before = results(teacher.folder)
    spec = taught(text, teacher.id)
    student = trained_record(spec, home)
    assert (
        student.require_result().values["test/loss"]
        != trained_record(run_on(text, "train.steps=6"), home).require_result().values["test/loss"]
    )
    assert results(teacher.folder) == before
    assert teacher.id in (student.folder / "run.json").read_text()
    other = trained_record(run_on(text, "train.steps=3"), home)
    assert taught(text, other.id).id != spec.id, "the teacher is part of the identity"
    folder = tmp_path / "again" / "runs"
    folder.mkdir(parents=True)
    (folder / teacher.id).symlink_to(teacher.folder)
    give_up(spec, folder / spec.id, 4)
    train(spec, tmp_path / "again")
    assert results(folder / spec.id) == results(student.folder)


def test_a_classifier_learns_from_a_classifier(table: Path, home: Path) -> None:
    def classifier(*settings: str) -> RunSpec:
        arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "train.epochs=1", *settings])
        return RunSpec(arm=arm).resolved()

    teacher = trained_record(classifier(), home)
    student = trained_record(classifier(f"train.objective=Distillation(run='{teacher.id}', temperature=3)"), home)
    assert student.require_result().is_complete


def test_an_unsuitable_teacher_is_refused_in_one_line(text: Path, table: Path, home: Path) -> None:
    lm = trained_record(run_on(text, "train.steps=1", "tokenizer=Character"), home)
    short = trained_record(run_on(text, "train.steps=1", "model.block=8"), home)
    settings = ["train.objective=MaskedTokens", "model.pattern=Full"]
    masked = trained_record(run_on(text, "train.steps=1", *settings), home)
    arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "train.epochs=1"])
    labels = trained_record(RunSpec(arm=arm).resolved(), home)
    refused = {
        lm.id: "has another vocabulary",
        short.id: "reads 8 tokens and the student 16: set model.block=8",
        masked.id: "is a model of masked tokens: choose one that predicts the same",
        labels.id: "is a classifier: choose one that predicts the same",
        "0123456789abcdef": "has no complete run in ",
        "": r"needs a teacher: set train\.objective\.run",
    }
    for teacher, why in refused.items():
        spec = taught(text, teacher)
        with pytest.raises(InputError, match=why) as error:
            list(execute(spec, home, Options()))
        assert "\n" not in str(error.value)
        assert not (home / "runs" / spec.id / "run.json").exists()
