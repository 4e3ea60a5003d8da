"""Commands that train nothing import no torch, so that they answer at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.stores import stored
from helpers.terminal import h2h, imported_by


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its page; what commands keep in the cache is there."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_HOME", str(folder / "home"))
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        stored(folder / "home")
        for command in (["list", "parts"], ["report", "stored"]):
            done = h2h(*command)
            assert done.code == 0, done.err
    return folder


@pytest.fixture
def _inside(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(warm / "home"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(warm / "cache"))
    monkeypatch.chdir(warm)


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["--help"], "reproduce"),
        (["doctor"], "torch"),
        (["list", "runs"], "complete"),
        (["list", "runs", "--where", "model.position=Rope", "--study", "stored", "--json"], "Rope(theta=101.0)"),
        (["list", "parts"], "Sinusoidal"),
        (["list", "settings"], "train.steps = 500"),
        (["list", "studies"], "Does it matter?"),
        (["list", "corpora"], "shakespeare"),
        (["list", "recipes"], "published/window"),
        (["report", "stored"], "report.html"),
        (["check-claim", "Rope beats Learned by 0.02 nats, one run each"], "measured before"),
        (["puzzles", "check", "3", "--query", "0,0,0"], "right: "),
    ],
)
def test_commands_that_train_nothing_need_no_torch(command: list[str], says: str) -> None:
    done, modules = imported_by(*command)
    assert done.code == 0, done.err
    assert says in done.out
    assert "headtohead.cli" in modules
    assert not {"torch", "pandas", "matplotlib", "altair"} & modules
    assert not {"starlette", "uvicorn", "anyio", "headtohead.web"} & modules  # of h2h serve alone


@pytest.mark.usefixtures("_inside")
def test_a_quick_report_needs_no_torch() -> None:
    done, modules = imported_by("report", "stored", "--quick", "--again")
    assert done.code == 0, done.err
    assert "matplotlib" in modules
    assert "torch" not in modules
