"""Each test here has an empty store and cache; a study is trained once and copied for each test that asks for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headtohead.outcome.outcome import Outcome, load_outcome
from helpers.corpora import write_text
from helpers.studies import carried, study


@pytest.fixture(autouse=True)
def own_store(home: Path) -> Path:
    return home


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        what = study(write_text(folder), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
        assert carried(what, folder / "home")
    return folder / "home"


@pytest.fixture
def outcome(trained: Path, tmp_path: Path) -> Outcome:
    shutil.copytree(trained, tmp_path / "store")
    return load_outcome(next(tmp_path.glob("store/studies/*")))
