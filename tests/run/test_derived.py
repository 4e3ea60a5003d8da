"""Values kept in the cache: made once, made again when their files change, never trusted when damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

import headtohead
from headtohead.run.derived import KEPT, derived, digest_of

PACKAGE = Path(headtohead.__file__).parent
A, B = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "derived"


class Made:
    """Counts how often a value is made."""

    def __init__(self, value: Any = None) -> None:
        self.value, self.times = value or {"n": [1, 2.5, None, "é"]}, 0

    def __call__(self) -> Any:
        self.times += 1
        return self.value


def test_a_value_is_made_once_for_one_digest() -> None:
    make = Made()
    assert derived("thing", A, make) == derived("thing", A, make) == make.value
    assert make.times == 1
    derived("thing", B, make)
    derived("other", A, make)
    assert make.times == 3


def test_a_cached_value_equals_the_made_one() -> None:
    made = derived("thing", A, Made({"pair": (1, 2)}))
    assert made == {"pair": [1, 2]} == derived("thing", A, Made("never made"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "null",
        lambda _: "[1]",
        lambda _: '{"value": 1}',
        lambda _: "[" * 100_000,
        lambda text: text.replace("2.5", "2.6"),
        lambda text: text.replace(A, B),
        lambda text: text.replace(json.loads(text)["checksum"], "0" * 64),
    ],
    ids=["cut", "empty", "null", "list", "no checksum", "deep", "edited", "other digest", "other checksum"],
)
def test_a_damaged_file_is_made_again(damage: Any, cache: Path) -> None:
    make = Made()
    derived("thing", A, make)
    (file,) = cache.iterdir()
    whole = file.read_text()
    file.write_text(damage(whole))
    assert derived("thing", A, make) == make.value
    assert make.times == 2
    assert file.read_text() == whole


def test_a_file_of_odd_bytes_is_made_again(cache: Path) -> None:
    make = Made()
    derived("thing", A, make)
    next(cache.iterdir()).write_bytes(b"\xff\x00")
    assert derived("thing", A, make) == make.value


def test_an_unwritable_cache_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "file"))
    make = Made()
    assert derived("thing", A, make) == derived("thing", A, make) == make.value
    assert make.times == 2


def test_a_value_that_keep_refuses_is_not_cached(cache: Path) -> None:
    make = Made({"missing": ["x"]})
    for _ in range(2):
        derived("thing", A, make, keep=lambda value: not value["missing"])
    assert make.times == 2
    assert not cache.exists()


def test_old_files_of_the_same_name_are_removed(cache: Path) -> None:
    derived("other", A, Made())
    for n in range(KEPT + 3):
        derived("thing", f"{n:02}" * 32, Made())
    assert len(list(cache.glob("thing-*.json"))) == KEPT
    assert len(list(cache.glob("other-*.json"))) == 1


def test_a_digest_changes_with_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    seen = set()
    for content, file, more in (("a", one, ""), ("b", one, ""), ("a", two, ""), ("a", one, "x")):
        file.write_text(content)
        seen.add(digest_of(tmp_path, [file], more))
    one.write_text("a")
    assert digest_of(tmp_path, [one], "") in seen
    assert len(seen) == 4


def test_a_part_added_to_a_file_is_listed_at_once(tmp_path: Path) -> None:
    copytree(PACKAGE, tmp_path / "headtohead", ignore=ignore_patterns("__pycache__"))
    code = "from headtohead.cli import main; main()"

    def listed() -> set[str]:
        ran = subprocess.run(
            [sys.executable, "-c", code, "list", "parts", "--json"], cwd=tmp_path, capture_output=True, check=True
        )
        return {entry["name"] for entry in json.loads(ran.stdout)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        before = listed()
        file = tmp_path / "headtohead" / "parts" / "patterns.py"
        new = 'class Odd(Full):\n    """Every token, oddly."""\n'
        file.write_text(file.read_text().replace("class Causal(", f"{new}\n\nclass Causal("))
        assert listed() - before == {"Odd"}
