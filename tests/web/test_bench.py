"""Code that is not part of the package runs only with --allow-code and the user's approval."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headtohead import load_file
from headtohead.run.approval import approve, code_named
from helpers.corpora import write_text
from helpers.registry import forgotten
from helpers.studies import carried, study
from helpers.web import Served, served

TEXT = "the people of this union will"


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A store with a model of somebody else's part, and the file that this part's code writes when it runs."""
    home, canary = tmp_path / "home", tmp_path / "canary"
    (tmp_path / "theirs.py").write_text(
        "from pathlib import Path\n\nfrom headtohead import Rope\n\n"
        f"Path({str(canary)!r}).touch()\n\n\nclass Theirs(Rope):\n    def build(self, dims):\n"
        "        return super().build(dims)\n"
    )
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "their-list.json"))
    monkeypatch.chdir(tmp_path)
    with forgotten():
        own = load_file("theirs.py").Theirs()
        carried(study(write_text(tmp_path), vary={"model.position": ["Learned", own]}, seeds=2), home)
    canary.unlink()
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "my-list.json"))
    return home, canary


def answers(server: Served) -> list[tuple[int, Any]]:
    """Everything that the page can ask of the model."""
    (_, other) = server.request("/api/inside/arms?study=tiny")[1]["arms"]
    side = {"study": "tiny", "arm": other["arm"], "seed": 0}
    asked = [("side", {"text": TEXT}), ("head", {"text": TEXT, "layer": 0, "head": 0}), ("held", {})]
    asked += [("generate", {"text": TEXT, "tokens": 3}), ("effect", {"operations": "silence:0.0"})]
    found = [server.request(f"/api/inside/{what}/look", side | more)[:2] for what, more in asked]
    return [*found, server.request(f"/api/audit?run={other['seeds'][0]['run']}")[:2]]


@pytest.mark.parametrize(("allowed", "approved"), [(False, False), (False, True), (True, False)])
def test_code_of_others_is_not_run(theirs: tuple[Path, Path], allowed: bool, approved: bool):
    home, canary = theirs
    if approved:
        approve(code_named("tiny", home))
    with served(home, allow_code=allowed) as server, forgotten():
        for status, answer in answers(server):
            assert status == 400
            assert ("--allow-code" in answer["error"]) is not allowed
            assert ("h2h trust" in answer["error"]) is not approved
            assert "\n" not in answer["error"]
        found = models_of(server)
        assert [audit["arm"] for audit in found["value"]["audits"]] == ["Learned"]
        assert "Theirs" in found["refused"][0]
        assert server.request("/api/study?name=tiny")[0] == 200
    assert not canary.exists()


def test_code_that_is_allowed_and_approved_runs(theirs: tuple[Path, Path]):
    home, canary = theirs
    approve(code_named("tiny", home))
    with served(home, allow_code=True) as server, forgotten():
        assert [status for status, _ in answers(server)] == [200] * 6
    assert canary.exists()


def models_of(server: Served) -> dict[str, Any]:
    while (answer := server.request("/api/study/models?name=tiny")[1])["state"] == "running":
        time.sleep(0.2)
    return answer
