"""The store: files whole or not at all, runs by name, locks that die with their holder."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headtohead import InputError, Record, find_run
from headtohead.errors import Unavailable
from headtohead.run.results import Environment, Times
from headtohead.run.store import lock, locked, runs, set_aside, write_whole
from helpers.runs import SMALL_OPTIONS, run_on, trained_record
from helpers.terminal import h2h

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from headtohead.run.store import write_whole
path = Path(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in b"ab":
        write_whole(path, bytes([letter]) * 4_000_000)
"""
HOLDS = """
import sys
from pathlib import Path
from headtohead.run.store import lock
with lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""
COUNTS = """
import sys
from pathlib import Path
from headtohead.run.store import lock
folder = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
for _ in range(50):
    with lock(folder, patience=60):
        count = int((folder / "count").read_text())
        (folder / "count").write_text(str(count + 1))
"""


def python(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def a_run(home: Path, name: str, at: int = 1) -> Path:
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}\n")
    os.utime(folder / "run.json", ns=(at, at))
    return folder


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.007, 0.011, 0.02])
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "below" / "file"
    write_whole(path, b"a" * 4_000_000)
    with python(WRITES_FOR_EVER, path) as process:
        time.sleep(0.05 + delay)
        assert process.poll() is None
        process.kill()
    data = path.read_bytes()
    assert len(data) == 4_000_000
    assert len(set(data)) == 1


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "own" / "file"
    write_whole(path, "old")
    with pytest.raises(TypeError):
        write_whole(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["file"]


def test_text_is_written_as_utf_8(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "−×…\n")
    assert (tmp_path / "file").read_bytes() == "−×…\n".encode()


def test_setting_aside_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for content in "abc":
        path.write_text(content)
        set_aside(path)
        assert not path.exists()
    kept = [tmp_path / f"checkpoint.damaged-{n}" for n in (1, 2, 3)]
    assert [k.read_text() for k in kept] == ["a", "b", "c"]


# -- runs by name ------------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_id_prefix_and_latest(home: Path) -> None:
    for at, name in enumerate(("abc1", "abd2", "bcd3")):
        a_run(home, name, at=10 - at)
    assert find_run("abc1").id == find_run("abc").id == "abc1"
    assert find_run("b").id == "bcd3"
    assert find_run("latest").id == "abc1"
    assert [r.id for r in runs()] == ["bcd3", "abd2", "abc1"]


def test_an_ambiguous_or_unknown_run_is_one_line(home: Path) -> None:
    with pytest.raises(InputError, match=r"there are no runs in .*home"):
        find_run("latest")
    a_run(home, "abc1"), a_run(home, "abd2")
    with pytest.raises(InputError, match="'ab' is the prefix of 2 runs: abc1, abd2"):
        find_run("ab")
    with pytest.raises(InputError, match="no run 'x'"):
        find_run("x")


def test_a_folder_not_written_by_headtohead_is_no_run(home: Path) -> None:
    (home / "runs" / "notes").mkdir(parents=True)
    (home / "runs" / "readme.txt").write_text("mine")
    assert runs() == []


# -- a run's folder, read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unfinished", ["", "{", '{"step": 2', '{"step": 2, "lr": 0.1}'])
def test_a_half_written_line_is_ignored(home: Path, unfinished: str) -> None:
    folder = a_run(home, "abc")
    (folder / "metrics.jsonl").write_text('{"step": 0}\n{"step": 1}\n' + unfinished)
    assert Record(folder).metrics == [{"step": 0}, {"step": 1}]


def test_a_new_run_has_no_metrics_and_no_result(home: Path) -> None:
    record = Record(a_run(home, "abc"))
    assert (record.metrics, record.result, record.times, record.environment) == ([], None, Times(), Environment())
    assert record.state == "stopped"


@pytest.mark.parametrize("torn", ["", "{", '{"status": "compl', "\x00" * 50])
def test_a_damaged_result_is_named(home: Path, torn: str) -> None:
    folder = a_run(home, "abc")
    (folder / "result.json").write_text(torn)
    with pytest.raises(InputError, match=r"result\.json cannot be read"):
        Record(folder).state  # noqa: B018


def test_the_state_of_a_run_follows_its_result(home: Path) -> None:
    folder = a_run(home, "abc")
    (folder / "result.json").write_text(json.dumps({"status": "diverged", "steps": 3, "values": {}, "data": {}}))
    assert Record(folder).state == "diverged"


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_lock_is_freed_when_its_process_dies(home: Path) -> None:
    folder = a_run(home, "abc")
    assert not locked(folder)
    with python(HOLDS, folder) as holder:
        assert locked(folder)
        assert Record(folder).state == "running"
        with pytest.raises(InputError, match="run abc is being trained by another process"), lock(folder):
            pass
        holder.send_signal(signal.SIGKILL)
    assert (folder / "LOCK").exists()
    assert not locked(folder)
    with lock(folder):
        assert locked(folder)
    assert not locked(folder)


def test_checking_a_lock_does_not_take_it(home: Path) -> None:
    folder = a_run(home, "abc")
    with lock(folder):
        pass
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            locked(folder)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(3000):
            with lock(folder):
                pass
    finally:
        over.set()
        asking.join()


def test_three_processes_share_one_lock(home: Path) -> None:
    folder = a_run(home, "abc")
    (folder / "count").write_text("0")
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(python(COUNTS, folder)) for _ in range(3)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()  # starts them together
        assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert (folder / "count").read_text() == "150"


def test_a_lock_taken_in_another_thread_is_freed(home: Path) -> None:
    folder = a_run(home, "abc")
    held = lock(folder)
    taking = threading.Thread(target=held.__enter__)
    taking.start()
    taking.join()
    assert locked(folder)
    held.__exit__(None, None, None)
    assert not locked(folder)


def test_checking_a_lock_creates_no_file(home: Path) -> None:
    folder = a_run(home, "abc")
    assert not locked(folder)
    assert not locked(home / "runs" / "absent")
    assert os.listdir(folder) == ["run.json"]
    assert os.listdir(home / "runs") == ["abc"]


@pytest.mark.skipif(sys.platform == "win32", reason="flock is POSIX")
def test_a_file_system_without_locks_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(Unavailable, match=r"cannot write .*abc: No locks available; set HEADTOHEAD_HOME"):
        lock(a_run(home, "abc")).__enter__()
    assert not locked(home / "runs" / "abc")


def _without_roots_rights() -> None:
    """Root writes anywhere; with no capabilities it is a user like any other."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capset(header, none) == 0


def test_a_read_only_store_is_one_line(text: Path, home: Path) -> None:
    home.mkdir()
    home.chmod(0o555)
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1, before=_without_roots_rights)
    home.chmod(0o755)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "Permission denied; set HEADTOHEAD_HOME to a folder of yours" in done.err


def test_a_read_only_store_is_listed(text: Path, home: Path) -> None:
    run = trained_record(run_on(text, "train.steps=2"), home).folder
    (run / "result.json").unlink()  # a run without a result is asked whether it is locked
    (run / "LOCK").chmod(0o444)
    run.chmod(0o555)
    done = h2h("list", "runs", before=_without_roots_rights)
    run.chmod(0o755)
    assert (done.code, done.err) == (0, "")
    assert run.name[:8] in done.out
    assert "stopped" in done.out


def test_a_store_that_is_a_file_is_one_line(text: Path, home: Path) -> None:
    home.write_text("mine")
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert home.read_text() == "mine"


def test_a_store_that_cannot_be_created_is_one_line(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", "/proc/x")
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "cannot write /proc/x" in done.err
    assert "set HEADTOHEAD_HOME to a folder of yours" in done.err
