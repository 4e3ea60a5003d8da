"""Runs by name, their labels, and how many steps an epoch has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.report import named_runs
from headtohead.report.named_runs import find_groups, group_runs
from headtohead.run.store import Record
from headtohead.training.arm import read_run
from headtohead.training.tasks import task_of
from helpers.runs import without_checksums
from helpers.stores import Shelf


def labels(shelf: Shelf, *names: str, all_seeds: bool = False) -> list[str]:
    return [group.label for group in find_groups(names, shelf.home, all_seeds)]


def test_runs_are_labelled_by_what_differs(shelf: Shelf):
    assert labels(shelf, shelf.lm.id[:8], shelf.rope.id) == ["Learned, seed 0", "Rope, seed 0"]
    assert labels(shelf, shelf.lm.id) == ["seed 0"]
    assert [g.label for g in group_runs([shelf.lm, shelf.rope])] == ["Learned, seed 0", "Rope, seed 0"]
    assert [g.label for g in group_runs({"mine": [shelf.lm]})] == ["mine"]


def test_labels_too_long_become_run_ids(shelf: Shelf):
    found = labels(shelf, shelf.lm.id, shelf.unwatched.id)
    assert found == [f"run {shelf.lm.id[:8]}, seed 0", f"run {shelf.unwatched.id[:8]}, seed 0"]


def test_a_study_is_all_its_arms_with_their_seeds(shelf: Shelf):
    groups = find_groups(["tiny"], shelf.home)
    assert [group.label for group in groups] == ["Learned", "Rope", "NoPosition"]
    assert [group.seeds for group in groups] == [[0, 1]] * 3


def test_an_arm_is_its_seeds_and_a_seed_one_run(shelf: Shelf):
    (arm,) = find_groups(["tiny/rope"], shelf.home)
    (one,) = find_groups(["tiny/Rope@1"], shelf.home)
    assert (arm.label, arm.seeds) == ("Rope", [0, 1])
    assert (one.label, one.seeds) == ("Rope, seed 1", [1])
    (again,) = find_groups(["tiny/Rope@1"], shelf.home, all_seeds=True)
    assert (again.label, again.seeds) == ("Rope", [0, 1])


def test_all_seeds_adds_the_runs_of_the_same_arm(shelf: Shelf):
    (group,) = find_groups([shelf.lm.id], shelf.home, all_seeds=True)
    assert (group.label, group.seeds) == ("2 seeds", [0, 1])


def test_a_run_named_twice_is_one_line(shelf: Shelf):
    assert len(find_groups([shelf.lm.id, shelf.lm.id[:6]], shelf.home)) == 1


def test_other_vocabularies_allow_only_bits_per_byte(shelf: Shelf, tmp_path: Path):
    other = Record(without_checksums(Path(shutil.copytree(shelf.rope.folder, tmp_path / "0123456789abcdef"))))
    text = (other.folder / "run.json").read_text()
    (other.folder / "run.json").write_text(text.replace('"kind": "Byte"', '"kind": "Character"'))
    groups = group_runs([shelf.lm, other])
    assert named_runs.metric_of(groups, None) == "bits_per_byte"
    assert named_runs.metric_of(groups, "bits_per_byte") == "bits_per_byte"
    with pytest.raises(InputError, match="loss per token does not compare: give --metric bits_per_byte"):
        named_runs.metric_of(groups, "loss")


@pytest.mark.parametrize("name", ["lm", "unwatched", "classifier"])
def test_steps_per_epoch_are_those_of_training(name: str, shelf: Shelf):
    record = getattr(shelf, name)
    assert named_runs.steps_per_epoch(record) == task_of(read_run(record.spec).arm).steps_per_epoch


def test_steps_per_epoch_of_an_unfinished_run(shelf: Shelf, tmp_path: Path):
    for record, known in ((shelf.classifier, True), (shelf.lm, False)):
        copy = Record(Path(shutil.copytree(record.folder, tmp_path / record.id)))
        (copy.folder / "result.json").unlink()
        wanted = task_of(read_run(record.spec).arm).steps_per_epoch if known else None
        assert named_runs.steps_per_epoch(copy) == wanted


def test_an_odd_run_file_is_one_line(tmp_path: Path):
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match="does not describe a run: set the folder aside"):
        group_runs([Record(tmp_path)])
