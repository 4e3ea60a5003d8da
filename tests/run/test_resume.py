"""Stopped, killed or damaged on the way: what is set aside, what is said, and the same bits in the end."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from headtohead import InputError, RunSpec
from headtohead.run.events import Started
from headtohead.run.session import execute
from headtohead.run.store import UNFINISHED, lock, to_text
from helpers.corpora import write_text
from helpers.runs import SMALL_OPTIONS, give_up, reached, results, run_on, train
from helpers.terminal import H2H, h2h, start, until

STEPS = ["train.steps=40", "evaluate.every=10", "model.dropout=0.1"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run undisturbed, and the run given up in the midst, made once."""
    where = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(where / "cache"))
        spec = run_on(write_text(where), *STEPS)
        train(spec, where / "undisturbed")
        give_up(spec, where / "given-up" / "runs" / spec.id, 20)
    return where


@pytest.fixture
def spec(prepared: Path, tmp_path: Path) -> RunSpec:
    return run_on(Path(shutil.copy(prepared / "mine.txt", tmp_path)), *STEPS)


@pytest.fixture
def wanted(spec: RunSpec, prepared: Path) -> dict[str, object]:
    """What the run comes to undisturbed; run.json apart, which says where its text lies."""
    return _but_the_place(results(prepared / "undisturbed" / "runs" / spec.id))


@pytest.fixture
def folder(spec: RunSpec, home: Path, prepared: Path) -> Path:
    """The run given up in the midst, with two checkpoints and metrics beyond them."""
    folder = Path(shutil.copytree(prepared / "given-up" / "runs" / spec.id, home / "runs" / spec.id))
    (folder / "run.json").write_text(to_text(spec.to_json()))
    assert {"checkpoint.safetensors", "checkpoint.old.safetensors"} <= set(os.listdir(folder))
    return folder


def _but_the_place(found: dict[str, object]) -> dict[str, object]:
    run = json.loads(found["run.json"])  # type: ignore[arg-type]
    run["arm"]["data"]["corpus"]["path"] = ""
    return found | {"run.json": run}


def cut(path: Path, length: int) -> None:
    os.truncate(path, length)


# -- stopped by the user -----------------------------------------------------------------------------------------------

LONG = ["--set", "train.batch=16", "--set", "model.dropout=0.1", "--steps", 300]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_resumes_to_the_same_bits(number: int, text: Path, home: Path, tmp_path: Path) -> None:
    running = start("train", "lm", "--data", text, *SMALL_OPTIONS, *LONG)
    spec = run_on(text, "train.batch=16", "model.dropout=0.1", "train.steps=300")
    until(lambda: reached(home / "runs" / spec.id) >= 60)
    running.send(number)
    done = running.wait()
    assert done.code == 130
    said = " ".join(done.out.split())
    assert "of 300, everything is saved; continue with: h2h train --resume " + spec.id[:8] in said
    assert "Traceback" not in done.err
    listed = h2h("list", "runs", "--json").json
    assert [(r["run"], r["state"]) for r in listed] == [(spec.id, "stopped")]
    resumed = h2h("train", "--resume", spec.id[:6], "--json")
    assert resumed.code == 0
    assert resumed.json[0]["run"] == spec.id
    train(spec, tmp_path / "undisturbed")
    assert results(home / "runs" / spec.id) == results(tmp_path / "undisturbed" / "runs" / spec.id)


def test_a_stopped_run_prints_json(text: Path, home: Path) -> None:
    running = start("train", "lm", "--data", text, *SMALL_OPTIONS, *LONG, "--json")
    until(lambda: any(reached(f) >= 20 for f in home.glob("runs/*")))
    running.send(signal.SIGINT)
    row = running.wait().json[0]
    assert row["status"] == "stopped"
    assert 20 <= row["steps"] < row["of"] == 300


def test_a_stop_at_the_end_of_a_run_starts_no_other(text: Path, home: Path) -> None:
    """A long text to test on keeps the end of the run long enough to meet it."""
    Path("long.txt").write_text("we the people\n" * 40_000)
    command = ["train", "lm", "--data", text, "--test", "long.txt", *SMALL_OPTIONS, "--steps", 30]
    running = start(*command, "--seeds", 2, "--jobs", 1)
    until(lambda: any(reached(f) >= 30 for f in home.glob("runs/*")))  # its last line is written, its result not yet
    running.send(signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    assert len(list(home.glob("runs/*/run.json"))) == 1


@pytest.mark.parametrize(
    ("number", "seeds"),
    [
        pytest.param(
            signal.SIGINT,
            5,
            marks=[
                pytest.mark.slow,
            ],
        ),
        pytest.param(
            signal.SIGTERM,
            2,
            marks=[
                pytest.mark.slow,
            ],
        ),
    ],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_stopped_pool_saves_every_run_and_starts_no_other(number: int, seeds: int, text: Path, home: Path) -> None:
    options = ["--set", "train.batch=16", "--steps", "30000", "--seeds", str(seeds), "--jobs", "2"]
    command = [H2H, "train", "lm", "--data", str(text), *SMALL_OPTIONS, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0) as pool:
        try:
            until(lambda: sum(reached(f) >= 300 for f in home.glob("runs/*")) == 2)
            pool.send_signal(number)
            out, err = pool.communicate(timeout=10)
            saved = {f.parent.name for f in home.glob("runs/*/checkpoint.safetensors")}
            assert len(saved) == 2
            assert pool.returncode == 130
            assert len(list(home.glob("runs/*"))) == 2
            assert all(f"h2h train --resume {run[:8]}" in out + err for run in saved)
        finally:
            os.killpg(pool.pid, signal.SIGKILL)


# -- damaged checkpoints -----------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda p: cut(p, 0),
    "five bytes": lambda p: cut(p, 5),
    "half the header": lambda p: cut(p, 200),
    "half the weights": lambda p: cut(p, p.stat().st_size // 2),
    "one byte short": lambda p: cut(p, p.stat().st_size - 1),
    "zeros": lambda p: p.write_bytes(bytes(p.stat().st_size)),
    "random bytes": lambda p: p.write_bytes(random.Random(0).randbytes(p.stat().st_size)),
    "no facts": lambda p: save_file(load_file(p), p),
    "facts of no kind": lambda p: save_file(load_file(p), p, {"facts": "[]"}),
    "other weights": lambda p: save_file({}, p, {"facts": _facts(p)}),
    "no optimizer": lambda p: save_file(_without(p, "optimizer/"), p, {"facts": _facts(p)}),
    "some of the weights": lambda p: save_file(_without(p, "model/head"), p, {"facts": _facts(p)}),
    "an optimizer of something else": lambda p: save_file(
        {k.replace("optimizer/", "optimizer/x"): v for k, v in load_file(p).items()}, p, {"facts": _facts(p)}
    ),
    "zeros at the end": lambda p: p.write_bytes(p.read_bytes()[:-50_000] + bytes(50_000)),
}


def _facts(path: Path) -> str:
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["facts"]


def _without(path: Path, prefix: str) -> dict[str, object]:
    return {k: v for k, v in load_file(path).items() if not k.startswith(prefix)}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_replaced_by_the_earlier_one(
    damage: str, spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    path = folder / "checkpoint.safetensors"
    DAMAGES[damage](path)
    bad = path.read_bytes()
    started = train(spec, home)[0]
    assert isinstance(started, Started)
    assert started.done > 0
    torn = folder / "checkpoint.safetensors.damaged-1"
    assert f"checkpoint.safetensors was damaged: it is set aside as {torn}" in started.warnings
    assert torn.read_bytes() == bad
    assert _but_the_place(results(folder)) == wanted


@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_sound_checkpoint_a_run_restarts(
    damage: str, spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    for name in ("checkpoint.safetensors", "checkpoint.old.safetensors"):
        DAMAGES[damage](folder / name)
    started = train(spec, home)[0]
    assert isinstance(started, Started)
    assert started.done == 0
    assert {"checkpoint.safetensors.damaged-1", "checkpoint.old.safetensors.damaged-1"} <= set(os.listdir(folder))
    assert _but_the_place(results(folder)) == wanted


def test_a_checkpoint_of_another_run_is_set_aside(
    spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    other = spec.set("seed", 1)
    give_up(other, home / "runs" / other.id, 20)
    shutil.copy(home / "runs" / other.id / "checkpoint.safetensors", folder)
    train(spec, home)
    assert (folder / "checkpoint.safetensors.damaged-1").exists()
    assert _but_the_place(results(folder)) == wanted


def test_a_kill_while_saving_uses_the_earlier_checkpoint(
    spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    (folder / "checkpoint.safetensors").unlink()
    (folder / ".checkpoint.safetensors.abc").write_bytes(b"half")
    started = train(spec, home)[0]
    assert isinstance(started, Started)
    assert started.done > 0
    assert _but_the_place(results(folder)) == wanted


def test_a_killed_write_leaves_nothing(spec: RunSpec, folder: Path, home: Path) -> None:
    (folder / f".checkpoint.safetensors.k3jd8_a1{UNFINISHED}").write_bytes(b"half")
    train(spec, home)
    assert [f for f in os.listdir(folder) if f.startswith(".")] == []


def test_a_finished_run_keeps_no_checkpoint(spec: RunSpec, folder: Path, home: Path) -> None:
    train(spec, home)
    assert not list(folder.glob("checkpoint*"))


# -- other files -------------------------------------------------------------------------------------------------------


def test_a_resumed_run_has_times_of_all_evaluations(spec: RunSpec, folder: Path, home: Path) -> None:
    train(spec, home)
    times = json.loads((folder / "times.json").read_text())
    assert list(times["seconds_at"]) == ["0", "10", "20", "30", "40"]
    seconds = list(times["seconds_at"].values())
    assert seconds == sorted(seconds)
    assert seconds[-1] <= times["seconds"]


@pytest.mark.parametrize("extra", [b'{"step": 4', b'{"step": 999, "x": 1}\n' * 3, b"\x00\xff", b"\n\n"])
def test_metrics_after_the_checkpoint_are_removed(
    extra: bytes, spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(extra)
    started = train(spec, home)[0]
    assert isinstance(started, Started)
    assert started.done > 0
    assert _but_the_place(results(folder)) == wanted


@pytest.mark.parametrize("lost", [1, 100, 10**6])
def test_metrics_lost_before_the_checkpoint_restart_the_run(
    lost: int, spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    path = folder / "metrics.jsonl"
    checkpointed = json.loads(_facts(folder / "checkpoint.old.safetensors"))["lines"]
    cut(path, max(0, checkpointed - lost))
    train(spec, home)
    assert _but_the_place(results(folder)) == wanted


def test_a_run_without_its_metrics_restarts(spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]) -> None:
    (folder / "metrics.jsonl").unlink()
    train(spec, home)
    assert _but_the_place(results(folder)) == wanted


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"null", b"\x00" * 99])
def test_a_damaged_run_json_is_set_aside_and_rewritten(
    content: bytes, spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]
) -> None:
    (folder / "run.json").write_bytes(content)
    train(spec, home)
    assert _but_the_place(results(folder)) == wanted
    assert (folder / "run.json.damaged-1").read_bytes() == content


def test_a_run_with_a_damaged_run_json_is_listed_as_such(spec: RunSpec, folder: Path) -> None:
    (folder / "run.json").write_bytes(b"{")
    rows = h2h("list", "runs", "--json").json
    assert rows[0]["state"] == "unreadable"
    assert "run.json cannot be read" in rows[0]["what"]
    resumed = h2h("train", "--resume", spec.id)
    assert resumed.code == 2
    assert resumed.err.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [b"", b'{"status": "comp', b"\x00" * 9, b"{}", b"null", b"[]"],
)
def test_a_damaged_result_is_one_line_and_can_be_retrained(
    content: bytes, spec: RunSpec, home: Path, wanted: dict[str, object]
) -> None:
    train(spec, home)
    path = home / "runs" / spec.id / "result.json"
    path.write_bytes(content)
    again = h2h("train", "--resume", spec.id)
    assert again.code == 2
    assert again.err.count("\n") == 1
    assert "result.json cannot be read" in again.err
    path.rename(path.with_name("result.json.torn"))
    train(spec, home)
    assert _but_the_place(results(path.parent)) == wanted


def test_an_abandoned_run_leaves_no_file_open(spec: RunSpec, home: Path) -> None:
    events = execute(spec, home)
    next(events)
    opened = [os.path.realpath(f) for f in Path("/proc/self/fd").iterdir()]
    events.close()  # type: ignore[attr-defined]
    still = [os.path.realpath(f) for f in Path("/proc/self/fd").iterdir()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del events
        gc.collect()
    metrics = str(home / "runs" / spec.id / "metrics.jsonl")
    assert metrics in opened
    assert metrics not in still


# -- two at once -------------------------------------------------------------------------------------------------------


def test_a_second_process_gets_one_line(spec: RunSpec, folder: Path, home: Path, wanted: dict[str, object]) -> None:
    with lock(folder):
        assert h2h("list", "runs", "--json").json[0]["state"] == "running"
        second = h2h("train", "--resume", spec.id)
        assert second.code == 2
        assert second.err.startswith(f"h2h: run {spec.id} is being trained by another process")
        assert second.err.count("\n") == 1
        with pytest.raises(InputError, match="another process"):
            train(spec, home)
    train(spec, home)  # LOCK is still there, its holder is not
    assert _but_the_place(results(folder)) == wanted


def test_a_finished_run_is_not_trained_again(spec: RunSpec, home: Path) -> None:
    train(spec, home)
    path = home / "runs" / spec.id / "model.safetensors"
    before = path.stat().st_mtime_ns
    time.sleep(0.01)
    again = h2h("train", "--resume", spec.id)
    assert again.code == 0
    assert f"run {spec.id} is in the store already" in again.out
    assert path.stat().st_mtime_ns == before


@pytest.mark.usefixtures("folder")
def test_a_run_with_changed_text_is_not_resumed(spec: RunSpec, text: Path) -> None:
    text.write_text(text.read_text() + "more\n")
    done = h2h("train", "--resume", spec.id)
    assert done.code == 2
    assert "has changed since this run was made" in done.err
    assert done.err.count("\n") == 1


def test_a_run_of_an_absent_device_is_one_line(spec: RunSpec, home: Path) -> None:
    of_cuda = spec.set("device", "cuda")
    folder = home / "runs" / of_cuda.id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(of_cuda.to_json()))
    done = h2h("train", "--resume", of_cuda.id)
    assert done.code == 3
    assert done.err.count("\n") == 1
