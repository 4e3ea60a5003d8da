from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.sources import file_kind, find_sources
from helpers.external import write_samples, write_wandb_export


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", "x,y\n1,2\n", "table"),
        ("a.txt", "x\ty\n1\t2\n", "table"),
        ("a", '{"x": 1}\n{"x": 2}\n', "table"),
        ("a.json", '[{"x": 1}]', "table"),
        ("a.log", "step 1, loss 2\nanother line\n", "log"),
        ("a.log", "loss=2\n", "log"),
        ("a.txt", "hello world\n", "log"),
        ("a.json", '{"log_history": []}', "trainer"),
        ("a.json", '{\n  "epoch": 1,\n  "log_history": []\n}', "trainer"),
        ("a.csv", '"Step","r - loss"\n1,2\n', "wandb export"),
        ("events.out.tfevents.1", "", "tensorboard"),
        ("run-1.wandb", "", "wandb"),
    ],
)
def test_formats_are_recognised(inside: Path, name: str, text: str, kind: str) -> None:
    (inside / name).write_text(text)
    assert file_kind(inside / name) == kind


def test_samples_and_exports_are_recognised(inside: Path) -> None:
    assert file_kind(write_samples(inside / "s.jsonl", 0.5)) == "lm-eval"
    assert file_kind(write_wandb_export(inside / "e.csv")) == "wandb export"


def test_folders_are_searched_and_links_are_not_followed(inside: Path) -> None:
    for arm in ("a", "b"):
        for seed in (1, 2):
            (inside / "runs" / arm / f"seed{seed}").mkdir(parents=True)
            (inside / "runs" / arm / f"seed{seed}" / "events.out.tfevents.1").touch()
    os.symlink(inside / "runs" / "a" / "seed1", inside / "runs" / "latest")
    found = find_sources([["runs"]], is_log=False)
    assert [source.name for source in found] == ["a/seed1", "a/seed2", "b/seed1", "b/seed2"]
    sides = find_sources([["runs/a"], ["runs/b"]], is_log=False)
    assert [(s.group, s.container, s.name) for s in sides][::2] == [(0, "a", "seed1"), (1, "b", "seed1")]
    assert [s.name for s in find_sources([["runs/*/seed2"]], is_log=False)] == ["seed2", "seed2"]


def test_a_run_is_counted_once_and_on_one_side(inside: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (inside / name).write_text("x,y\n1,2\n")
    assert len(find_sources([["a.csv", "./a.csv", "*.csv"]], is_log=False)) == 2
    with pytest.raises(InputError, match="both sides"):
        find_sources([["a.csv"], ["*.csv"]], is_log=False)
