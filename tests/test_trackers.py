"""Trackers, the real libraries: what was logged is read back by the library's own reader, and nothing leaves home."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import InputError, Unavailable
from headtohead.trackers import TRACKERS, Tracker, environment, file_name, flatten, open_tracker

CONFIG = {"model": {"heads": 4, "position": {"kind": "Rope", "theta": 500.0}, "norms": ["pre", None]}, "seed": 0}
FLAT = {
    "model.heads": 4,
    "model.position.kind": "Rope",
    "model.position.theta": 500.0,
    "model.norms.0": "pre",
    "model.norms.1": None,
    "seed": 0,
}
SUMMARY = {"loss": 0.125, "steps": 3, "verdict": "better"}

every_tracker = pytest.mark.parametrize("name", sorted(TRACKERS))


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every test: no connection to elsewhere is as much as tried, by this process or by a program it starts.

    Here connecting is refused and noted. A program started from here, wandb's, would go through the proxy, which notes
    who comes.
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
        assert tried == []
        with pytest.raises(BlockingIOError):
            proxy.accept()


def opened(name: str, folder: Path, run: str = "first", **settings: Any) -> Tracker:
    return open_tracker(name, folder=folder, run=run, config=CONFIG, **settings)


# -- reading back ------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a library knows of one run: values as (step, value) by name."""

    values: dict[str, list[tuple[int, float]]]
    config: dict[str, Any]
    summary: dict[str, Any]


def read_trackio(folder: Path, run: str) -> Seen:
    from trackio import sqlite_storage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_storage, "TRACKIO_DIR", folder)
        rows = sqlite_storage.SQLiteStorage.get_logs("headtohead", run)
        config = sqlite_storage.SQLiteStorage.get_run_config("headtohead", run) or {}
    values: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for key in row.keys() - {"step", "timestamp"}:
            if not key.startswith("summary/"):
                values.setdefault(key, []).append((row["step"], row[key]))
    summary = {key.removeprefix("summary."): value for key, value in config.items() if key.startswith("summary.")}
    return Seen(values, {key: value for key, value in config.items() if not key.startswith("summary.")}, summary)


def read_tensorboard(folder: Path, run: str) -> Seen:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / file_name(run)))
    events.Reload()

    def text(tag: str) -> Any:
        written = events.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        return json.loads(written.removeprefix("```json\n").removesuffix("\n```"))

    tags = events.Tags()
    values = {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in tags["scalars"]
        if not tag.startswith("summary/")
    }
    return Seen(values, flatten(text("config")), text("summary") if "summary" in tags["tensors"] else {})


def read_wandb(folder: Path, run: str) -> Seen:
    """wandb's own reader, `wandb leet inspect`, over every directory of the run, oldest first."""
    seen = Seen({}, {}, {})
    for directory in sorted(folder.glob(f"wandb/offline-run-*-{file_name(run)}*")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(directory)]
        with environment({"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}):
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        for line in done.stdout.splitlines():
            note_wandb_record(json.loads(line), seen)
    return seen


def note_wandb_record(record: dict[str, Any], seen: Seen) -> None:
    match record:
        case {"run": {"config": {"update": config}}}:
            seen.config |= flatten({key: value for key, value in config.items() if key != "_wandb"})
        case {"history": {"item": item, "step": {"num": step}}}:
            for key, value in item.items():
                if not key.startswith("_"):
                    seen.values.setdefault(key, []).append((step, float(value)))
        case {"summary": {"update": update}}:
            seen.summary |= {key: value for key, value in update.items() if not key.startswith("_")}


READERS = {"trackio": read_trackio, "tensorboard": read_tensorboard, "wandb": read_wandb}


# -- what is written ---------------------------------------------------------------------------------------------------


@every_tracker
def test_what_was_logged_is_read_back(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tracker = opened(name, tmp_path)
    for step in range(3):
        tracker.log(step, {"loss": 2.0**-step, "dev/accuracy": 0.25 * step})
    tracker.log(2, {"time": 7})  # a second call for a step, with a name that Trackio needs for itself
    tracker.log(9, {"loss": math.inf, "gone": math.nan})
    tracker.finish(SUMMARY)
    printed = capfd.readouterr()
    seen = READERS[name](tmp_path, "first")
    [(step, gone)] = seen.values.pop("gone")
    assert step == 9
    assert math.isnan(gone)
    assert seen.values == {
        "loss": [(0, 1.0), (1, 0.5), (2, 0.25), (9, math.inf)],
        "dev/accuracy": [(0, 0.0), (1, 0.25), (2, 0.5)],
        "__time" if name == "trackio" else "time": [(2, 7.0)],
    }
    assert seen.config == FLAT
    assert {key: seen.summary[key] for key in SUMMARY} == SUMMARY
    assert (printed.out, printed.err) == ("", "")


@every_tracker
def test_two_runs_stay_apart_even_open_at_once(name: str, tmp_path: Path) -> None:
    one, two = opened(name, tmp_path, "study/arm:1"), opened(name, tmp_path, "study/arm 1")
    one.log(0, {"loss": 1.0})
    two.log(0, {"loss": 2.0})
    one.finish({"loss": 1.0})
    two.log(1, {"loss": 3.0})
    two.finish({"loss": 3.0})
    first, second = (READERS[name](tmp_path, run) for run in ("study/arm:1", "study/arm 1"))
    assert first.values == {"loss": [(0, 1.0)]}
    assert second.values == {"loss": [(0, 2.0), (1, 3.0)]}
    assert (first.summary["loss"], second.summary["loss"]) == (1.0, 3.0)


@every_tracker
def test_a_resumed_run_goes_on(name: str, tmp_path: Path) -> None:
    """Steps 2 and 3 are logged twice, as after a crash behind the last checkpoint; what comes of them is documented."""
    before = opened(name, tmp_path)
    for step in range(4):
        before.log(step, {"loss": 1.0})
    before.finish({"loss": 1.0})
    after = opened(name, tmp_path)
    for step in range(2, 6):
        after.log(step, {"loss": 0.5})
    after.finish({"loss": 0.5})
    seen = READERS[name](tmp_path, "first")
    old, new = [(step, 1.0) for step in range(4)], [(step, 0.5) for step in range(2, 6)]
    assert sorted(seen.values["loss"]) == sorted((old[:2] if name == "tensorboard" else old) + new)
    assert seen.config == FLAT
    assert seen.summary["loss"] == 0.5


def test_a_run_opened_again_only_to_be_closed_keeps_its_curves_in_tensorboard(tmp_path: Path) -> None:
    for values in ({"loss": 1.0}, {}):
        tracker = opened("tensorboard", tmp_path)
        for key, value in values.items():
            tracker.log(7, {key: value})
        tracker.finish({"loss": 1.0})
    assert read_tensorboard(tmp_path, "first").values == {"loss": [(7, 1.0)]}


def test_tensorboard_knows_the_hyperparameters(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    opened("tensorboard", tmp_path).finish({})
    events = EventAccumulator(str(tmp_path / "first"))
    events.Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hyperparameters = HParamsPluginData.FromString(content).session_start_info.hparams
    assert hyperparameters["model.heads"].number_value == 4
    assert hyperparameters["model.norms.1"].string_value == "null"


def test_trackio_finds_the_runs_as_the_documentation_says(tmp_path: Path) -> None:
    tracker = opened("trackio", tmp_path)
    tracker.log(0, {"loss": 1.0})
    tracker.finish({})
    command = [sys.executable, "-m", "trackio.cli", "list", "runs", "--project", "headtohead", "--json"]
    with environment({"TRACKIO_DIR": str(tmp_path)}):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "first" in done.stdout


# -- what is left behind -----------------------------------------------------------------------------------------------


@every_tracker
def test_nothing_runs_on_and_nothing_is_changed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(home))
    opened(name, tmp_path / "warm").finish({})  # imports leave what they leave
    surroundings = dict(os.environ), sys.exit, sys.excepthook
    threads = set(threading.enumerate())
    tracker = opened(name, tmp_path / name)
    assert (dict(os.environ), sys.exit, sys.excepthook) == surroundings
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)
    assert (dict(os.environ), sys.exit, sys.excepthook) == surroundings
    assert set(threading.enumerate()) <= threads
    assert children() == []
    assert {path.name for path in tmp_path.iterdir()} == {"warm", name}  # nothing at home, nothing beside


@pytest.fixture(autouse=True)
def _started_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have left servers of theirs running."""
    monkeypatch.setattr(sys.modules[__name__], "BEFORE", frozenset(children()))


BEFORE: frozenset[int] = frozenset()


def children() -> list[int]:
    """Processes started in this test that still run, as far as the system tells: Linux does."""
    found: list[int] = []
    for thread in Path("/proc/self/task").glob("*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += map(int, (thread / "children").read_text().split())
    return [process for process in found if process not in BEFORE]


ASKING_FOR_THE_NETWORK = {
    "HF_TOKEN": "hf_" + "x" * 34,
    "TRACKIO_SPACE_ID": "somebody/space",
    "TRACKIO_BUCKET_ID": "somebody/bucket",
    "TRACKIO_DATASET_ID": "somebody/dataset",
    "SPACE_REPO_NAME": "space",
    "WANDB_API_KEY": "0" * 40,
    "WANDB_MODE": "online",
    "WANDB_RUN_ID": "other",
    "WANDB_SERVICE": "3-1-tcp-localhost-9",
    "WANDB_SWEEP_ID": "sweep",
}


@every_tracker
def test_an_environment_that_asks_for_the_network_is_not_obeyed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`attempts` sees to it that nothing of it is followed."""
    if name == "trackio":
        from trackio.sqlite_storage import SQLiteStorage

        monkeypatch.setattr(SQLiteStorage, "_dataset_import_attempted", False)  # as in a fresh process
    complaints: list[str] = []
    with environment(ASKING_FOR_THE_NETWORK):
        tracker = opened(name, tmp_path, complain=complaints.append)
        tracker.log(0, {"loss": 1.0})
        tracker.finish(SUMMARY)
        assert {key: os.environ[key] for key in ASKING_FOR_THE_NETWORK} == ASKING_FOR_THE_NETWORK
    assert complaints == []
    assert READERS[name](tmp_path, "first").values == {"loss": [(0, 1.0)]}


def test_the_network_guard_sees_an_attempt(attempts: list[Any]) -> None:
    with pytest.raises(ConnectionRefusedError, match="no network"):
        socket.create_connection(("192.0.2.1", 443), timeout=1)
    assert attempts == [("192.0.2.1", 443)]
    attempts.clear()


def test_libraries_are_imported_only_when_chosen() -> None:
    code = (
        "import sys, headtohead.trackers; print([m for m in ('trackio', 'tensorboard', 'wandb') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^there is no tracker 'tensorbord': did you mean tensorboard\? known: ") as e:
        opened("tensorbord", tmp_path)
    assert not isinstance(e.value, Unavailable)


@every_tracker
def test_a_library_that_is_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable, match=rf"^{name} cannot be imported \(.*\): pip install 'headtohead\[track\]'$"):
        opened(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@every_tracker
def test_the_first_failure_is_said_once_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    complaints: list[str] = []
    tracker = opened(name, tmp_path, complain=complaints.append)
    tracker.log(0, {"loss": 1.0})
    tracker.log(1, {"loss": "none"})  # type: ignore[dict-item]
    tracker.log(2, {"loss": "none"})  # type: ignore[dict-item]
    assert children() == []
    tracker.log(3, {"loss": 1.0})
    tracker.finish(SUMMARY)
    tracker.finish(SUMMARY)
    [line] = complaints
    assert line.startswith(f"{name} failed at step 1 and is left out from here on, the run goes on: ValueError: could")
    assert READERS[name](tmp_path, "first").values == {"loss": [(0, 1.0)]}  # what came before is kept


def test_a_failure_is_a_warning_where_nothing_else_was_asked_for(tmp_path: Path) -> None:
    tracker = opened("tensorboard", tmp_path)
    with pytest.warns(UserWarning, match=r"^tensorboard failed at step 1 ") as said:
        tracker.log(1, {"loss": None})  # type: ignore[dict-item]
    assert [warning.filename for warning in said] == [__file__]


@every_tracker
def test_a_folder_that_cannot_be_had(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    complaints: list[str] = []
    tracker = opened(name, tmp_path / "file", complain=complaints.append)
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)
    [line] = complaints
    assert line.startswith(f"{name} failed when it was opened and is left out")
    assert "\n" not in line


def test_a_database_that_breaks(tmp_path: Path) -> None:
    complaints: list[str] = []
    tracker = opened("trackio", tmp_path, complain=complaints.append)
    (tmp_path / "headtohead.db").write_bytes(b"not a database" * 100)
    tracker.log(0, {"loss": 1.0})
    tracker.finish(SUMMARY)
    [line] = complaints
    assert line.startswith("trackio failed at step 0")
    assert "DatabaseError" in line


def in_a_process_of_its_own(code: str, folder: Path) -> list[str]:
    """The lines printed by code that finds `folder` and `start(name, run)`, whose complaints it prints."""
    start = """
import os, sys, time
from pathlib import Path
from headtohead.trackers import open_tracker
folder = Path(sys.argv[1])
start = lambda name, run: open_tracker(name, folder=folder, run=run, config={}, complain=print)
"""
    done = subprocess.run([sys.executable, "-c", start + code, str(folder)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="limits on files are POSIX")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
tracker = start("tensorboard", "first")
for step in range(1000):
    tracker.log(step, {"loss": 1.0})
tracker.finish({"loss": 1.0})
"""
    [line] = in_a_process_of_its_own(code, tmp_path)
    assert line.startswith("tensorboard failed at step ")
    assert line.endswith("OSError: [Errno 27] File too large")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the program in /proc")
def test_wandbs_program_is_killed_and_the_next_run_works(tmp_path: Path) -> None:
    code = """
import signal
tracker = start("wandb", "first")
[program] = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
os.kill(int(program), signal.SIGKILL)
for _ in range(20):
    tracker.log(0, {"loss": 1.0})
    time.sleep(0.02)
tracker.finish({})
tracker = start("wandb", "second")
tracker.log(0, {"loss": 1.0})
tracker.finish({})
"""
    [line] = in_a_process_of_its_own(code, tmp_path)
    assert line.startswith("wandb failed at step 0 and is left out from here on, the run goes on: Connection")
    assert read_wandb(tmp_path, "second").values == {"loss": [(0, 1.0)]}


# -- names -------------------------------------------------------------------------------------------------------------


def test_flat_keys() -> None:
    assert flatten(CONFIG) == FLAT
    assert flatten({"a": {}, "b": [], "c": [{"d": 1}, {"d": 2}]}) == {"a": "{}", "b": "[]", "c.0.d": 1, "c.1.d": 2}
    assert flatten({}) == {}


@pytest.mark.parametrize("run", ["../../etc", "a/b", "a:b", "ü", "", ".", "x" * 300, "a b"])
def test_any_run_name_is_one_file_name(run: str) -> None:
    name = file_name(run)
    assert Path(name).name == name
    assert 0 < len(name) < 100
    assert name != file_name(run + "!")


def test_a_plain_run_name_stays_as_it_is() -> None:
    assert file_name("rope-4.seed=0") == "rope-4.seed=0"
