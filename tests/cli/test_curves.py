"""h2h curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import Arm, Copying, RunSpec
from helpers.runs import trained_record
from helpers.stores import Shelf
from helpers.terminal import Type, is_one_line


def test_curves_without_a_file_prints_a_summary(shelf: Shelf, typed: Type) -> None:
    done = typed("curves", shelf.lm.id[:8])
    assert done.code == 0
    assert done.out.startswith("loss (nats per token): lm on mine.txt, seed 0 (run ")
    assert [line.split()[0] for line in done.out.splitlines()[2:]] == ["train", "validation", "test"]
    assert max(map(len, (done.out + done.err).splitlines())) <= 80


def test_json_holds_the_numbers(shelf: Shelf, typed: Type) -> None:
    done = typed("curves", shelf.classifier.id, "--metric", "loss", "--sets", "test", "--json")
    (curve,) = done.json["curves"]
    assert curve["mean"] == [line["test/loss"] for line in shelf.classifier.metrics if "test/loss" in line]
    assert curve["epochs"] == [0, 1, 2, 3]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF-")])
def test_a_picture_is_written_as_its_name_ends(kind: str, start: bytes, typed: Type, tmp_path: Path) -> None:
    path = tmp_path / f"curves.{kind}"
    done = typed("curves", "tiny", "--metric", "perplexity", "--log", "--by", "epoch", "--out", path)
    assert (done.code, done.out) == (0, "")
    assert f"wrote {path}" in done.err
    assert path.read_bytes().startswith(start)


def test_all_seeds_are_one_line(shelf: Shelf, typed: Type) -> None:
    said = typed("curves", shelf.lm.id, "--all-seeds", "--sets", "test", "--json").json
    assert said["curves"][0]["seeds"] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("curves", "Missing argument"),
        ("curves nope", "no run 'nope'"),
        ("curves tiny/Rop3", "has no arm 'Rop3': did you mean Rope?"),
        ("curves tiny/Rope@7", "has no seed 7: it has 0, 1"),
        ("curves latest --metric accuracy", "language models have no accuracy"),
        ("curves latest --sets test", "has no test curve"),
        ("curves latest --sets foo", "evaluated no set 'foo'"),
        ("curves latest --by hour", "choose step or epoch"),
        ("curves latest --out x.gif", "ends in .png or .svg or .pdf"),
        ("curves latest --out .", "ends in .png or .svg or .pdf"),
    ],
)
def test_bad_input_is_one_line(arguments: str, says: str, typed: Type) -> None:
    is_one_line(typed(*arguments.split()), says)


def test_an_unwritable_output_folder_is_one_line(typed: Type) -> None:
    done = typed("curves", "latest", "--out", "/proc/curves.png")
    assert done.code == 3
    assert done.err.startswith(
        "h2h: cannot write /proc/curves.png: give --out a name in a folder that you can write to"
    )


def test_results_against_the_size_of_test_sets(home: Path, typed: Type, tmp_path: Path) -> None:
    arm = Arm.of("lm", Copying(length=2, test_length=(2, 4), tested=20, vocab=6))
    arm = arm.settings(["train.steps=1", "model.width=8", "evaluate.along=8"])
    for seed in (0, 1):
        trained_record(RunSpec(arm=arm, seed=seed).resolved(), home)
    done = typed("curves", "latest", "--all-seeds", "--over", "length")
    assert done.code == 0
    assert done.out.startswith("accuracy (%), 95 % interval of the mean over seeds")
    assert [line.split()[0] for line in done.out.splitlines()[3:5]] == ["2", "4"]
    drawn = typed("curves", "latest", "--over", "length", "--metric", "loss", "--out", tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG"), drawn.err
    assert typed("curves", "latest", "--over", "length", "--json").json["curves"][0]["points"][1]["size"] == 4
    is_one_line(typed("curves", "latest", "--over", "length", "--log"), "--over shows finished models: leave out --log")
