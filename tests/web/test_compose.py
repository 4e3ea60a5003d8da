"""The addresses of the page Compose: what can be chosen, what a choice means, uploads, and the start of a study."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headtohead.display.catalogue import catalogue
from headtohead.study.added import NOT_PLANNED
from headtohead.web import compose, jobs, uploads
from headtohead.web.choice import Choice
from headtohead.web.choice import compose as compose_choice
from headtohead.web.measuring import Measurer, Recent
from helpers.runs import SMALL
from helpers.studies import QUICK, shown, study
from helpers.web import Served, served

TINY = dict(setting.split("=", 1) for setting in (*SMALL, *QUICK))


@pytest.fixture
def server(home: Path) -> Iterator[Served]:
    with served(home) as found:
        yield found


def looked(home: Path, **given: Any) -> dict[str, Any]:
    """The answer when everything is measured."""
    measurer, recent, until = Measurer(home), Recent(4), time.monotonic() + 120
    with contextlib.ExitStack() as stack:
        stack.callback(measurer.stop)
        while (answer := compose.look_at(Choice.of(**given), measurer, recent))["measuring"]:
            assert time.monotonic() < until, answer
            time.sleep(0.05)
    return answer


def test_everything_that_can_be_chosen_is_documented(home: Path):
    found = compose.what_there_is(home)
    assert {"sotu", "speeches", "sst2", "shakespeare", "movie-reviews"} <= {one["name"] for one in found["corpora"]}
    assert all(part["equation"] and part["reference"] for part in found["families"]["position"])
    for task in ("lm", "classifier"):
        lacking = [one["name"] for one in found["settings"] if one["name"] not in found["arms"][task]]
        assert lacking == []
    assert found["arms"]["classifier"]["train.optimizer"]["knobs"]["lr"] == "0.001"
    assert found["arms"]["lm"]["model.position"] == {"text": "Learned", "kind": "Learned", "knobs": {}}
    assert found["arms"]["lm"]["model.biases.out"] == {"text": "True"}
    assert len(found["settings"]) == len(catalogue().settings)


def test_a_choice_is_described(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    found = looked(home, data=data, settings=TINY, vary={"model.position": "Rope,NoPosition"}, max_pairs="8")
    assert found["problems"] == {}
    assert [arm["name"] for arm in found["arms"]] == ["Learned", "Rope", "NoPosition"]
    assert found["arms"][1]["differences"] == [{"path": "model.position", "control": "Learned", "arm": "Rope"}]
    assert found["arms"][0]["size"]["parameters"] - found["arms"][1]["size"]["parameters"] == 16 * 8
    assert all(arm["audit"]["proved"] > 10 and not arm["audit"]["broken"] for arm in found["arms"])
    assert all(arm["seconds"] > 0 for arm in found["arms"])
    assert [(p["pairs"], p["runs"], p["new"]) for p in found["study"]["points"]] == [(6, 27, 27), (8, 33, 33)]
    assert found["study"]["points"][0]["minutes"] < found["study"]["points"][1]["minutes"]
    assert found["study"]["folder"] == "lm-mine-position"
    assert found["study"]["plan"] == []  # no noise is known
    assert found["data"]["sets"]["train"]["tokens"] > 7000


def test_runs_of_the_store_are_not_planned_and_its_noise_is_used(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    path = uploads.find(home, data)
    shown(study(path, *QUICK, seeds=3, vary={"model.position": ["Rope"]}, name="earlier"), home)
    given: dict[str, Any] = {"data": data, "settings": TINY | {"train.steps": "2", "evaluate.every": "2"}}
    given |= {"vary": {"model.position": "Rope,NoPosition"}, "seeds": "6"}
    point = looked(home, **given)["study"]["points"][0]
    assert (point["runs"], point["new"]) == (24, 24 - 6)
    assert any("study earlier" in line for line in looked(home, **given)["study"]["plan"])


def test_the_forecast_of_an_added_arm_is_that_of_the_unplanned_test(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    given: dict[str, Any] = {"data": data, "settings": TINY | {"train.steps": "2", "evaluate.every": "2"}}
    first = compose_choice(Choice.of(**given, vary={"model.position": "Rope"}, seeds="6"), home).study
    assert first is not None
    shown(first, home)
    found = looked(home, **given, vary={"model.position": "Rope,NoPosition"}, max_pairs="14")["study"]
    assert [p["pairs"] for p in found["points"]] == [14]  # after 6, 8 and 10 pairs it cannot be decided
    assert "NoPosition is added after verdicts were shown" in found["added"]
    assert found["plan"][-1] == NOT_PLANNED


def test_a_set_that_the_data_lacks_is_a_problem_of_the_metric(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    found = looked(home, data=data, settings=TINY, vary={"model.position": "Rope"}, metric="obama/loss")
    assert "no set 'obama'" in found["problems"]["metric"]


def test_without_variants_the_control_is_described(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    found = looked(home, data=data, settings=TINY)
    assert (found["study"], len(found["arms"])) == (None, 1)
    assert found["arms"][0]["size"]["parameters"] > 0
    assert "choose what is compared" in found["todo"]


# -- over the network --------------------------------------------------------------------------------------------------


def test_a_text_is_uploaded_and_previewed(server: Served, table: Path, home: Path):
    raw = {"content-type": "application/octet-stream"}
    status, kept, _ = server.request("/api/compose/upload?name=my%20rows.csv", table.read_bytes(), headers=raw)
    assert status == 200
    assert kept["uploads"] == [{"data": kept["data"], "name": "my-rows.csv", "bytes": table.stat().st_size}]
    status, seen, _ = server.request(f"/api/compose/preview?data={kept['data']}&task=classifier")
    assert (status, seen["class_count"]) == (200, 2)
    assert sorted(path.name for path in home.rglob("*") if path.is_file()) == ["my-rows.csv"]
    large = b"x" * (uploads.MOST_BYTES + 1)
    status, said, _ = server.request("/api/compose/upload?name=x.txt", large, headers=raw)
    assert (status, "error" in said) == (413, True)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/compose/look", {"nonsense": 1}),
        ("/api/compose/look", {"settings": [1]}),
        ("/api/compose/look", {"task": {"a": 1}}),
        ("/api/compose/run", {}),
        ("/api/compose/run", {"vary": {"model.position": "Ropee"}}),
        ("/api/compose/run", {"vary": {"model.position": "/tmp/mine.py:Wobble"}}),
        ("/api/compose/upload", {"name": "a.txt"}),
        ("/api/compose/upload", {"name": "a.txt", "content": "text"}),
        ("/api/jobs/stop", {"id": "../../x"}),
        ("/api/jobs/stop", {"id": 3}),
        ("/api/study/resume", {"name": "../x"}),
    ],
)
def test_wrong_requests_are_one_line(server: Served, path: str, body: Any, home: Path):
    status, said, _ = server.request(path, body)
    assert 400 <= status < 500
    assert "\n" not in said["error"]
    assert not (home / "jobs").exists()


def test_a_read_only_server_looks_and_starts_nothing(home: Path):
    with served(home, read_only=True) as server:
        assert server.request("/api/compose")[1]["read_only"]
        choice = {"vary": {"model.position": "Rope"}}
        status, found, _ = server.request("/api/compose/look", choice)
        assert status == 200
        assert found["study"]["command"] == "h2h run lm --vary model.position=Rope"
        for path in ("/api/compose/run", "/api/compose/upload", "/api/jobs/stop", "/api/study/resume"):
            assert server.request(path, choice)[0] == 403
    assert not (home / "jobs").exists()


def test_the_choice_of_a_stored_study_is_read_back(server: Served, text: Path, home: Path):
    path = uploads.find(home, uploads.keep(home, "mine.txt", text.read_bytes()))
    command = f"h2h run lm --vary model.position=Rope --data {path} --set train.steps=2 --seeds 3"
    shown(study(path, *QUICK, seeds=2, command=command), home)
    status, found, _ = server.request("/api/compose/study?name=tiny")
    assert status == 200
    assert (found["data"], found["vary"]) == (f"upload-{path.parent.name}", {"model.position": "Rope"})
    assert server.request("/api/compose/study?name=../tiny")[0] == 404


def test_a_study_is_started_by_its_command(home: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[Any] = []

    def note(home: Path, command: list[str], study: str) -> jobs.Job:
        started.append((home, command, study))
        return jobs.Job("0" * 12, command, 0, 0.0, "", study)

    monkeypatch.setattr(jobs, "start", note)
    found = compose.start_study(Choice.of(vary={"model.pattern": "Causal & Local(4)"}, seeds="6"), home)
    words = ["run", "lm", "--vary", "model.pattern=Causal & Local(4)", "--seeds", "6"]
    assert started == [(home, words, "lm-sotu-pattern")]
    assert found["study"] == "lm-sotu-pattern"
