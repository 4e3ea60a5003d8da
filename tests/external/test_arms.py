from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.arms import find_control, name_runs, side_names
from headtohead.external.sources import Source
from headtohead.external.values import Asked, RunLog


def source(name: str, group: int = 0, given: str = "", container: str = "") -> Source:
    return Source(Path(name), "log", name, given or name, group, container)


def named(*given: Source, groups: tuple[str, ...] = ()) -> list[tuple[str, str | None]]:
    runs = [RunLog(s.name, s.name, {}, {}, groups[n] if groups else "") for n, s in enumerate(given)]
    return name_runs(list(zip(given, runs, strict=True)), Asked())[0]


def test_arms_come_from_names_folders_groups_or_sides() -> None:
    assert named(source("a-seed1"), source("b-seed1.log")) == [("a", "1"), ("b", "1")]
    folders = [source("seed1", 0, "x/a", "a"), source("seed1", 0, "x/b", "b")]
    assert named(*folders) == [("a", "1"), ("b", "1")]
    assert named(source("wave-1"), source("wave-2"), groups=("A", "B")) == [("A", "1"), ("B", "2")]
    assert named(source("a-1"), source("b-2"), groups=("A", "")) == [("a", "1"), ("b", "2")]
    assert named(source("a-1"), source("b-2"), groups=("A", "A")) == [("a", "1"), ("b", "2")]
    assert [arm for arm, _ in named(source("a-s1"), source("a-s2"), source("c-s1", 1))] == ["a", "a", "c"]


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (["base-lr1-s1", "base-lr2-s1"], ["rope-x", "rope-y"], ["base-lr", "rope"]),
        (["x1", "y1"], ["z1", "w1"], ["control", "variant 1"]),
    ],
)
def test_names_of_sides(first: list[str], second: list[str], names: list[str]) -> None:
    sources = [source(n) for n in first] + [source(n, 1) for n in second]
    assert list(side_names(sources, [s.name for s in sources]).values()) == names


def test_sides_with_the_same_names_are_told_apart_by_folders() -> None:
    sources = [source("seed1", 0, "runs/a/seed*"), source("seed1", 1, "runs/b/seed*")]
    assert list(side_names(sources, ["", ""]).values()) == ["control", "variant 1"]
    sources = [source("tb-seed1", 0, "runs/a/tb-seed*"), source("tb-seed1", 1, "runs/b/tb-seed*")]
    assert list(side_names(sources, ["tb", "tb"]).values()) == ["a", "b"]


def test_the_control() -> None:
    assert find_control(["rope", "Baseline"], None) == "Baseline"
    assert find_control(["rope", "baseline-small"], None) == "baseline-small"
    assert find_control(["rope", "alibi"], None) == "rope"
    assert find_control(["rope", "baseline"], "rope") == "rope"
    with pytest.raises(InputError, match="did you mean rope"):
        find_control(["rope", "baseline"], "rop")
