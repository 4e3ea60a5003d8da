"""Files are written completely or not at all, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtohead.disk.writing import clear_unfinished, open_new, open_to_append, remove, set_aside, write_whole
from headtohead.errors import Unavailable


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.txt"
    path.write_text("of the user's")
    return path


def test_a_written_file_replaces_a_link(tmp_path: Path, users: Path) -> None:
    (tmp_path / "report.html").symlink_to(users)
    write_whole(tmp_path / "report.html", "new")
    assert users.read_text() == "of the user's"
    assert not (tmp_path / "report.html").is_symlink()
    assert (tmp_path / "report.html").read_text() == "new"


def test_a_growing_file_is_not_opened_through_a_link(tmp_path: Path, users: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to(users)
    with pytest.raises(Unavailable, match=r"cannot write .*metrics\.jsonl"):
        open_to_append(tmp_path / "metrics.jsonl", 0)
    with pytest.raises(FileExistsError):
        open_new(tmp_path / "metrics.jsonl")
    assert users.read_text() == "of the user's"


def test_a_growing_file_is_cut_only_if_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abcdef")
    os.close(open_to_append(path))
    assert path.read_text() == "abcdef"
    os.close(open_to_append(path, 2))
    assert path.read_text() == "ab"


def test_a_folder_is_set_aside_with_its_files(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "file").write_text(str(number))
        assert set_aside(tmp_path / "run").name == f"run.damaged-{number}"
    assert (tmp_path / "run.damaged-1" / "file").read_text() == "1"


def test_only_unfinished_files_are_cleared(tmp_path: Path) -> None:
    for name in (".a.json.12ab.unfinished", ".hidden", "a.json"):
        (tmp_path / name).touch()
    clear_unfinished(tmp_path, tmp_path / "absent")
    assert sorted(os.listdir(tmp_path)) == [".hidden", "a.json"]


def test_removing_spares_folders(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder", "absent"):
        remove(tmp_path / name)
    assert (tmp_path / "folder").is_dir()
