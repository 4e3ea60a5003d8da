"""A student's folder: which files are read, where a file is found, and the copy that a check works on."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.errors import InputError

MOST_FILES = 2_000
MOST_OF_FILE = 20 * 2**20  # bytes
MOST_IN_ALL = 100 * 2**20
LEFT_OUT = {"__pycache__", ".git", ".venv", "venv", "node_modules", ".ipynb_checkpoints", "__MACOSX"}


@dataclass(frozen=True)
class Submission:
    """What a student handed in."""

    name: str
    folder: Path
    files: tuple[str, ...]  # that are copied, relative to the folder
    notes: tuple[str, ...] = field(default=())  # what was left out, for the student

    def find(self, wanted: str) -> tuple[str, str] | None:
        """Return the file that is meant and, if it is named or placed differently, what to rename."""
        if wanted in self.files:
            return wanted, ""
        name = Path(wanted).name.lower()
        like = [file for file in self.files if Path(file).name.lower() == name]
        if not like:
            return None
        found = min(like, key=lambda file: (file.count("/"), file))
        return found, f"{found} was read: rename or move it to {wanted}"

    def copy_to(self, folder: Path) -> None:
        """Copy the files, without links. A check may change its copy as it likes."""
        for file in self.files:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / file, target, follow_symlinks=False)


def read_submission(folder: Path) -> Submission:
    """List a folder. Links, very large files and folders of tools are left out, with a note."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}: a submission is a folder with the student's files")
    files: list[str] = []
    notes: list[str] = []
    total = 0
    for path in sorted(_walk(folder)):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            notes.append(f"{_short(name)} is a link and was left out: hand in the file itself")
        elif path.is_file():
            size = path.stat().st_size
            if size > MOST_OF_FILE:
                notes.append(f"{_short(name)} is larger than {MOST_OF_FILE // 2**20} MB and was left out")
            elif len(files) >= MOST_FILES or total + size > MOST_IN_ALL:
                notes.append(f"{_short(name)} and what follows were left out: the submission is too large")
                break
            else:
                files.append(name)
                total += size
    if not files:
        notes.append("the folder is empty: hand in the files that the assignment names")
    return Submission(folder.resolve().name, folder, tuple(files), tuple(notes))


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, followlinks=False):
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and name not in links)
        yield from (Path(root) / name for name in (*files, *links))


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}…"


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a .zip of a submission into a folder; nothing leaves the folder."""
    try:
        with zipfile.ZipFile(archive) as found:
            infos = [info for info in found.infolist() if not info.is_dir()]
            if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > MOST_IN_ALL:
                raise InputError(f"{archive} is too large: at most {MOST_FILES} files and {MOST_IN_ALL // 2**20} MB")
            for info in infos:
                parts = [p for p in Path(info.filename.replace("\\", "/")).parts if p not in ("/", "..", ".", "")]
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(found.read(info))
    except InputError:
        raise
    except Exception as error:  # each kind of compression has its own errors
        raise InputError(f"{archive} cannot be unpacked: {error}") from None
    inside = [path for path in folder.iterdir() if path.name not in LEFT_OUT]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
