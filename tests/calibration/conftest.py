"""Verdicts without advice, where thousands are asked for."""

from __future__ import annotations

import pytest

from headtohead import stats
from headtohead.stats import pairs_for


@pytest.fixture(autouse=True, scope="module")
def _no_advice():
    """How many pairs are needed takes longer to say than all the rest, and thousands of verdicts are asked for here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "pairs_for", lambda *_: None)
        yield


@pytest.fixture
def _advice(monkeypatch):
    monkeypatch.setattr(stats, "pairs_for", pairs_for)
