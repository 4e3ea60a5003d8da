"""Trackers, with the real libraries: values are read back by the library's own reader, and no connection is made."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import InputError, Unavailable
from headtohead.run.trackers import TRACKERS, Track, Tracker, flatten

CONFIG = {"model": {"heads": 4, "position": {"kind": "Rope", "theta": 500.0}, "norms": ["pre", None]}, "seed": 0}
FLAT = {
    "model.heads": 4,
    "model.position.kind": "Rope",
    "model.position.theta": 500.0,
    "model.norms": '["pre", null]',
    "seed": 0,
}
SUMMARY = {"loss": 0.125, "steps": 3}
RUNS = itertools.count()

every_tracker = pytest.mark.parametrize("name", sorted(TRACKERS))


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Fails a test in which this process, or a program that it starts, tries to connect to another machine.

    In this process connecting is refused and noted. A program started from here, such as wandb's, would go through
    the proxy, which notes connections.
    """
    tried: list[Any] = []
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            tried.append(address)
            raise ConnectionRefusedError(f"no network in tests: {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "")
        yield tried
        if "wandb" in sys.modules:  # its program keeps the proxy of the test that started it
            sys.modules["wandb"].teardown()
        assert tried == []
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A process can use Trackio in one folder only: the folder of the first test that imported it."""
    if "trackio" in sys.modules:
        return Path(sys.modules["trackio.utils"].TRACKIO_DIR)
    return tmp_path


@pytest.fixture
def run() -> str:
    return f"run{next(RUNS)}"


# -- reading back ------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a library has of one run: values and final figures as (step, value) by name."""

    values: dict[str, list[tuple[int, float]]]
    config: dict[str, Any]

    def final(self) -> dict[str, float]:
        found = {key: points[-1][1] for key, points in self.values.items() if key.startswith("summary/")}
        return {key.removeprefix("summary/"): value for key, value in found.items()}

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        return {key: points for key, points in self.values.items() if not key.startswith("summary/")}


READ_TRACKIO = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage as storage
run = sys.argv[1]
print(json.dumps([storage.get_logs("headtohead", run), storage.get_run_config("headtohead", run)]))
"""


def read_trackio(folder: Path, run: str) -> Seen:
    rows, config = json.loads(python(READ_TRACKIO, run, TRACKIO_DIR=str(folder)))
    values: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for key in row.keys() - {"step", "timestamp"}:
            values.setdefault(key, []).append((row["step"], row[key]))
    return Seen(values, config)


def read_tensorboard(folder: Path, run: str) -> Seen:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / run))
    events.Reload()
    tags = events.Tags()["scalars"]
    text = events.Tensors("config")[-1].tensor_proto.string_val[0].decode()
    config = json.loads(text.removeprefix("```json\n").removesuffix("\n```"))
    return Seen({tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}, config)


def read_wandb(folder: Path, run: str) -> Seen:
    """Reads every directory of the run with `wandb leet inspect`, the oldest first."""
    seen = Seen({}, {})
    for file in sorted(folder.glob(f"wandb/*/run-{run}.wandb")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file.parent)]
        environment = os.environ | {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        for line in done.stdout.splitlines():
            match json.loads(line):
                case {"run": {"config": {"update": config}}}:
                    seen.config |= {key: value for key, value in config.items() if key != "_wandb"}
                case {"history": {"item": item, "step": {"num": step}}}:
                    for key, value in item.items():
                        if not key.startswith("_"):
                            seen.values.setdefault(key, []).append((step, float(value)))
    return seen


READERS = {"trackio": read_trackio, "tensorboard": read_tensorboard, "wandb": read_wandb}


def python(code: str, *arguments: object, **environment: str) -> str:
    """What a process prints that runs the code. It must succeed and write nothing to stderr."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- what is written ---------------------------------------------------------------------------------------------------


@every_tracker
def test_logged_values_are_read_back(name: str, folder: Path, run: str, capfd: pytest.CaptureFixture[str]) -> None:
    tracker = Tracker(name, folder, run, CONFIG)
    for step in range(3):
        tracker.log(step, {"loss": 2.0**-step, "dev/accuracy": 0.25 * step})
    tracker.log(2, {"seconds": 7})  # a second call for a step
    tracker.log(9, {"loss": math.inf, "gone": math.nan})
    tracker.finish(SUMMARY)
    printed = capfd.readouterr()
    seen = READERS[name](folder, run)
    [(step, gone)] = seen.values.pop("gone")
    assert step == 9
    assert math.isnan(gone)
    assert seen.curves() == {
        "loss": [(0, 1.0), (1, 0.5), (2, 0.25), (9, math.inf)],
        "dev/accuracy": [(0, 0.0), (1, 0.25), (2, 0.5)],
        "seconds": [(2, 7.0)],
    }
    assert seen.config == FLAT
    assert seen.final() == SUMMARY
    assert (printed.out, printed.err) == ("", "")


@every_tracker
def test_two_runs_open_at_once_stay_apart(name: str, folder: Path, run: str) -> None:
    one, two = Tracker(name, folder, f"{run}a", CONFIG), Tracker(name, folder, f"{run}b", CONFIG)
    one.log(0, {"loss": 1.0})
    two.log(0, {"loss": 2.0})
    one.finish({"loss": 1.0})
    two.log(1, {"loss": 3.0})
    two.finish({"loss": 3.0})
    first, second = (READERS[name](folder, f"{run}{letter}") for letter in "ab")
    assert first.curves() == {"loss": [(0, 1.0)]}
    assert second.curves() == {"loss": [(0, 2.0), (1, 3.0)]}
    assert (first.final(), second.final()) == ({"loss": 1.0}, {"loss": 3.0})


@every_tracker
def test_a_resumed_run_continues_its_log(name: str, folder: Path, run: str) -> None:
    """Steps 2 and 3 are logged twice, as after a crash behind the last checkpoint, with values that tell them apart."""
    before = Tracker(name, folder, run, CONFIG)
    for step in range(4):
        before.log(step, {"loss": 1.0})
    before.finish({})
    after = Tracker(name, folder, run, CONFIG)
    for step in range(2, 6):
        after.log(step, {"loss": 0.5})
    after.finish({"loss": 0.5})
    seen = READERS[name](folder, run)
    old, new = [(step, 1.0) for step in range(4)], [(step, 0.5) for step in range(2, 6)]
    expected = {"tensorboard": old[:2] + new, "trackio": old + new[2:], "wandb": old + new}
    assert sorted(seen.values["loss"]) == sorted(expected[name])
    assert seen.config == FLAT
    assert seen.final() == {"loss": 0.5}


def test_tensorboard_keeps_curves_of_a_run_reopened_unused(tmp_path: Path) -> None:
    for steps in ([7], []):
        tracker = Tracker("tensorboard", tmp_path, "run", CONFIG)
        for step in steps:
            tracker.log(step, {"loss": 1.0})
        tracker.finish({"loss": 1.0})
    assert read_tensorboard(tmp_path, "run").curves() == {"loss": [(7, 1.0)]}


def test_tensorboard_knows_the_hyperparameters(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    Tracker("tensorboard", tmp_path, "run", CONFIG).finish({})
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hyperparameters = HParamsPluginData.FromString(content).session_start_info.hparams
    assert hyperparameters["model.heads"].number_value == 4
    assert hyperparameters["model.norms"].string_value == '["pre", null]'


def test_trackio_lists_runs_as_documented(folder: Path, run: str) -> None:
    tracker = Tracker("trackio", folder, run, CONFIG)
    tracker.log(0, {"loss": 1.0})
    tracker.finish({})
    command = [sys.executable, "-m", "trackio.cli", "list", "runs", "--project", "headtohead", "--json"]
    environment = os.environ | {"TRACKIO_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert run in done.stdout


def test_trackio_writes_before_the_end_of_a_run(folder: Path, run: str) -> None:
    tracker = Tracker("trackio", folder, run, CONFIG)
    tracker.log(0, {"loss": 1.0})
    assert read_trackio(folder, run).values == {"loss": [(0, 1.0)]}
    tracker.finish({})


@every_tracker
def test_runs_in_worker_processes_are_logged(name: str, tmp_path: Path) -> None:
    text = tmp_path / "story.txt"
    text.write_text("".join(f"the {a} fox sees the {b} hen\n" for a in ("red", "old", "big") for b in "abcdefghij"))
    settings = ["model.block=8", "model.width=16", "model.heads=2", "model.layers=1"]
    words = ["--data", text, *itertools.chain(*(("--set", setting) for setting in settings)), "--steps", 3]
    command = ["train", "lm", *words, "--seeds", 2, "--jobs", 2, "--json", "--log-to", name]
    h2h = [sys.executable, "-c", "from headtohead.cli import main; main()", *map(str, command)]
    environment = os.environ | {"HEADTOHEAD_HOME": str(tmp_path), "HEADTOHEAD_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(h2h, capture_output=True, text=True, check=True, timeout=120, env=environment)
    assert name not in done.stderr  # no warning
    trained = json.loads(done.stdout)
    assert len(trained) == 2
    for run in trained:
        seen = READERS[name](tmp_path / "tracking" / name, run["run"])
        assert [step for step, _ in seen.values["train/batch_loss"]] == [1, 2, 3]
        assert seen.config["seed"] == run["seed"]
        assert seen.final() == pytest.approx({k: v for k, v in run["values"].items() if isinstance(v, int | float)})


# -- what is left behind -----------------------------------------------------------------------------------------------


@every_tracker
def test_trackers_write_only_into_their_folder(name: str, tmp_path: Path) -> None:
    code = PRELUDE + f"tracker = start({name!r}); tracker.log(0, {{'loss': 1.0}}); tracker.finish({{'loss': 1.0}})"
    home = {v: str(tmp_path / "home") for v in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    assert python(code, tmp_path / name, **home) == ""
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds programs in /proc")
@every_tracker
def test_trackers_leave_no_process(name: str, tmp_path: Path) -> None:
    code = PRELUDE + f"tracker = start({name!r}); tracker.log(0, {{'loss': 1.0}}); print(*children())"
    started = python(code, tmp_path).split()
    assert len(started) == (name == "wandb")
    deadline = time.monotonic() + 30
    while any(Path("/proc", program).exists() for program in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_trackers_start_no_thread(name: str, folder: Path, run: str) -> None:
    Tracker(name, folder, run, CONFIG).finish({})  # imports may start some
    threads = set(threading.enumerate())
    tracker = Tracker(name, folder, run, CONFIG)
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)
    assert set(threading.enumerate()) <= threads


ASKING_FOR_THE_NETWORK = {
    "HF_TOKEN": "hf_" + "x" * 34,
    "TRACKIO_SPACE_ID": "somebody/space",
    "TRACKIO_BUCKET_ID": "somebody/bucket",
    "TRACKIO_DATASET_ID": "somebody/dataset",
    "SPACE_REPO_NAME": "space",
    "WANDB_API_KEY": "0" * 40,
    "WANDB_MODE": "online",
    "WANDB_RUN_ID": "other",
}


@every_tracker
def test_variables_that_ask_for_the_network_are_ignored(
    name: str, folder: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture `attempts` checks that no connection is tried."""
    if name == "trackio":
        Tracker(name, folder, run, CONFIG).finish({})  # imports it with its folder
        from trackio.sqlite_storage import SQLiteStorage

        monkeypatch.setattr(SQLiteStorage, "_dataset_import_attempted", False)  # as in a fresh process
    for variable, value in ASKING_FOR_THE_NETWORK.items():
        monkeypatch.setenv(variable, value)
    tracker = Tracker(name, folder, run, CONFIG)
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)
    assert READERS[name](folder, run).curves() == {"loss": [(0, 1.0)]}


def test_the_network_guard_sees_an_attempt(attempts: list[Any]) -> None:
    with pytest.raises(ConnectionRefusedError, match="no network"):
        socket.create_connection(("192.0.2.1", 443), timeout=1)
    assert attempts == [("192.0.2.1", 443)]
    attempts.clear()


def test_libraries_are_imported_only_when_chosen() -> None:
    libraries = ("trackio", "tensorboard", "wandb", "torch")
    assert python(f"import sys, headtohead.run.trackers; print([m for m in {libraries} if m in sys.modules])") == "[]\n"


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_an_unknown_tracker_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^there is no tracker 'tensorbord': did you mean tensorboard\? known: ") as e:
        Track("tensorbord")
    assert not isinstance(e.value, Unavailable)


@every_tracker
def test_a_missing_package_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Track(name).name == name
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(
        Unavailable, match=rf"^the tracker {name} needs the extra track: pip install 'headtohead\[track\]'$"
    ):
        Track(name)


@every_tracker
def test_the_first_failure_is_reported_and_the_run_goes_on(name: str, folder: Path, run: str) -> None:
    tracker = Tracker(name, folder, run, CONFIG)
    tracker.log(0, {"loss": 1.0})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in (1, 2):
            tracker.log(step, {"loss": "none"})  # type: ignore[dict-item]
        tracker.log(3, {"loss": 1.0})
        tracker.finish(SUMMARY)
        tracker.finish(SUMMARY)
    [warning] = said
    assert str(warning.message).startswith(
        f"{name} failed at step 1 and is closed, the run continues: ValueError: could"
    )
    assert warning.filename == __file__
    assert READERS[name](folder, run).values == {"loss": [(0, 1.0)]}  # what came before is kept


@every_tracker
def test_a_tracking_folder_that_is_a_file_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(
        UserWarning, match=f"^{name} failed when it was opened and is closed, the run continues: .*File exists"
    ) as said:
        tracker = Tracker(name, tmp_path / "file", "run", CONFIG)
    [warning] = said
    assert "\n" not in str(warning.message)
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)


def test_trackio_in_a_second_folder_is_one_line(folder: Path, run: str, tmp_path: Path) -> None:
    Tracker("trackio", folder, run, CONFIG).finish({})
    with pytest.warns(
        UserWarning, match="^trackio failed when it was opened .*this process tracks in .*; start another"
    ):
        Tracker("trackio", tmp_path / "second", run, CONFIG)


PRELUDE = """
import os, sys, time, warnings
from pathlib import Path
from headtohead.run.trackers import Tracker
folder = Path(sys.argv[1])
warnings.showwarning = lambda message, *_, **__: print(message)
children = lambda: [p for t in Path("/proc/self/task").iterdir() for p in (t / "children").read_text().split()]
start = lambda name: Tracker(name, folder, "run", {})
"""


def test_a_broken_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "headtohead.db").write_bytes(b"not a database" * 100)
    code = PRELUDE + "tracker = start('trackio'); tracker.log(0, {'loss': 1.0}); tracker.finish({'loss': 1.0})"
    [line] = python(code, tmp_path).splitlines()
    assert line.startswith("trackio failed at step 0")
    assert "DatabaseError" in line


@pytest.mark.skipif(sys.platform == "win32", reason="limits on files are POSIX")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    code = (
        PRELUDE
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
tracker = start("tensorboard")
for step in range(1000):
    tracker.log(step, {"loss": 1.0})
tracker.finish({"loss": 1.0})
"""
    )
    [line] = python(code, tmp_path).splitlines()
    assert line.startswith("tensorboard failed at step ")
    assert line.endswith("OSError: [Errno 27] File too large")


# -- names -------------------------------------------------------------------------------------------------------------


def test_nested_settings_become_dotted_names() -> None:
    assert flatten(CONFIG) == FLAT
    assert flatten({"a": {}, "b": [], "c": None, "d": True}) == {"b": "[]", "c": "null", "d": True}
