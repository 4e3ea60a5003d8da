"""Weights & Biases: offline folders written by the library, and exports of its web page."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.comparison import compare_sources
from headtohead.external.sources import Source
from headtohead.external.wandb import BLOCK, FILE_HEAD, PIECE_HEAD, _records, read_run
from helpers.external import curve, write_wandb_export


def test_an_offline_run_is_read_completely(wandb_runs: Path) -> None:
    folders = sorted(path for path in wandb_runs.iterdir() if path.name.startswith("offline"))
    runs = [read_run(Source(path, "wandb", path.name, str(path), 0)) for path in folders]
    assert len(runs) == 12
    for run in runs:
        expected = curve(run.group, run.config["seed"])
        assert list(run.curves["val/loss"]) == expected
        assert run.config["model.position"] == run.group
        assert "text" not in run.curves
        assert run.name.startswith("sunny-wave-")


def test_groups_or_fields_are_arms(wandb_runs: Path) -> None:
    found = compare_sources([str(wandb_runs)], metric="val/loss")
    assert (found.control, found.design, found.verdicts["rope"].verdict) == ("baseline", "paired", "better")
    assert {value.seed for value in found.values} == set("012345")
    by_field = compare_sources([str(wandb_runs)], metric="val/loss", arm="model.position")
    assert by_field.verdicts == found.verdicts


def test_records_that_cross_blocks_are_joined(tmp_path: Path) -> None:
    """A long record is split at the ends of blocks of 32 KiB, as the real library does."""
    wandb = pytest.importorskip("wandb")
    settings = {"silent": True, "console": "off", "disable_git": True, "x_disable_stats": True}
    run = wandb.init(
        project="p",
        dir=str(tmp_path),
        mode="offline",
        reinit="create_new",
        config={"x": "y" * 100_000},
        settings=settings,
    )
    for step in range(400):
        run.log({f"metric{n}": step + n for n in range(20)}, step=step)
    run.finish()
    wandb.teardown()
    (file,) = (tmp_path / "wandb").glob("offline*/*.wandb")
    assert file.stat().st_size > 4 * BLOCK
    read = read_run(Source(file, "wandb", file.name, str(file), 0))
    assert read.config["x"] == "y" * 100_000
    assert read.curves["metric7"] == [(float(step), float(step + 7)) for step in range(400)]


def test_the_unused_end_of_a_block_is_skipped(tmp_path: Path) -> None:
    first = b"x" * (BLOCK - FILE_HEAD - PIECE_HEAD - 3)  # leaves three bytes, too few for the head of a piece
    pieces = [struct.pack("<IHB", 0, len(data), 1) + data for data in (first, b"next")]
    file = tmp_path / "run-x.wandb"
    file.write_bytes(b":W&B\x00\x00\x00" + pieces[0] + b"\x00" * 3 + pieces[1])
    assert list(_records(file)) == [first, b"next"]


def test_a_cut_file_gives_what_is_there_and_a_damaged_one_an_error(wandb_runs: Path, inside: Path) -> None:
    source = next(wandb_runs.glob("offline*/*.wandb"))
    raw = source.read_bytes()
    cut = inside / "run-cut.wandb"
    cut.write_bytes(raw[: len(raw) - 5])
    assert len(list(_records(cut))) == len(list(_records(source))) - 1
    cut.write_bytes(raw[:7] + b"\x01\x02\x03\x04\x05\x00\x09" + raw[14:])
    with pytest.raises(InputError, match="damaged"):
        list(_records(cut))
    cut.write_bytes(b"something else")
    with pytest.raises(InputError, match="not a file of W&B"):
        compare_sources([cut, shutil.copy(cut, inside / "run-b.wandb")])


def test_an_export_of_the_web_page(inside: Path, wandb_runs: Path) -> None:
    path = write_wandb_export(inside / "export.csv")
    found = compare_sources([path])
    assert found.reading.format == "W&B export"
    assert found.metric == "val/loss"
    offline = compare_sources([str(wandb_runs)], metric="val/loss")
    assert found.verdicts["rope"].difference == pytest.approx(offline.verdicts["rope"].difference)
    assert compare_sources([path], step=20).means["rope"] == pytest.approx(found.means["rope"] - 0.1)


def test_grouped_charts_and_bounds_are_no_runs(inside: Path) -> None:
    (inside / "grouped.csv").write_text('"Step","Group: a - loss","Group: b - loss"\n1,2,3\n')
    with pytest.raises(InputError, match="ungroup"):
        compare_sources(["grouped.csv"])
    (inside / "text.csv").write_text('"Step","a-1 - loss","b-1 - loss"\n1,2,x\n')
    with pytest.raises(InputError, match="'x' under 'b-1 - loss' is not a number"):
        compare_sources(["text.csv"])
