"""Stores: an empty one for each test, one of tiny trained runs, and studies written without training."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.data.wheels import cache_folder
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.run import store
from headtohead.run.load import snapshot_steps
from headtohead.run.store import Record
from helpers.corpora import write_table, write_text
from helpers.runs import SMALL, run_on, train
from helpers.studies import carried, study

ENVIRONMENT = {
    "headtohead": "0.1.0",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    "python": "3.12.3",
    "system": "Linux",
    "processor": "a processor <b>of</b> some kind",
    "cores": 2,
    "device": "cpu",
    "threads": 1,
    "started": "2026-11-16T10:00:00+00:00",
}
LABELS = ("obama", "wbush", "hbush")
WATCHED = "evaluate.watch_test=true"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store and cache; the test runs in the folder that holds them."""
    vega = cache_folder() / "vega"  # takes seconds to make, and is the same for all tests
    vega.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "vega").symlink_to(vega)
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


# -- tiny trained runs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shelf:
    """A store with trained runs, by name."""

    home: Path
    lm: Record  # 40 steps, evaluated every 10, test set watched
    rope: Record  # the same with Rope
    unwatched: Record  # a language model whose test set is read at the end only
    classifier: Record  # 3 epochs, test set watched
    folder: Path  # with mine.txt and mine.csv


def trained(home: Path, task: Any, path: Path, *settings: str, seed: int = 0) -> Record:
    arm = Arm.of(task, Files(path=str(path))).settings([*SMALL, *settings])
    return train(RunSpec(arm=arm, seed=seed), home)[-1].record  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Train two language models, two classifiers and a study, once for all tests of a file."""
    folder = tmp_path_factory.mktemp("shelf")
    home, text, table = folder / "home", write_text(folder), write_table(folder)
    long = ("train.steps=40", "evaluate.every=10")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        patch.setenv("HEADTOHEAD_HOME", str(home))
        patch.chdir(folder)
        lm, _ = (trained(home, "lm", text, *long, WATCHED, seed=seed) for seed in (0, 1))
        rope = trained(home, "lm", text, *long, WATCHED, "model.position=Rope")
        unwatched = trained(home, "lm", text, "train.steps=20", "train.sampling=ShuffledWindows(stride=2)")
        classifier = trained(home, "classifier", table, "train.epochs=3", "train.batch=8", WATCHED)
        carried(study(text, seeds=2), home)
        yield Shelf(home, lm, rope, unwatched, classifier, folder)


@pytest.fixture(scope="module")
def snapshot_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two seeds of one arm, five snapshots each, and one run without snapshots."""
    folder = tmp_path_factory.mktemp("snapshots")
    text = write_text(folder)
    settings = ["train.steps=40", "model.heads=2", "model.layers=2", "evaluate.snapshots=5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        for seed in (0, 1):
            train(run_on(text, *settings, seed=seed), folder / "home")
        train(run_on(text, "train.steps=5"), folder / "home")
    return folder / "home"


@pytest.fixture
def ids(snapshot_home: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:  # noqa: ARG001
    """The ids in `snapshot_home` of the two seeds and of the run without snapshots; commands read that store."""
    monkeypatch.setenv("HEADTOHEAD_HOME", str(snapshot_home))
    found = {(r.spec["seed"], len(snapshot_steps(r)) > 0): r.id for r in store.runs(snapshot_home)}
    return found[0, True], found[1, True], found[0, False]


# -- studies written without training ----------------------------------------------------------------------------------


def stored(
    home: Path,
    effects: Mapping[str, float] | None = None,  # effect on the metric by arm, without the control
    *,
    seeds: int = 6,
    task: Any = "lm",
    name: str = "stored",
    control: str = "Learned",
    noise: float = 0.01,
    lost: Mapping[tuple[str, int], str] | None = None,  # by arm and seed: diverged, collapsed, failed, missing
    looks: int = 11,
    again: bool = True,
    **said: Any,
) -> Outcome:
    """Write a study and its runs as the store keeps them, with these values; return its outcome."""
    effects = {"Rope": -0.3, "Alibi": -0.002} if effects is None else effects
    base = Arm.of(task).to_json()
    draw = np.random.default_rng(0)
    middle = 3.0 if task == "lm" else 0.8
    of_seed = draw.normal(scale=0.05 if task == "lm" else 0.01, size=seeds)
    arms = []
    for number, (arm, effect) in enumerate({control: 0.0, **effects}.items()):
        spec = json.loads(json.dumps(base))
        if number:
            spec["model"]["position"] = {"kind": "Rope", "theta": 100.0 + number}
        own = draw.normal(scale=noise, size=seeds) * (number > 0)
        own -= own.mean()  # an arm without effect has none
        runs = {}
        for seed in range(seeds):
            value = middle + effect + of_seed[seed] + own[seed]
            status = (lost or {}).get((arm, seed), "complete")
            runs[str(seed)] = _run(home, f"{name}/{arm}", seed, spec, value, task, looks, status, number)
        differs = {"model.position": f"Rope(theta={100 + number})"} if number else {}
        arms.append({"name": arm, "differs": differs, "spec": spec, "runs": runs})
    others = {
        str(s): _run(home, f"{name}/again", s, base, middle + of_seed[s] + noise * draw.normal(), task, looks)
        for s in range(seeds if again else 0)
    }
    written = {
        "format": 1,
        "id": "0" * 16,
        "name": name,
        "question": "Does it matter?",
        "command": "h2h run stored.py --seeds 6",
        "takes": "no time",
        "expected": "",
        "task": task,
        "corpus": "sotu",
        "metric": "test/loss" if task == "lm" else "test/accuracy",
        "better": "lower" if task == "lm" else "higher",
        "margin": None,
        "vary": ["model.position"],
        "seeds": list(range(seeds)),
        "made_on": {},
        "tables": [{"title": "", "arms": arms}],
        "again": others,
        "tuning": [],
    }
    folder = home / "studies" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(written | said))
    return load_outcome(folder)


def _run(
    home: Path,
    what: str,
    seed: int,
    spec: dict[str, Any],
    value: float,
    task: str,
    looks: int,
    status: str = "complete",
    number: int = 0,
) -> str:
    id = hashlib.sha256(f"{what}@{seed}".encode()).hexdigest()[:16]
    if status == "missing":
        return id
    folder = home / "runs" / id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"kind": "RunSpec", "arm": spec, "seed": seed}))
    (folder / "env.json").write_text(json.dumps(ENVIRONMENT))
    if status == "failed":
        (folder / "failed.json").write_text(json.dumps({"reason": "out of memory"}))
        return id
    figure = "loss" if task == "lm" else "accuracy"
    worse = 2.0 if task == "lm" else -0.4
    lines = [
        {"step": 50 * n, f"validation/{figure}": value + worse * 2.0 ** -(n if n else -1), "train/loss": 1.0}
        for n in range(looks)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    finished = "2026-11-16T10:10:00+00:00"
    (folder / "times.json").write_text(json.dumps({"seconds": 4.0, "step_ms": 8.0 + number, "finished": finished}))
    sets = {"validation": {"texts": 60, "bytes": 900}, "test": {"texts": 60, "bytes": 900}}
    values: dict[str, Any] = {f"test/{figure}": value, "test/tokens": 960, f"validation/{figure}": value}
    items = {"start": np.arange(30) * 32, "tokens": np.full(30, 32), "loss": np.full(30, value)}
    if task == "classifier":
        right = round(100 * value)
        rest = 100 - right
        values["test/confusion"] = [[right, rest, 0], [0, right, rest], [rest, 0, right]]
        if status == "collapsed":
            values["test/confusion"] = [[100, 0, 0], [100, 0, 0], [100, 0, 0]]
        items = {"label": np.arange(30) % 3, "predicted": np.arange(30) % 3 * (np.arange(30) % 5 > 0)}
        items["loss"] = np.full(30, 0.5)
    buffer = io.BytesIO()
    np.savez(buffer, **{f"test/{k}": v for k, v in items.items()})
    (folder / "items.npz").write_bytes(buffer.getvalue())
    ended = "complete" if status != "diverged" else "diverged at step 3"
    result = {
        "status": "diverged" if status == "diverged" else "complete",
        "ended": ended,
        "steps": 500,
        "parameters": 100_000 + number,
        "flops_per_step": 10**8 * (10 + number),
        "tokens_per_step": 512,
        "values": values if status != "diverged" else {},
        "data": {"sets": sets, "tests": ["test"], **({"says": list(LABELS)} if task == "classifier" else {})},
        "warnings": [],
    }
    (folder / "result.json").write_text(json.dumps(result))
    return id
