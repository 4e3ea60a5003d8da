"""Full and broken disks, lack of memory, partial writes and power losses in every call that writes.

Afterwards every run of the store is as before or complete, and the same command ends in the same bits.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headtohead import RunSpec
from headtohead.errors import InputError
from headtohead.run.verify import verify
from headtohead.study.execution import folder_of
from headtohead.study.study import Study
from helpers.corpora import write_text
from helpers.faults import ERRORS, Disk, PowerLoss, failing
from helpers.runs import results, run_on, train
from helpers.studies import QUICK, carried, study

STEPS = ["train.steps=4", "evaluate.every=2", "evaluate.snapshots=2", "evaluate.keep=best", "model.dropout=0.1"]
FEW = 5  # calls of each error


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and its tokens in the cache."""
    where = tmp_path_factory.mktemp("faults")
    write_text(where)
    return where


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(place / "cache"))


def bits(home: Path) -> dict[str, dict[str, object]]:
    return {
        folder.name: results(folder) for folder in sorted((home / "runs").iterdir()) if ".damaged" not in folder.name
    }


def attempt(home: Path, work: Callable[[Path], object], number: int, error: str, draw: random.Random) -> str:
    """Work with a disk that fails in one call; then work again with a sound one."""
    shutil.rmtree(home, ignore_errors=True)
    disk = Disk(home, number, error)
    ended = "the command went on"
    with failing(disk):
        try:
            work(home)
        except (InputError, MemoryError) as failed:
            ended = "stopped with one line"
            assert isinstance(failed, MemoryError) or "\n" not in str(failed)  # noqa: PT017
        except PowerLoss:
            ended = "lost power"
    if disk.is_off:
        disk.lose_power(home, draw)
    problems = [
        p.problem for p in verify(home=home).problems if p.kind != "cache" and "result.json is" not in p.problem
    ]
    known = ("run.json cannot be read",)  # a file that a power loss left empty before its first checkpoint
    assert [p for p in problems if not any(word in p for word in known)] == [], (number, error)
    work(home)
    return ended


def all_calls(place: Path, work: Callable[[Path], object], few: int | None) -> Counter[str]:
    """Fail in every call, or in a few of them, with every error."""
    calm, home = place / "calm", place / "home"
    shutil.rmtree(calm, ignore_errors=True)
    work(calm)
    counted = Disk(home)
    shutil.rmtree(home, ignore_errors=True)
    with failing(counted):
        work(home)
    assert bits(home) == bits(calm)
    draw, found = random.Random(0), Counter[str]()
    for error in ERRORS:
        numbers = range(counted.calls) if few is None else sorted(draw.sample(range(counted.calls), few))
        for number in numbers:
            found[f"{error}: {attempt(home, work, number, error, draw)}"] += 1
            assert bits(home) == bits(calm), (error, number)
            assert verify(home=home).is_sound, (error, number)
    return found


def a_run(place: Path) -> RunSpec:
    return run_on(place / "mine.txt", *STEPS)


def a_study(place: Path) -> Study:
    return study(place / "mine.txt", *QUICK, seeds=2, vary={"model.position": ["Learned", "Rope"]})


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("few", [FEW, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_failing_disk_loses_no_bit_of_a_run(place: Path, few: int | None, counts: Counter[str]) -> None:
    spec = a_run(place)
    counts.update(all_calls(place, lambda home: train(spec, home, save_every=0), few))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("few", [FEW, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_failing_disk_loses_no_bit_of_a_study(place: Path, few: int | None, counts: Counter[str]) -> None:
    made = a_study(place)

    def work(home: Path) -> None:
        carried(made, home, save_every=0)

    counts.update(all_calls(place, work, few))
    record = folder_of(made, place / "home") / "study.json"
    assert record.is_file()


@pytest.mark.parametrize("few", [FEW, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_failing_disk_loses_no_cache(
    place: Path, few: int | None, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens are written anew in every attempt."""
    spec = a_run(place)

    def work(home: Path) -> None:
        monkeypatch.setenv("HEADTOHEAD_CACHE", str(home / "cache"))
        train(spec, home)

    counts.update(all_calls(place, work, few))
