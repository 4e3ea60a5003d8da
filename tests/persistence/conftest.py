"""Each test here has an empty store and an empty cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_store(home: Path) -> Path:
    return home
