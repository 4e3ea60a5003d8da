"""Studies on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headtohead import InputError
from headtohead.errors import Unavailable
from headtohead.run.events import Failed, Finished, NotBegun, Progress, Started, Stopped, Waiting
from headtohead.run.executors.execution import Execution
from headtohead.run.session import Options
from headtohead.study.execution import train_study
from headtohead.training.arm import RunSpec, read_run
from helpers.runs import results
from helpers.studies import SLOW, carried, control, study

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'headtohead[ray]'")

# Ray closes its sockets and files when the process ends, not before
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def test_a_cluster_of_two_nodes_gives_the_same_bits(cluster: Any, text: Path, home: Path, tmp_path: Path):
    made = study(text, "model.dropout=0.1", seeds=2, again=True)
    events = carried(made, home, on=f"ray:{cluster.address}")
    assert not [e for e in events if isinstance(e, Failed)]
    assert set(made.outcome(home).results()["status"]) == {"complete"}
    carried(made, tmp_path / "here")
    for run in (tmp_path / "here" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)
    assert (
        made.outcome(home).verdicts.to_json()["arms"][0]["difference"]
        == (made.outcome(tmp_path / "here").verdicts.to_json()["arms"][0]["difference"])
    )
    assert not list(home.glob(".seen-*"))


def test_nodes_without_the_store_send_their_runs_back(
    cluster: Any, text: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from headtohead.run.executors import ray as on_ray

    made = study(text, seeds=2, vary={"model.position": ["Rope"]})
    # the tasks look for a marker that is not there, as on a machine without this folder
    monkeypatch.setattr(on_ray, "_marker", lambda where: nullcontext(where / f".seen-{time.time_ns()}"))
    carried(made, home, on=f"ray:{cluster.address}")
    carried(made, tmp_path / "here")
    for run in (tmp_path / "here" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing(cluster: Any, text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, "train.steps=100", seeds=3, vary={"model.position": [f"{parts}:Sleepy(seconds=0.05)", "Rope"]})
    doomed = cluster.list_all_nodes()[1]
    killed = 0.0
    begun: list[str] = []
    for event in train_study(made, Execution(on=f"ray:{cluster.address}", save_every=0.2), home=home):
        if isinstance(event, Started):
            begun.append(event.id)
        if isinstance(event, Progress) and event.done > 30 and not killed:
            killed = time.monotonic()
            cluster.remove_node(doomed, allow_graceful=False)
        assert not isinstance(event, Failed), event
    assert killed
    assert set(made.outcome(home).results()["status"]) == {"complete"}
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


def test_an_absent_cluster_is_one_line(text: Path, home: Path):
    with pytest.raises(InputError, match="no Ray cluster at"):
        carried(study(text, seeds=2), home, on="ray:127.0.0.1:1")
    with pytest.raises(InputError, match="give HOST:PORT"):
        carried(study(text, seeds=2), home, on="ray:nowhere")


def test_an_unknown_executor_is_refused(text: Path, home: Path):
    with pytest.raises(InputError, match="--on rya: did you mean ray"):
        carried(study(text, seeds=2), home, on="rya")


@pytest.fixture
def sleepy(tmp_path: Path) -> str:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'headtohead[ray]'")
    path = tmp_path / "parts.py"
    path.write_text(SLOW)
    return f"{path}:Sleepy(seconds=0.05)"


def interrupted(made: Any, home: Path, **options: Any) -> list[Any]:
    """The events of a study that is stopped when its first run is under way."""
    seen, asked = [], False
    for event in train_study(made, Execution(on="ray", jobs=1, **options), home=home):
        seen.append(event)
        if isinstance(event, Progress) and event.done > 10 and not asked:
            asked = True
            os.kill(os.getpid(), signal.SIGINT)
    assert asked
    return seen


class Refs:
    """As much of Ray as `_Tasks` asks for: tasks that are over, or never will be."""

    class exceptions:  # noqa: N801
        TaskCancelledError = RayTaskError = KeyError
        WorkerCrashedError = NodeDiedError = ObjectLostError = OSError

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.events: list[Any] = []

    def remote(self, spec: Any, *_: Any) -> str:
        return read_run(spec).id

    def wait(self, refs: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return [r for r in refs if r in self.answers], []

    def get(self, ref: str) -> Any:
        return self.answers[ref]

    def cancel(self, ref: str, force: bool) -> None: ...

    def qsize(self) -> int:
        return len(self.events)

    def get_nowait_batch(self, count: int) -> list[Any]:
        return [self.events.pop(0) for _ in range(count)]


@pytest.mark.slow
def test_one_job_on_ray_is_one_run_at_a_time(text: Path, home: Path, sleepy: str):
    made = study(text, "train.steps=60", f"model.position={sleepy}", seeds=3, vary={"train.optimizer.lr": [0.01]})
    carried(made, home, on="ray", jobs=1)
    spans = sorted(  # env.json is written before the first step, result.json after the last
        ((run / "env.json").stat().st_mtime, (run / "result.json").stat().st_mtime) for run in (home / "runs").iterdir()
    )
    assert len(spans) == 6
    assert all(end - begin > 2 for begin, end in spans)  # long enough to be seen side by side
    assert all(first[1] <= then[0] for first, then in pairwise(spans))


@pytest.mark.slow
def test_a_stop_on_ray_saves_what_was_done(text: Path, home: Path, tmp_path: Path, sleepy: str):
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    seen = interrupted(made, home, save_every=1e9)
    assert isinstance(seen[-1], Stopped)
    assert 10 < seen[-1].done < 100
    begun = [event.id for event in seen if isinstance(event, Started)]
    assert begun == [seen[-1].id]
    assert (home / "runs" / begun[0] / "checkpoint.safetensors").is_file()
    rest = carried(made, home)
    assert next(e.done for e in rest if isinstance(e, Started) and e.id == begun[0]) == seen[-1].done
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


@pytest.mark.slow
def test_a_stop_on_nodes_without_the_store_saves_runs(
    text: Path, home: Path, tmp_path: Path, sleepy: str, monkeypatch: pytest.MonkeyPatch
):
    from headtohead.run.executors import ray as on_ray

    # the tasks look for a marker that is not there, as on a machine without this folder
    monkeypatch.setattr(on_ray, "_marker", lambda where: nullcontext(where / f".seen-{time.time_ns()}"))
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    stopped = interrupted(made, home, save_every=1e9)[-1]
    assert isinstance(stopped, Stopped)
    rest = carried(made, home, on="ray", jobs=1)  # there again, where what was saved is not
    assert next(e.done for e in rest if isinstance(e, Started) and e.id == stopped.id) == stopped.done
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


@pytest.mark.slow
def test_runs_that_ray_could_not_save_are_reported(
    text: Path, home: Path, sleepy: str, monkeypatch: pytest.MonkeyPatch
):
    from headtohead.run.executors import ray as on_ray

    monkeypatch.setattr(on_ray, "STOPPING", 0.0)
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    with pytest.raises(Unavailable, match="1 of the runs did not save themselves"):
        interrupted(made, home)


def test_late_events_do_not_undo_the_end_of_a_run(text: Path, home: Path):
    from headtohead.run.executors.loop import Loop
    from headtohead.run.executors.ray import _Answer, _Tasks
    from headtohead.run.session import Stop

    one, two = (RunSpec(arm=control(text), seed=seed).resolved() for seed in (0, 1))
    started = Started(one.id, 6, 0, 1, {}, [])
    ray = Refs({one.id: _Answer(started, Finished(one.id, "there"))})
    tasks = _Tasks(ray, ray, home, home / "marker", Options(), ray)
    events = Loop(tasks, home, Stop()).run([one, two])
    assert [next(events), next(events)] == [started, Finished(one.id, "there")]  # though none was said on the way
    ray.events = [started, Progress(one.id, 3, 6, 1.0, 1.0, 1.0), Progress(two.id, 3, 6, 1.0, 1.0, 1.0)]
    assert next(events).id == two.id
    ray.answers[two.id] = _Answer(None, None)
    assert next(events) == Waiting(two.id)


def test_runs_waiting_for_a_processor_count_as_not_begun(text: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    from headtohead.run.executors import ray as on_ray
    from headtohead.run.executors.loop import Loop
    from headtohead.run.session import Stop

    monkeypatch.setattr(on_ray, "STOPPING", 0.0)
    ray = Refs({})
    tasks = on_ray._Tasks(ray, ray, home, home / "marker", Options(), ray)
    specs = [RunSpec(arm=control(text), seed=seed).resolved() for seed in (0, 1)]
    assert list(Loop(tasks, home, Stop(asked=True)).run(specs)) == [NotBegun(2)]


# -- who can reach the cluster -----------------------------------------------------------------------------------------

LISTENING = """
import json, os, pathlib, sys
from headtohead.run.executors import ray as on_ray

def listening():
    \"\"\"Addresses on which this process and its descendants listen, from /proc, as hexadecimal numbers.\"\"\"
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    sockets = set()
    for pid in ours:
        for handle in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(handle))
            except OSError:
                pass
    found = []
    for table in ("tcp", "tcp6"):
        for row in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = row.split()
            if cells[3] == "0A" and f"socket:[{cells[9]}]" in sockets:
                found.append(cells[1].partition(":")[0])
    return found

ray = on_ray._ray(own=True)
with on_ray._connected(ray, None, 1):
    seen = ray.get(ray.remote(lambda: (os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN"))).remote())
    print(json.dumps({"listening": listening(), "seen": seen, "address": ray.get_runtime_context().gcs_address}))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets from /proc")
def test_a_ray_of_our_own_listens_on_loopback_and_wants_a_token():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    ran = subprocess.run([sys.executable, "-c", LISTENING], env=clean, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert len(found["listening"]) >= 3
    assert set(found["listening"]) <= LOOPBACK, found
    mode, token = found["seen"]
    assert mode == "token"
    assert len(token) == 64
    assert "warning" not in ran.stderr


class Elsewhere:
    """As much of Ray as `_connected` asks for."""

    class util:  # noqa: N801
        get_node_ip_address = staticmethod(lambda: "10.0.0.7")

    is_initialized = staticmethod(lambda: False)
    init = shutdown = staticmethod(lambda **_: None)


@pytest.mark.parametrize(("mode", "lines"), [("", 1), ("disabled", 1), ("token", 0)])
def test_a_cluster_without_a_token_is_warned_about(
    mode: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from headtohead.run.executors import ray as on_ray

    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(on_ray, "_check_address", lambda _: None)
    with on_ray._connected(Elsewhere, "10.0.0.7:6379", 1):
        said = capsys.readouterr().err
    assert said.count("\n") == lines
    assert ("10.0.0.7:6379 is used without a token" in said) == bool(lines)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "snapshots/a/b", ".bashrc"])
def test_files_outside_the_run_are_refused(name: str, tmp_path: Path):
    from headtohead.run.executors.ray import _unpack

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as bundle:
        bundle.writestr("run.json", "{}")
        bundle.writestr(name, "evil")
    with pytest.raises(InputError, match="which no run has"):
        _unpack(content.getvalue(), tmp_path / "runs" / "0123")
    assert not list((tmp_path / "runs" / "0123").iterdir())
    assert not list(tmp_path.glob("**/*evil*"))
