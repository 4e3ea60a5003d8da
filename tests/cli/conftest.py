"""Commands are typed with an empty store and cache, or on a store with tiny trained runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.stores import Shelf
from helpers.terminal import Type


@pytest.fixture(autouse=True)
def own_store(home: Path) -> Path:
    return home


@pytest.fixture
def typed(shelf: Shelf, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Run a command in the folder that holds the trained store and its texts, on a terminal of 80 columns."""
    monkeypatch.chdir(shelf.folder)
    monkeypatch.setenv("HEADTOHEAD_HOME", str(shelf.home))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(shelf.folder / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    return type_in
