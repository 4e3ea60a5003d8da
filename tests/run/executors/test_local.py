"""Worker processes: the same bits, failures and deaths of workers, two processes on one store."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.run.events import Failed, Finished, NotBegun, Started
from headtohead.run.executors.execution import Execution
from headtohead.run.executors.local import _Worker, execute_many, read_in_worker
from headtohead.run.session import Options
from headtohead.spec import code_of, trust
from headtohead.study.execution import StudyTrained, train_study
from helpers.registry import forgotten
from helpers.runs import SMALL, events_of, results, run_on
from helpers.studies import SLOW, carried, study


def test_two_workers_give_the_same_bits_as_one_process(text: Path, home: Path, tmp_path: Path):
    made = study(text, "model.dropout=0.1", seeds=2)
    carried(made, home)
    carried(made, tmp_path / "other", jobs=2)
    runs = sorted(p.name for p in (home / "runs").iterdir())
    assert runs == sorted(p.name for p in (tmp_path / "other" / "runs").iterdir())
    for run in runs:
        assert results(home / "runs" / run) == results(tmp_path / "other" / "runs" / run)


def test_a_worker_without_the_list_runs_what_it_was_sent(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As on a node of a cluster, which has the user's folder but not their list of approved code."""
    (tmp_path / "beside_part.py").write_text("SCALE = 2\n")
    (tmp_path / "part.py").write_text(
        "from beside_part import SCALE\nfrom headtohead import Rope\n\nclass Own(Rope):\n    scaled = SCALE\n"
    )
    with forgotten():
        spec = run_on(text, f"model.position={tmp_path / 'part.py'}:Own")
        sent = pickle.dumps((spec.to_json(), code_of(spec)))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "another" / "trusted.json"))
    monkeypatch.setattr(trust, "_HERE", {})
    (tmp_path / "part.py").unlink()
    with forgotten():
        again = read_in_worker(*pickle.loads(sent))
        assert (again.id, type(again.arm.model.position).__name__) == (spec.id, "Own")
    assert trust.approvals() == {}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_run_does_not_stop_the_others(jobs: int, text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, seeds=2, vary={"model.position": [f"{parts}:Broken()", "Rope"]})
    events = carried(made, home, jobs=jobs)
    (reason,) = {event.reason for event in events_of(Failed, events)}
    assert re.match(r"parts\.py:\d+: RuntimeError: the floor gave way\n    raise RuntimeError", reason)
    assert events_of(StudyTrained, events)
    verdicts = made.outcome(home).verdicts
    assert verdicts["Rope"].verdict.pairs == 2
    assert "the floor gave way" in verdicts["Broken"].excluded[0].why
    assert list(made.outcome(home).results()["status"]).count("failed") == 2


def test_a_worker_that_keeps_dying_is_given_up(text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, seeds=2, vary={"model.position": [f"{parts}:Deadly()"]})
    events = carried(made, home, jobs=2)
    assert len(events_of(Failed, events)) == 2
    assert all("died 3 times" in event.reason for event in events_of(Failed, events))
    assert len(events_of(Finished, events)) == 2


def test_a_killed_worker_is_replaced_and_its_run_resumes(text: Path, home: Path, tmp_path: Path):
    parts, mark = tmp_path / "parts.py", tmp_path / "killed"
    parts.write_text(SLOW)
    made = study(text, "train.steps=30", seeds=2, vary={"model.position": [f"{parts}:DeadlyOnce(mark='{mark}')"]})
    events = carried(made, home, jobs=2, save_every=0)
    assert mark.exists()
    resumed = [event for event in events_of(Started, events) if event.done]
    assert [event.done for event in resumed] == [10], "it went on from its checkpoint"
    assert set(made.outcome(home).results()["status"]) == {"complete"}
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


def test_two_processes_on_one_store_train_each_run_once(text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    made = study(text, "train.steps=20", seeds=3, vary={"model.position": [f"{parts}:Sleepy(seconds=0.01)"]})

    def one() -> None:
        begun = [event.id for event in train_study(made, Execution(jobs=1), home=home) if isinstance(event, Started)]
        queue.put(begun)

    both = [context.Process(target=one) for _ in range(2)]
    for process in both:
        process.start()
    begun = [queue.get(timeout=120) for _ in both]
    for process in both:
        process.join()
    assert sorted(begun[0] + begun[1]) == sorted({*begun[0], *begun[1]})
    assert len(begun[0] + begun[1]) == 6
    assert all(begun)  # they shared the work
    assert set(made.outcome(home).results()["status"]) == {"complete"}


def test_a_starting_worker_ignores_ctrl_c(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    worker = _Worker.start(home, Options())
    assert signal.getsignal(signal.SIGINT) is before
    try:
        for _ in range(10):
            os.kill(worker.process.pid, signal.SIGINT)
            assert worker.process.join(0.03) is None
            assert worker.process.is_alive()
    finally:
        worker.process.kill()
        worker.end()
    assert capfd.readouterr().err == ""


def test_ctrl_c_at_the_end_of_the_last_run_is_kept(text, home):
    """Whoever has more to do, a study after its tuning for one, must not go on."""
    events = execute_many([run_on(text, "train.steps=2")], home, jobs=1)
    heard = []
    for event in events:
        heard.append(event)
        if isinstance(event, Finished):
            os.kill(os.getpid(), signal.SIGINT)
    assert heard[-1] == NotBegun(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a server of workers listens on a socket")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 takes a shorter folder by itself")
def test_a_long_folder_for_temporary_files_is_one_line(text: Path, home: Path, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    code = "import sys; from headtohead.cli import main; main()"
    command = ["run", "lm", "--data", str(text), "--vary", "model.position=Learned,Rope", "--seeds", "2", "--jobs", "2"]
    small = [word for setting in (*SMALL, "train.steps=2") for word in ("--set", setting)]
    environment = os.environ | {"TMPDIR": str(long), "HEADTOHEAD_HOME": str(home)}
    typed = [sys.executable, "-c", code, *command, *small]
    done = subprocess.run(typed, capture_output=True, text=True, env=environment)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "is too long for sockets: set TMPDIR to a shorter one" in done.stderr
