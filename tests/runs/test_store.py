"""The store: files whole or not at all, runs by name, locks that die with their holder."""

from __future__ import annotations

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
from headtohead.store import lock, locked, runs, set_aside, write_whole

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from headtohead.store import write_whole
path = Path(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in b"ab":
        write_whole(path, bytes([letter]) * 4_000_000)
"""

HOLDS = """
import sys
from pathlib import Path
from headtohead.store import lock
with lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
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
def test_a_file_whose_writer_is_killed_is_whole(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "below" / "file"
    write_whole(path, b"a" * 4_000_000)
    with python(WRITES_FOR_EVER, path) as process:
        time.sleep(0.05 + delay)
        assert process.poll() is None
        process.kill()
    data = path.read_bytes()
    assert len(data) == 4_000_000
    assert len(set(data)) == 1


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
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
    kept = [tmp_path / f"checkpoint.torn{n}" for n in ("", "1", "2")]
    assert [k.read_text() for k in kept] == ["a", "b", "c"]


# -- runs by name ------------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_its_id_a_beginning_or_as_the_latest(home: Path) -> None:
    for at, name in enumerate(("abc1", "abd2", "bcd3")):
        a_run(home, name, at=10 - at)
    assert find_run("abc1").id == find_run("abc").id == "abc1"
    assert find_run("b").id == "bcd3"
    assert find_run("latest").id == "abc1"
    assert [r.id for r in runs()] == ["bcd3", "abd2", "abc1"]


def test_a_run_that_cannot_be_told_is_one_line(home: Path) -> None:
    with pytest.raises(InputError, match=r"there are no runs in .*home"):
        find_run("latest")
    a_run(home, "abc1"), a_run(home, "abd2")
    with pytest.raises(InputError, match="'ab' begins 2 runs: abc1, abd2"):
        find_run("ab")
    with pytest.raises(InputError, match="no run 'x'"):
        find_run("x")


def test_a_folder_of_other_hands_is_no_run(home: Path) -> None:
    (home / "runs" / "notes").mkdir(parents=True)
    (home / "runs" / "readme.txt").write_text("mine")
    assert runs() == []


# -- a run's folder, read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unfinished", ["", "{", '{"step": 2', '{"step": 2, "lr": 0.1}'])
def test_a_line_still_being_written_is_left_out(home: Path, unfinished: str) -> None:
    folder = a_run(home, "abc")
    (folder / "metrics.jsonl").write_text('{"step": 0}\n{"step": 1}\n' + unfinished)
    assert Record(folder).metrics == [{"step": 0}, {"step": 1}]


def test_a_run_that_has_just_begun_has_nothing_yet(home: Path) -> None:
    record = Record(a_run(home, "abc"))
    assert (record.metrics, record.result, record.times, record.environment) == ([], None, {}, {})
    assert record.state == "stopped"


@pytest.mark.parametrize("torn", ["", "{", '{"status": "compl', "\x00" * 50])
def test_a_torn_result_is_named(home: Path, torn: str) -> None:
    folder = a_run(home, "abc")
    (folder / "result.json").write_text(torn)
    with pytest.raises(InputError, match=r"result\.json cannot be read"):
        Record(folder).state  # noqa: B018


def test_a_runs_state_is_what_its_result_says(home: Path) -> None:
    folder = a_run(home, "abc")
    (folder / "result.json").write_text(json.dumps({"status": "diverged"}))
    assert Record(folder).state == "diverged"


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_lock_is_held_by_one_process_and_freed_when_it_dies(home: Path) -> None:
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


def test_asking_whether_a_run_is_locked_never_keeps_another_from_it(home: Path) -> None:
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
