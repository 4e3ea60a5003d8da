"""Each test here has an empty store and an empty cache, and makes no connection."""

import pytest


@pytest.fixture(autouse=True)
def own_store(offline: None) -> None:
    return offline
