"""The same study on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headtohead import InputError
from headtohead.carry import carry_out
from headtohead.runs import Failed, Options, Progress, Started
from runs.small import results

from .small import carried, study
from .test_carry import SLOW

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
    assert set(made.results(home)["status"]) == {"complete"}
    carried(made, tmp_path / "here")
    for run in (tmp_path / "here" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)
    assert (
        made.verdicts(home).to_json()["arms"][0]["difference"]
        == (made.verdicts(tmp_path / "here").to_json()["arms"][0]["difference"])
    )
    assert not list(home.glob(".seen-*"))


def test_nodes_that_do_not_see_the_store_send_their_runs_home(
    cluster: Any, text: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from headtohead import on_ray

    made = study(text, seeds=2, vary={"model.position": ["Rope"]})
    # the tasks look for a marker that is not there, as on a machine without this folder
    monkeypatch.setattr(on_ray, "_marker", _elsewhere)
    carried(made, home, on=f"ray:{cluster.address}")
    carried(made, tmp_path / "here")
    for run in (tmp_path / "here" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


class _elsewhere:  # noqa: N801
    def __init__(self, where: Path) -> None:
        self.path = where / f".seen-{time.time_ns()}"

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing(cluster: Any, text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, "train.steps=100", seeds=3, vary={"model.position": [f"{parts}:Sleepy(seconds=0.05)", "Rope"]})
    doomed = cluster.list_all_nodes()[1]
    killed = 0.0
    begun: list[str] = []
    for event in carry_out(made, home, on=f"ray:{cluster.address}", options=Options(save_every=0.2)):
        if isinstance(event, Started):
            begun.append(event.id)
        if isinstance(event, Progress) and event.done > 30 and not killed:
            killed = time.monotonic()
            cluster.remove_node(doomed, allow_graceful=False)
        assert not isinstance(event, Failed), event
    assert killed
    assert set(made.results(home)["status"]) == {"complete"}
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


def test_a_cluster_that_is_not_there_is_one_line(text: Path, home: Path):
    with pytest.raises(InputError, match="no Ray cluster at"):
        carried(study(text, seeds=2), home, on="ray:127.0.0.1:1")
    with pytest.raises(InputError, match="give HOST:PORT"):
        carried(study(text, seeds=2), home, on="ray:nowhere")


def test_where_to_train_is_known(text: Path, home: Path):
    with pytest.raises(InputError, match="--on rya: did you mean ray"):
        carried(study(text, seeds=2), home, on="rya")
