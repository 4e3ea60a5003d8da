"""Checksums of files and of JSON objects, and the memory of what was checked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headtohead.disk.checksums import Memory, damage, is_altered, sums_of, with_checksum


def old(path: Path, content: bytes = b"abc") -> Path:
    """A file whose last change was long ago."""
    path.write_bytes(content)
    os.utime(path, ns=(10**18, 10**18))
    return path


def test_an_altered_object_does_not_match_its_checksum() -> None:
    data = with_checksum({"b": 0.1, "a": [1, None, "ü"], "c": {"x": True}})
    assert list(data) == ["b", "a", "c", "checksum"]
    assert not is_altered(data)
    assert not is_altered(json.loads(json.dumps(data, sort_keys=True, indent=4)))
    assert is_altered(data | {"b": 0.2})
    assert is_altered({k: v for k, v in data.items() if k != "a"})
    assert is_altered(data | {"d": 1})
    assert with_checksum(data) == data


@pytest.mark.parametrize("older", [{"a": 1}, [], None, 7, "x"])
def test_what_has_no_checksum_is_not_altered(older: object) -> None:
    assert not is_altered(older)


def test_damage_names_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    sums = sums_of(tmp_path, ["a"])
    assert damage(tmp_path, sums) == ""
    (tmp_path / "a").write_bytes(b"abd")
    assert damage(tmp_path, sums) == "a does not match its checksum"
    (tmp_path / "a").write_bytes(b"ab")
    assert damage(tmp_path, sums) == "a has 2 bytes, not 3"
    (tmp_path / "a").unlink()
    assert damage(tmp_path, sums) == "a is missing"
    (tmp_path / "a").mkdir()
    assert damage(tmp_path, sums) == "a is not a file"


@pytest.mark.parametrize("sums", [[], None, {"a": 1}, {"a": [1]}, {"a": None}])
def test_a_list_of_checksums_of_wrong_types_is_damage(tmp_path: Path, sums: object) -> None:
    found = damage(tmp_path, sums)  # type: ignore[arg-type]
    assert found == "its list of checksums is not one" or not sums


def test_a_folder_is_checked_again_only_when_it_changes(tmp_path: Path) -> None:
    folder, calls = tmp_path / "run", []
    folder.mkdir()
    path = old(folder / "a")

    def checked(memory: Memory) -> int:
        memory.checked(folder, lambda: calls.append(1) or "")
        return len(calls)

    memory = Memory(tmp_path / "cache" / "checked.txt")
    assert [checked(memory), checked(memory)] == [1, 1]
    assert checked(Memory(memory.path)) == 1  # another process
    path.write_bytes(b"abd")
    assert [checked(memory), checked(memory)] == [2, 3]  # too young to be remembered
    old(path)
    assert [checked(memory), checked(memory)] == [3, 3]  # as it was first
    old(folder / "b")
    assert [checked(memory), checked(memory)] == [4, 4]
    old(tmp_path / "other").replace(folder / "a")  # another file of the same size and time
    assert [checked(memory), checked(memory)] == [5, 5]
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(folder)
    assert checked(memory) == 5


def test_damage_is_not_remembered(tmp_path: Path) -> None:
    old(tmp_path / "a")
    memory = Memory(tmp_path.parent / f"{tmp_path.name}.txt")
    assert memory.checked(tmp_path, lambda: "damaged") == "damaged"
    assert memory.checked(tmp_path, lambda: "") == ""


def test_a_memory_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    old(tmp_path / "a")
    memory = Memory(tmp_path / "a" / "checked.txt")
    assert memory.checked(tmp_path, lambda: "") == ""


def test_another_size_with_the_old_time_is_noticed(tmp_path: Path) -> None:
    folder, calls = tmp_path / "run", []
    folder.mkdir()
    path = old(folder / "a")
    memory = Memory(tmp_path / "memory")
    for content in (b"abc", b"abcd"):
        with path.open("r+b") as file:  # the same file, so the place on the disk stays
            file.write(content)
        os.utime(path, ns=(10**18, 10**18))
        memory.checked(folder, lambda: calls.append(1) or "")
    assert len(calls) == 2
