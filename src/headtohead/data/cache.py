"""The cache folder: downloads, tokenized corpora and other values that can be made again."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from headtohead.disk import checksums
from headtohead.disk.checksums import Memory
from headtohead.disk.writing import write_whole
from headtohead.errors import Unavailable

SUMS = "checksums.json"  # sizes and sha256 of the files of a cached folder


def cache_folder() -> Path:
    """Return HEADTOHEAD_CACHE if it is set, else the folder for caches of the user's system."""
    if folder := os.environ.get("HEADTOHEAD_CACHE"):
        return Path(folder).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "headtohead"
    xdg = os.environ.get("XDG_CACHE_HOME", "")  # its specification says to ignore a relative path
    return (Path(xdg) if os.path.isabs(xdg) else Path(os.path.expanduser("~")) / ".cache") / "headtohead"


def checked() -> Memory:
    """Return the memory of folders whose files matched their checksums."""
    return _memory(cache_folder() / "checked.txt")


@functools.cache
def _memory(path: Path) -> Memory:
    return Memory(path)


def cached_folder(folder: Path, what: str, write: Callable[[Path], None]) -> Path:
    """Return a folder of the cache with the files that `write` puts into it. If it is absent or damaged, it is made
    all at once, so that no process sees half of it. If another process makes it first, that folder stays."""
    if os.path.lexists(folder):
        problem = folder_damage(folder, checked())
        if not problem:
            return folder
        on_stderr(f"{what} in {folder} {problem}: made again")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
        try:
            new, old = unfinished / "new", unfinished / "old"
            new.mkdir(mode=0o755)
            write(new)
            sums = checksums.sums_of(new, sorted(os.listdir(new)))
            write_whole(new / SUMS, json.dumps(checksums.with_checksum({"files": sums})))
            if os.path.lexists(folder) and folder_damage(folder):
                os.replace(folder, old)
            os.replace(new, folder)
        except OSError:
            if folder_damage(folder):
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise cannot_write(folder.parent, error) from None
    return folder


def folder_damage(folder: Path, memory: Memory | None = None) -> str:
    """What is wrong with a folder that `cached_folder` made; empty if nothing is. Without a memory, every file is
    hashed."""
    check = functools.partial(_folder_damage, folder)
    return check() if memory is None else memory.checked(folder, check)


def _folder_damage(folder: Path) -> str:
    try:
        sums = json.loads((folder / SUMS).read_bytes())
        if checksums.KEY not in sums or checksums.is_altered(sums):
            return f"is damaged ({SUMS} does not match its own checksum)"
        problem = checksums.damage(folder, sums["files"])
    except (FileNotFoundError, NotADirectoryError):
        return "has no checksums" if folder.is_dir() else "is not a folder"
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return f"is damaged ({SUMS} cannot be read)"
    return problem and f"is damaged ({problem})"


def cannot_write(folder: Path, error: OSError) -> Unavailable:
    """Return the error for a cache folder that cannot be written to."""
    return Unavailable(
        f"cannot write to {folder} ({error.strerror or error}): "
        "free some space, or set HEADTOHEAD_CACHE to a folder that can be written"
    )


def on_stderr(message: str) -> None:
    """Print a note about a download without disturbing the output of the command."""
    print(f"h2h: {message}", file=sys.stderr)
