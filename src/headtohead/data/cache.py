"""The cache folder: downloads, tokenized corpora and other values that can be made again."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from headtohead.errors import Unavailable


def cache_folder() -> Path:
    """Return HEADTOHEAD_CACHE if it is set, else the folder for caches of the user's system."""
    if folder := os.environ.get("HEADTOHEAD_CACHE"):
        return Path(folder).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "headtohead"
    xdg = os.environ.get("XDG_CACHE_HOME", "")  # its specification says to ignore a relative path
    return (Path(xdg) if os.path.isabs(xdg) else Path(os.path.expanduser("~")) / ".cache") / "headtohead"


def make_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Create a folder with the files that `write` puts into it, all at once, so that no process sees half of them.
    If another process creates it first, that folder stays."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
        try:
            os.chmod(unfinished, 0o755)
            write(unfinished)
            os.replace(unfinished, folder)
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise cannot_write(folder.parent, error) from None


def cannot_write(folder: Path, error: OSError) -> Unavailable:
    """Return the error for a cache folder that cannot be written to."""
    return Unavailable(
        f"cannot write to {folder} ({error.strerror or error}): "
        "free some space, or set HEADTOHEAD_CACHE to a folder that can be written"
    )


def on_stderr(message: str) -> None:
    """Print a note about a download without disturbing the output of the command."""
    print(f"h2h: {message}", file=sys.stderr)
