"""TensorBoard folders, written by torch.utils.tensorboard.SummaryWriter."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from headtohead.errors import InputError, Unavailable
from headtohead.external.comparison import compare_sources
from headtohead.external.sources import Source
from headtohead.external.tensorboard import read_run
from helpers.external import curve, final


def test_curves_and_hyperparameters(tensorboard_runs: Path) -> None:
    folder = tensorboard_runs / "rope-seed3"
    run = read_run(Source(folder, "tensorboard", folder.name, str(folder), 0))
    steps, values = zip(*run.curves["eval/loss"], strict=True)
    assert steps == (0, 10, 20, 30)
    assert values == pytest.approx([value for _, value in curve("rope", 3)], rel=1e-6)
    assert (run.config["seed"], run.config["position"]) == (3, "rope")
    assert run.curves["final"][0][1] == pytest.approx(final("rope", 3), rel=1e-6)


def test_a_folder_of_runs_gives_a_verdict(tensorboard_runs: Path) -> None:
    found = compare_sources([str(tensorboard_runs)], metric="eval/loss")
    assert (found.control, found.design, found.verdicts["rope"].verdict) == ("baseline", "paired", "better")
    assert found.verdicts["rope"].difference == pytest.approx(-0.3, abs=0.05)
    assert len(found.values) == 12


def test_sides_fields_steps_and_best_values(tensorboard_runs: Path) -> None:
    sides = compare_sources(
        [f"{tensorboard_runs}/baseline*"], [[f"{tensorboard_runs}/rope*"]], metric="eval/loss", step=20
    )
    assert list(sides.means) == ["baseline", "rope"]
    assert sides.means["rope"] == pytest.approx(sum(final("rope", s) - 0.1 for s in range(6)) / 6, rel=1e-6)
    best = compare_sources([str(tensorboard_runs)], metric="eval/loss", take="best", arm="position")
    assert best.means == pytest.approx(sides.means)
    assert "optimistic" in str(best)


def test_one_event_file_is_a_run(tensorboard_runs: Path, inside: Path) -> None:
    for arm in ("baseline", "rope"):
        shutil.copytree(tensorboard_runs / f"{arm}-seed0", inside / f"{arm}-seed0")
    files = [next((inside / name).glob("*tfevents*")) for name in ("baseline-seed0", "rope-seed0")]
    assert list(compare_sources(files, metric="eval/loss").means) == ["baseline", "rope"]


def test_a_file_of_other_content_is_refused(inside: Path) -> None:
    for name in ("a-seed1", "b-seed1"):
        (inside / name).mkdir()
        (inside / name / "events.out.tfevents.1.x").write_bytes(b"\x00garbage" * 50)
    with pytest.raises(InputError, match="a-seed1"):
        compare_sources(["a-seed1", "b-seed1"])


def test_without_its_package_the_extra_is_named(tensorboard_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    with pytest.raises(Unavailable) as error:
        compare_sources([str(tensorboard_runs)], metric="eval/loss")
    assert str(error.value) == "reading a TensorBoard folder needs the extra track: pip install 'headtohead[track]'"
