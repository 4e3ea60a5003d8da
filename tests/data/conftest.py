"""A cache folder of each test's own: nothing is read that an earlier run left, nothing is left behind."""

import pytest


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
