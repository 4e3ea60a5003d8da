"""The same run twice is the same bits, however many run side by side and however often it is killed."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from headtohead import Arm, Files, Mqar, Record, RunSpec
from headtohead.run.events import Event, Finished, Stopped
from headtohead.run.session import Options, Stop, _Session
from headtohead.run.store import locked
from helpers.runs import SMALL, SMALL_OPTIONS, AskedInStep, give_up, reached, results, run_on, train, trained_record
from helpers.terminal import H2H, h2h, start, until

MUON = ["train.optimizer=Muon(lr=0.01)", "model.dropout=0.2", "train.schedule=OneCycle"]
ARMS = {
    "AdamW": [],
    "Muon, dropout and a schedule": MUON,
    "SGD, clipped": ["train.optimizer=SGD(lr=0.05)", "train.clip=0.5", "model.dropout=0.1"],
    "Adagrad in passes": ["train.optimizer=Adagrad", "train.sampling=ShuffledWindows", "train.epochs=1"],
    "tied": ["model.tied=true", "model.position=RelativeBias"],
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("arm", ARMS)
def test_the_same_run_in_two_stores_is_the_same_bits(arm: str, text: Path, home: Path, elsewhere: Path) -> None:
    spec = run_on(text, "train.steps=30", "train.batch=64", *ARMS[arm], "evaluate.snapshots=(0, 20)", seed=3)
    first, second = (train(spec, where)[-1] for where in (home, elsewhere))
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert results(first.record.folder) == results(second.record.folder)


def test_weights_are_written_the_same_way_every_time(text: Path, home: Path) -> None:
    """A header with several notes has them in an order that safetensors draws anew for every file."""
    spec = run_on(text, "train.steps=20", f"evaluate.snapshots={tuple(range(20))}")
    train(spec, home)
    files = [f.read_bytes() for f in (home / "runs" / spec.id / "snapshots").iterdir()]
    assert len(files) == 20
    assert len({f[: 8 + int.from_bytes(f[:8], "little")] for f in files}) == 1
    assert len(set(files)) == 20


def test_another_seed_changes_weights_and_batches(text: Path, home: Path) -> None:
    a, b = (train(run_on(text, "train.steps=5", seed=seed), home)[-1] for seed in (0, 1))
    assert isinstance(a, Finished)
    assert isinstance(b, Finished)
    first, second = a.record.metrics, b.record.metrics
    assert all(x != y for x, y in zip(first, second, strict=True))
    assert results(a.record.folder)["model.safetensors"] != results(b.record.folder)["model.safetensors"]


def test_jobs_change_no_bit(text: Path, home: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, and with the real command side by side in a pool."""
    command = ["train", "lm", "--data", str(text), *SMALL_OPTIONS, "--steps", "60", "--seeds", "2", "--json"]
    command += ["--set", "model.dropout=0.1"]
    assert h2h(*command, "--jobs", 1).code == 0
    monkeypatch.setenv("HEADTOHEAD_HOME", str(elsewhere))
    done = subprocess.run([H2H, *command, "--jobs", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [r["status"] for r in json.loads(done.stdout)] == ["complete"] * 2
    alone, together = ({f.name: results(f) for f in (where / "runs").iterdir()} for where in (home, elsewhere))
    assert len(alone) == 2
    assert alone == together


# -- stopped at any moment ---------------------------------------------------------------------------------------------


class AskedAtReading(Stop):
    """A stop that is asked for just before the n-th time that somebody looks whether it was, as a signal may come
    between any two lines."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def asked(self) -> bool:  # type: ignore[override]
        self.left -= 1
        return self.left < 0


def session(spec: RunSpec, folder: Path, stop: Stop) -> Event:
    return list(_Session(spec, folder, Options(save_every=1e9)).run(stop))[-1]


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_stopped_many_times_ends_in_the_same_bits(arm: str, text: Path, home: Path, elsewhere: Path) -> None:
    """Of 200 steps every second one's loss is read, so that at some stops a loss is pending."""
    settings = ["train.steps=200", "evaluate.train=0", "evaluate.every=45", "evaluate.snapshots=(0, 33, 180)"]
    spec = run_on(text, *ARMS[arm], *settings)
    train(spec, home)
    folder = elsewhere / "runs" / spec.id
    for step in (0, 1, 2, 44, 45, 101, 179, 180, 198):
        assert isinstance(session(spec, folder, AskedInStep(step)), Stopped)
    assert isinstance(session(spec, folder, AskedInStep(199)), Finished)  # too late to stop
    assert results(folder) == results(home / "runs" / spec.id)


def test_the_best_step_survives_a_stop(text: Path, home: Path) -> None:
    """A learning rate that grows until nothing is left of what was learned: the best look lies before the stop."""
    growing = ["train.optimizer=AdamW(lr=3, weight_decay=0)", "train.schedule=WarmupCosine(warmup=1)"]
    spec = run_on(text, "train.steps=60", "evaluate.every=10", *growing)
    folder = home / "runs" / spec.id
    assert isinstance(session(spec, folder, AskedInStep(45)), Stopped)
    session(spec, folder, Stop())
    looked = [(m["validation/loss"], m["step"]) for m in Record(folder).metrics if "validation/loss" in m and m["step"]]
    result = Record(folder).result
    assert result is not None
    assert min(looked)[1] < 45
    assert (result.best.value, result.best.step) == min(looked)


def test_a_stop_between_any_two_lines_saves_everything(text: Path, home: Path, elsewhere: Path) -> None:
    spec = run_on(text, "train.steps=200", "evaluate.every=50", "evaluate.train=0", "train.optimizer=SGD")
    train(spec, home)
    for reading in range(6):
        folder = elsewhere / f"{reading}" / spec.id
        stopped = session(spec, folder, AskedAtReading(reading))
        assert isinstance(stopped, Stopped)
        assert (folder / "checkpoint.safetensors").exists()
        session(spec, folder, Stop())
        assert results(folder) == results(home / "runs" / spec.id)


# -- killed at any moment ----------------------------------------------------------------------------------------------


def killed_and_resumed(command: list[str], spec: RunSpec, home: Path, steps: int, kills: int, fork: bool) -> int:
    """Kill the command at so many random moments and let it end; returns how many kills hit it while it trained."""
    draw = random.Random(kills)
    folder = home / "runs" / spec.id
    moments = sorted(draw.randrange(steps * 9 // 10) for _ in range(kills))
    hits = 0
    for moment in moments:
        process = start(*command).process if fork else subprocess.Popen([H2H, *command], stderr=subprocess.DEVNULL)
        before = (folder / "metrics.jsonl").stat().st_mtime_ns if (folder / "metrics.jsonl").exists() else 0
        # lines written by this process, not by one that was killed
        until(lambda at=moment, old=before: _written_since(folder, old) and reached(folder) >= at)
        time.sleep(draw.uniform(0, 0.08))
        hits += locked(folder) and not (folder / "result.json").exists()
        process.kill()
        process.join() if fork else process.wait()
    process = start(*command).process if fork else subprocess.Popen([H2H, *command], stderr=subprocess.DEVNULL)
    process.join() if fork else process.wait()
    return hits


def _written_since(folder: Path, before: int) -> bool:
    path = folder / "metrics.jsonl"
    return path.exists() and path.stat().st_mtime_ns > before


@pytest.mark.parametrize(
    ("arm", "kills", "fork"),
    [
        pytest.param("AdamW", 4, True, id="4 times"),
        pytest.param("Muon, dropout and a schedule", 8, True, id="8 times, with dropout and Muon"),
        pytest.param("AdamW", 20, True, id="20 times", marks=pytest.mark.slow),
        pytest.param("AdamW", 2, False, id="twice, from a shell", marks=pytest.mark.slow),
        pytest.param("Muon, dropout and a schedule", 20, False, id="20 times, from a shell", marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_resumes_to_the_same_bits(
    arm: str, kills: int, fork: bool, text: Path, home: Path, elsewhere: Path
) -> None:
    steps = 400
    settings = [
        *SMALL,
        "train.batch=16",
        "evaluate.every=80",
        *ARMS[arm],
        f"train.steps={steps}",
        "evaluate.snapshots=(0, 123, 300)",
    ]
    spec = RunSpec(arm=Arm.of("lm", Files(path=str(text))).settings(settings)).resolved()
    train(spec, elsewhere)
    options = [part for setting in settings for part in ("--set", setting)]
    command = ["train", "lm", "--data", str(text), *options, "--save-every", "0.05", "--jobs", "1"]
    hits = killed_and_resumed(command, spec, home, steps, kills, fork)
    assert hits >= 0.75 * kills
    assert results(home / "runs" / spec.id) == results(elsewhere / "runs" / spec.id)


def test_a_run_on_generated_examples_goes_on_with_the_same_bits(home: Path, tmp_path: Path) -> None:
    for fixed in ("none", "40"):
        settings = [f"data.corpus.examples={fixed}", "model.width=16", "train.steps=24", "evaluate.every=8"]
        arm = Arm.of("lm", Mqar(pairs=2, length=8, keys=4, values=4, tested=64)).settings(settings)
        spec = RunSpec(arm=arm.set("model.dropout", 0.1)).resolved()
        whole, folder = trained_record(spec, home).folder, tmp_path / fixed / "runs" / spec.id
        give_up(spec, folder, 8)
        assert not (folder / "result.json").exists()
        train(spec, tmp_path / fixed)
        assert results(folder) == results(whole)
