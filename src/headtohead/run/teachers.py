"""The task of an arm with its teacher: the model of a stored run that the objective learns from."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import InputError
from headtohead.run.load import Trained, load_trained
from headtohead.run.store import Record
from headtohead.training.arm import Arm
from headtohead.training.tasks import Task, task_of


def ready_task(arm: Arm, home: Path, device: str = "cpu") -> Task:
    """Return the arm's task. If its objective needs a teacher, the run of that id is loaded from the store."""
    task, teacher = task_of(arm), arm.train.objective.teacher
    if teacher:
        record = Record.at(home, teacher)
        if not record.has_result:
            raise InputError(f"the teacher {teacher} has no complete run in {home}: train it, or copy its run folder")
        trained = load_trained(record)
        _refuse_misfit(task, trained, teacher)
        task.teacher = trained.model.requires_grad_(False).to(device)
    return task


def _refuse_misfit(task: Task, trained: Trained, teacher: str) -> None:
    theirs, own = trained.spec.arm, task.arm
    if theirs.task != own.task or theirs.train.objective.predicts != own.train.objective.predicts:
        what = "classifier" if theirs.task == "classifier" else f"model of {theirs.train.objective.predicts}"
        raise InputError(f"the teacher {teacher} is a {what}: choose one that predicts the same as the student")
    if trained.vocabulary.state() != task.vocabulary.state():
        raise InputError(f"the teacher {teacher} has another vocabulary: choose one with the same data and tokenizer")
    if list(trained.labels) != list(getattr(task.data, "labels", ())):
        raise InputError(f"the teacher {teacher} has other labels: choose one that was trained on the same data")
    if theirs.model.block < own.model.block:
        raise InputError(
            f"the teacher {teacher} reads {theirs.model.block} tokens and the student {own.model.block}: "
            f"set model.block={theirs.model.block}, or choose another teacher"
        )
