"""Values that take long to compute from files, stored as JSON in the cache folder until one of the files changes.

    derived("catalogue", package_digest(), make)

A file in the cache has its own checksum; a damaged file is computed again. Imports no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from headtohead import __version__
from headtohead.data.cache import cache_folder, on_stderr
from headtohead.errors import InputError
from headtohead.run import store

KEPT = 8  # files of one name: several checkouts of the project may share the cache


def derived(name: str, digest: str, make: Callable[[], Any], keep: Callable[[Any], bool] = lambda _: True) -> Any:
    """The JSON value that `make` returns, from the cache if it was made for the same `digest`. A value for which `keep`
    returns False is not stored."""
    path = cache_folder() / "derived" / f"{name}-{digest[:16]}.json"
    found = _read(path, digest)
    if found is not None:
        return found
    value = json.loads(json.dumps(make()))  # as the file will have it: lists, no tuples
    if not keep(value):
        return value
    with contextlib.suppress(InputError, OSError):  # a cache that cannot be written only costs time
        store.write_whole(path, json.dumps({"digest": digest, "checksum": _checksum(value), "value": value}))
        _prune(path)
    return value


def digest_of(folder: Path, files: Iterable[Path], *more: str) -> str:
    """A digest of the files' contents and names within the folder, and of `more`."""
    whole = hashlib.sha256(json.dumps(more).encode())
    for file in files:
        content = file.read_bytes()
        whole.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()


@cache
def package_digest() -> str:
    """A digest of the package's source files: it changes when a part or its documentation changes."""
    package = Path(__file__).parents[1]
    return digest_of(package, sorted(package.rglob("*.py")), __version__, str(sys.version_info[:2]))


def _read(path: Path, digest: str) -> Any:
    if not os.path.lexists(path):
        return None
    content = _sound(path)
    if content is None or content.get("digest") != digest:
        on_stderr(f"{path} is damaged: made again")
        return None
    return content["value"]


def is_sound(path: Path) -> bool:
    """Whether a file of derived values matches its own checksum."""
    return _sound(path) is not None


def _sound(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content if content["checksum"] == _checksum(content["value"]) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _checksum(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _prune(newest: Path) -> None:
    name = newest.name.rpartition("-")[0]
    old = sorted(newest.parent.glob(f"{name}-*.json"), key=lambda f: f.stat().st_mtime_ns, reverse=True)[KEPT:]
    for file in old:
        file.unlink(missing_ok=True)
