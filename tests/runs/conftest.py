"""A store and a cache of each test's own, and small texts to train on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headtohead.data.wheels import cache_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    vega = cache_folder() / "vega"  # which is the same for all, and takes seconds to make
    vega.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "vega").symlink_to(vega)
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path)


def write_text(folder: Path) -> Path:
    """Some 9,000 characters that a tiny model learns something from."""
    draw = random.Random(0)
    words = ["the", "of", "and", "to", "a", "in", "we", "our", "people", "that", "will", "is", "for", "this", "union"]
    lines = (" ".join(draw.choices(words, k=8)) for _ in range(280))
    path = folder / "mine.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two classes that a tiny model can tell apart, of 120 different texts."""
    path = tmp_path / "mine.csv"
    rows = [f"{word} {n} times,{label}" for n in range(60) for word, label in (("good", "up"), ("bad", "down"))]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path
