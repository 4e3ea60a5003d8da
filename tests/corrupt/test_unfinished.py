"""Damage to a run that was stopped, and to one that is trained again: the same bits in the end, and nothing deleted."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.run.events import Started
from headtohead.run.session import Options, execute
from headtohead.run.verify import verify
from helpers.corpora import write_text
from helpers.damage import OFTEN, Case, damaged
from helpers.runs import give_up, results, run_on, train

STEPS = ["train.steps=12", "evaluate.every=3", "evaluate.snapshots=5", "model.dropout=0.1", "evaluate.keep=best"]
FEW, MANY = 16, 400


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, a run given up after eight steps, and the files of the same run undisturbed."""
    where = tmp_path_factory.mktemp("unfinished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(where / "cache"))
        spec = run_on(write_text(where), *STEPS)
        train(spec, where / "undisturbed")
        give_up(spec, where / "given-up" / "runs" / spec.id, 8)
    return where


def trained_after(place: Path, damage: str, draw: random.Random) -> str:
    """Damage one file of the stopped run and go on with it, twice if the first call says so."""
    spec = run_on(place / "mine.txt", *STEPS)
    home = place / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(place / "given-up", home)
    folder = home / "runs" / spec.id
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "LOCK")
    case = Case(draw.choice(files), damage)
    kept, said = place / "kept", ""
    kept.mkdir(exist_ok=True)
    with damaged(case, draw, kept):
        try:
            first = next(event for event in execute(spec, home, Options(save_every=1e9)) if isinstance(event, Started))
            said = "named" if first.damaged or list(folder.rglob("*.damaged-*")) else "unnoticed"
            train(spec, home)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            said = "named"
            if "it is a folder; rename or remove it" in str(error):
                case.path.rmdir()
            train(spec, home)
        assert results(folder) == results(place / "undisturbed" / "runs" / spec.id), case
        assert verify([spec.id], home=home).is_sound
    return "named, same bits" if said == "named" else "same bits"


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(place / "cache"))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_damaged_stopped_run_ends_in_the_same_bits(place: Path, count: int, counts: Counter[str]) -> None:
    draw = random.Random(count)
    counts.update(f"stopped run: {trained_after(place, draw.choice(OFTEN), draw)}" for _ in range(count))


@pytest.mark.usefixtures("cache")
def test_a_damaged_run_is_kept_and_trained_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = run_on(place / "mine.txt", *STEPS)
    home = place / "again"
    shutil.copytree(place / "undisturbed", home)
    folder = home / "runs" / spec.id
    for number in (1, 2):
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
        torn = weights.read_bytes()
        train(spec, home)
        aside = folder.with_name(f"{folder.name}.damaged-{number}")
        assert (aside / "model.safetensors").read_bytes() == torn
        assert (aside / "result.json").is_file()
        assert results(folder) == results(place / "undisturbed" / "runs" / spec.id)
        assert f"It is kept as {aside.name}, and trained again" in capsys.readouterr().err


@pytest.mark.usefixtures("cache")
def test_a_link_in_place_of_the_metrics_is_not_followed(place: Path, tmp_path: Path) -> None:
    spec = run_on(place / "mine.txt", *STEPS)
    folder = tmp_path / "home" / "runs" / spec.id
    shutil.copytree(place / "given-up", tmp_path / "home")
    (tmp_path / "mine").write_text("of the user's")
    for name in ("metrics.jsonl", "run.json", "env.json", "times.json", "result.json", "items.npz", "LOCK"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(tmp_path / "mine")
    train(spec, tmp_path / "home")
    assert (tmp_path / "mine").read_text() == "of the user's"
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert results(folder) == results(place / "undisturbed" / "runs" / spec.id)
