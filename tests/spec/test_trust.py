"""The list of approved code: where it is, what is on it, and what happens when it cannot be read or written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.errors import Unavailable
from headtohead.spec import trust

CODE = b"x = 1\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty list for this test."""
    place = tmp_path / "config" / "trusted.json"
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(place))
    monkeypatch.setattr(trust, "_HERE", {})
    return place


def test_the_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTOHEAD_TRUST")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert trust.place() == tmp_path / ".config" / "headtohead" / "trusted.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # to be ignored, by its specification
    assert trust.place() == tmp_path / ".config" / "headtohead" / "trusted.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert trust.place() == tmp_path / "xdg" / "headtohead" / "trusted.json"
    monkeypatch.setenv("HEADTOHEAD_TRUST", "trusted.json")
    with pytest.raises(Unavailable, match="must be an absolute path"):
        trust.place()
    assert trust.approval(CODE) is None


def test_approved_code_is_known_by_its_whole_content(own: Path) -> None:
    assert trust.approval(CODE) is None
    trust.approve(CODE, "mine.py")
    found = trust.approval(CODE)
    assert found is not None
    assert (found.name, found.bytes, found.folder) == ("mine.py", 6, None)
    assert trust.approval(CODE + b"#") is None
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    assert [p.name for p in own.parent.iterdir() if "lock" not in p.name] == ["trusted.json"]


def test_the_folder_of_the_last_run_is_kept(own: Path, tmp_path: Path) -> None:
    for folder, kept in ((None, None), (tmp_path / "a", "a"), (None, "a"), (tmp_path / "b", "b")):
        trust.approve(CODE, "mine.py", folder)
        (entry,) = trust.approvals().values()
        assert entry.folder == (kept and str(tmp_path / kept))
    before = own.stat().st_mtime_ns
    trust.approve(CODE, "mine.py", tmp_path / "b")
    assert own.stat().st_mtime_ns == before, "nothing new, so nothing is written"


@pytest.mark.usefixtures("own")
def test_removed_code_is_not_approved() -> None:
    trust.approve(CODE, "mine.py")
    trust.approve(b"y = 2\n", "other.py")
    (gone,) = trust.remove({trust.sha256_of(CODE)})
    assert gone.name == "mine.py"
    assert trust.remove({trust.sha256_of(CODE)}) == []
    assert [entry.name for entry in trust.approvals().values()] == ["other.py"]


DAMAGE = {
    "no JSON": "garbage",
    "another shape": "[]",
    "another version": '{"format": 99, "files": {}}',
    "files of no kind": '{"format": 1, "files": []}',
    "an entry of no kind": json.dumps({"format": 1, "files": {"0" * 64: {"nope": 1}}}),
    "a short hash": json.dumps({"format": 1, "files": {"00": {"name": "a.py", "bytes": 1}}}),
    "a folder of no kind": json.dumps({"format": 1, "files": {"0" * 64: {"name": "a", "bytes": 1, "folder": []}}}),
    "nested too deeply": "[" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_list_is_copied_and_begun_anew(own: Path, content: str, capfd: pytest.CaptureFixture[str]) -> None:
    own.parent.mkdir()
    own.write_text(content)
    own.chmod(0o600)
    assert trust.approvals() == {}
    assert str(own) in trust.problem()
    assert own.read_text() == content, "reading changes nothing"
    trust.approve(CODE, "mine.py")
    assert own.with_name("trusted.json.old").read_text() == content
    assert capfd.readouterr().err.count("\n") == 1
    assert trust.approval(CODE) is not None
    own.write_text("again")
    trust.approve(CODE, "mine.py")
    assert own.with_name("trusted.json.old1").read_text() == "again"
    assert own.with_name("trusted.json.old").read_text() == content


def test_a_list_that_others_can_write_does_not_count(own: Path) -> None:
    trust.approve(CODE, "mine.py")
    own.chmod(0o666)
    assert trust.approval(CODE) is None
    assert "chmod 600" in trust.problem()
    own.chmod(0o600)
    assert trust.approval(CODE) is not None


def test_a_list_that_cannot_be_written(own: Path) -> None:
    own.parent.write_text("a file where the folder should be")
    with pytest.raises(Unavailable, match="set HEADTOHEAD_TRUST to a file of yours") as error:
        trust.approve(CODE, "mine.py")
    assert "\n" not in str(error.value)
    trust.remember(CODE, "mine.py", Path("/somewhere"))  # what the user runs works in this process all the same
    found = trust.approval(CODE)
    assert found is not None
    assert found.folder == "/somewhere"


def test_many_processes_write_one_list(own: Path) -> None:
    code = "import sys; from headtohead.spec import trust; trust.approve(sys.argv[1].encode(), 'mine.py')"
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen([*command, str(n)], env=dict(os.environ)) for n in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert set(trust.approvals()) == {trust.sha256_of(str(n).encode()) for n in range(4)}
    assert json.loads(own.read_text())["format"] == 1
