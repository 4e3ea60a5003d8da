"""The one place that writes files. A file is written completely or not at all, and never through a symbolic link.

A finished file replaces a link of its name, not the file that the link points to. Files that are new or that grow are
opened so that a link is refused. Imports no torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headtohead.errors import InputError, Unavailable

UNFINISHED = ".unfinished"
ASIDE = ".damaged-"  # and a number: a file or folder that was set aside
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READABLE = 0o644  # readable by others: folders are copied and shared
FORBIDDEN = {
    *(errno.EACCES, errno.EROFS, errno.EPERM),
    *(errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP),  # such as in /proc
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP),  # a file system without locks
}


@contextlib.contextmanager
def one_line_write_errors(path: Path) -> Iterator[None]:
    """Report a full or broken disk, or a place that cannot be written, in one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Unavailable(
                f"the disk is full, {path} could not be written: free some space and give the same command again, "
                "it continues from the last checkpoint"
            ) from None
        if error.errno == errno.EIO:
            raise Unavailable(
                f"the disk reports an error, {path} could not be written: check the disk, then give the same command "
                "again"
            ) from None
        if error.errno == errno.EISDIR:
            raise Unavailable(f"cannot write {path}: it is a folder; rename or remove it") from None
        if error.errno in FORBIDDEN:
            raise Unavailable(f"cannot write {path}: {error.strerror}; {_elsewhere(path)}") from None
        raise


def _elsewhere(path: Path) -> str:
    """The remedy: HEADTOHEAD_HOME chooses the place of the store, an option or argument that of other files."""
    base = os.path.abspath(os.environ.get("HEADTOHEAD_HOME") or "h2h-results")
    here = os.path.abspath(path)
    in_store = here == base or here.startswith(os.path.join(base, ""))
    return f"{'set HEADTOHEAD_HOME to' if in_store else 'choose'} a folder of yours"


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file so that it has either the new content or the old one: write a temporary file, sync, rename."""
    with one_line_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)


def replace_whole(path: Path, content: bytes | str, mode: int = READABLE) -> None:
    """The same in a folder that is there, for callers with a remedy of their own: errors of the system are raised."""
    data = content.encode() if isinstance(content, str) else memoryview(content)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, mode)
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all bytes: a system call may write fewer than it was given."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: files written later are then never there without them."""
    if os.name != "posix":
        return  # Windows has no such call
    with one_line_write_errors(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
                raise
        finally:
            os.close(handle)


def open_to_append(path: Path, keep: int | None = None) -> int:
    """Open a file that grows; with `keep`, cut it to that many bytes first. A link in its place is an error."""
    with one_line_write_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINKS, READABLE)
        try:
            if keep is not None:
                os.ftruncate(handle, keep)
        except BaseException:
            os.close(handle)
            raise
    return handle


def open_new(path: Path) -> BinaryIO:
    """Open a file that must not exist yet, in a folder that is being made."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, READABLE), "wb")


def remove(path: Path) -> None:
    """Delete a file, if there is one. A folder in its place stays."""
    with one_line_write_errors(path):
        if not path.is_dir():
            path.unlink(missing_ok=True)


def clear_unfinished(*folders: Path) -> None:
    """Delete temporary files that killed processes left. Only for the holder of the folder's lock."""
    for folder in folders:
        for file in folder.glob(".*.*") if folder.is_dir() else ():
            if file.name.endswith(UNFINISHED):
                remove(file)


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, so that it is kept but not read."""
    aside = free_name(path)
    with one_line_write_errors(path):
        os.replace(path, aside)
    return aside


def free_name(path: Path) -> Path:
    """The name under which a damaged file or folder is set aside: `study.json.damaged-1`, or the next free number."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}{ASIDE}{number}")
        if not os.path.lexists(aside):
            return aside
    raise InputError(f"{path} was set aside 1,000 times: check the disk for errors")
