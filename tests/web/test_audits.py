"""The addresses of the audit page, asked as the page asks them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from headtohead.web.audits import families
from helpers.web import Served, served


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


def done(server: Served, path: str) -> dict:
    """The value of a work, asked for until it is there."""
    for _ in range(2400):
        status, answer, _ = server.request(path)
        assert status == 200, answer
        if answer["state"] == "done":
            return answer["value"]
        time.sleep(0.1)
    raise AssertionError(f"no answer from {path}")


def test_every_family_of_a_model_has_its_parts():
    found = {family["family"]: [part["name"] for part in family["parts"]] for family in families()}
    assert {"position", "pattern", "fusion", "norm", "residual", "feedforward", "pooling"} == found.keys()
    assert "Rope" in found["position"]


def test_a_part_is_audited_as_on_the_command_line(server):
    from headtohead.auditor import audit_part
    from headtohead.parts import Local

    value = done(server, "/api/audit?part=Local(window%3D4)")
    assert value["findings"] == json.loads(json.dumps(audit_part(Local(window=4))[0].to_json()))["findings"]
    assert value["command"] == "h2h audit 'Local(window=4)'"
    grid = value["grid"]
    assert grid["allowed"][9] == [int(5 < j <= 9) for j in range(16)]
    assert grid["reached"][9] == grid["seen"][9] == [int(2 < j <= 9) for j in range(16)]  # two layers


def test_a_part_that_reads_the_future_shows_its_pairs(server):
    value = done(server, "/api/audit?part=Reweight(over%3Dsequence)")
    broken = {f["check"]: f for f in value["findings"] if f["status"] == "broken"}
    assert broken["future-gradient"]["pairs"][0] == [0, 1]
    assert broken["future-length"]["among"]


def test_the_model_of_a_run_is_audited(server, store):
    _, answer, _ = server.request("/api/audit/arms?study=tiny")
    assert [arm["arm"] for arm in answer["arms"]] == ["Learned", "Rope", "NoPosition"]
    value = done(server, f"/api/audit?run={answer['arms'][1]['run']}")
    assert value["ok"]
    assert "Rope" in value["model"]
    assert any((store / "audits").iterdir())  # kept with the store


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("", 400, "give a part or a run"),
        ("part=Rope&run=0123456789abcdef", 400, "give a part or a run"),
        ("run=0123456789abcdef", 404, "there is no run"),
        ("run=../../../../etc/passwd", 404, "there is no run"),
        ("part=/tmp/evil.py:Evil()", 400, "files are not loaded from here"),
        ("part=" + "x" * 400, 400, "longer than 300 characters"),
    ],
)
def test_wrong_questions_get_one_sentence(server, query, status, sentence):
    got, answer, _ = server.request(f"/api/audit?{query}")
    assert (got, sentence in answer["error"]) == (status, True), answer


@pytest.mark.parametrize("part", ["Roope", "Rope(speed%3D3)", "AdamW()", "3", "__import__('os').system('ls')"])
def test_what_is_no_part_is_refused(server, part):
    while (answer := server.request(f"/api/audit?part={part}")[1])["state"] == "running":
        time.sleep(0.1)
    assert answer["state"] == "failed"
    assert "\n" not in answer["error"]


def test_code_is_refused_unless_it_is_allowed(server, store):
    body = {"source": "print('hello')", "causal": True}
    status, answer, _ = server.request("/api/audit/module", body)
    assert status == 400
    assert "h2h serve --allow-code" in answer["error"]
    with served(store, allow_code=True, read_only=True) as other:
        assert other.request("/api/audit/module", body)[0] == 403


def test_the_server_outlives_a_module_that_exits(store):
    with served(store, allow_code=True) as server:
        status, started, _ = server.request("/api/audit/module", {"source": "import os\nos._exit(9)"})
        assert status == 200
        assert server.request("/api/audit/module/running")[1] == started
        assert server.request("/api/audit/module", {"source": "x = 1"})[1]["error"].startswith("another module")
        while (answer := server.request(f"/api/audit/module/state?id={started['id']}")[1])["state"] == "running":
            time.sleep(0.1)
        assert "exit code 9" in answer["error"]
        assert server.request("/api/about")[0] == 200
        assert server.request("/api/audit/module/state?id=abc")[0] == 404
        assert server.request("/api/audit/module", {"source": ["no text"]})[0] == 400
