"""Trackers write into the test's own folder and need no store."""

import pytest


@pytest.fixture(autouse=True)
def own_store() -> None: ...
