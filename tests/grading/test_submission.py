"""Which files of a submission are read: no links, nothing huge, nothing outside."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.grading.submission import MOST_OF_FILE, read_submission, unpacked


def test_files_are_found_under_other_places_and_names(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "Model.py").write_text("x = 1")
    (tmp_path / "decoder.py").write_text("x = 1")
    found = read_submission(tmp_path)
    assert found.find("decoder.py") == ("decoder.py", "")
    assert found.find("model.py") == ("src/Model.py", "src/Model.py was read: rename or move it to model.py")
    assert found.find("other.py") is None


def test_links_and_huge_files_are_left_out_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "passwd.py").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"x")
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(MOST_OF_FILE + 1)
    (tmp_path / "a.py").write_text("x = 1")
    found = read_submission(tmp_path)
    assert found.files == ("a.py",)
    assert sorted(note.split()[0] for note in found.notes) == ["big.bin", "loop", "passwd.py"]
    copy = tmp_path / "copy"
    copy.mkdir()
    found.copy_to(copy)
    assert [p.name for p in copy.iterdir()] == ["a.py"]


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    assert "the folder is empty" in read_submission(tmp_path).notes[0]
    with pytest.raises(InputError, match="no folder"):
        read_submission(tmp_path / "none")


def test_a_zip_cannot_leave_its_folder(tmp_path: Path) -> None:
    archive = tmp_path / "s.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../outside.py", "x = 1")
        file.writestr("/absolute.py", "x = 1")
    inside = tmp_path / "inside"
    inside.mkdir()
    folder = unpacked(archive, inside)
    assert sorted(p.name for p in folder.iterdir()) == ["absolute.py", "outside.py"]
    assert not (tmp_path.parent / "outside.py").exists()
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpacked(tmp_path / "bad.zip", inside)


def damaged(archive: Path, method: int) -> Path:
    """An archive whose directory is sound and whose content is not."""
    with zipfile.ZipFile(archive, "w", method) as file:
        file.writestr("puzzles.toml", "select = [0.0, 9.0]\n" * 100)
    data = bytearray(archive.read_bytes())
    data[50:70] = b"\xff" * 20
    archive.write_bytes(bytes(data))
    return archive


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_one_line(method: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpacked(damaged(tmp_path / "s.zip", method), tmp_path)


def test_a_zip_with_a_name_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    archive = tmp_path / "s.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("\u00e9.py", "x = 1")
    archive.write_bytes(archive.read_bytes().replace("\u00e9".encode(), b"\xff\xff"))
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpacked(archive, tmp_path)
