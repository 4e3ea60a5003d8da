"""Models that the server keeps loaded."""

from __future__ import annotations

import threading

import pytest

from headtohead.run import store
from headtohead.run.load import load_trained
from headtohead.web.answers import Stopped
from headtohead.web.effects import tell_effect
from headtohead.web.models import Kept, Models, Side


def test_the_values_used_last_are_kept():
    kept: Kept[str] = Kept(2, 100, len)
    made = []

    def get(key: str, size: int = 1) -> None:
        kept.get(key, lambda: made.append(key) or key * size)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"]
    get("x", 200)
    assert [kept.has(key) for key in ("a", "b", "x")] == [False, False, True]


def test_a_model_is_loaded_once(snapshot_home, ids, monkeypatch):
    loads = []
    monkeypatch.setattr(
        "headtohead.web.models.load_trained", lambda *given: loads.append(given) or load_trained(*given)
    )
    models, record = Models(), store.find_run(ids[0], snapshot_home)
    threads = [
        threading.Thread(target=models.look, args=(Side(record, None, operations), "the union of people"))
        for operations in ("", "silence:0.0", "", "swap:1.0:1")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_an_evaluation_ends_when_the_page_is_gone(snapshot_home, ids):
    models, record = Models(), store.find_run(ids[0], snapshot_home)
    stop, told = threading.Event(), []

    def tell(value):
        told.append(value)
        stop.set()

    with pytest.raises(Stopped):
        tell_effect(models, Side(record, None, "silence:0.0"), "", tell, stop)
    assert told == [{"share": 0.0}]
    assert models.evaluating.acquire(blocking=False)
