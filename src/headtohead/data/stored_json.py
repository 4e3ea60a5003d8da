"""Read JSON that was written by headtohead and may since have been damaged, or written by somebody else.

Everything that can be wrong with such a file is one InputError, with the cause. Imports neither torch nor pydantic.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from headtohead.disk import checksums
from headtohead.errors import InputError

DEEPEST = 100  # levels of nesting; our files have about ten
DAMAGED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)  # by content


class Damaged(InputError):  # noqa: N818
    """A file is not as headtohead wrote it."""


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file. Refuses one that does not match its own checksum; older ones have none."""
    try:
        data = parsed(path.read_bytes())
    except (OSError, *DAMAGED) as error:
        raise unreadable(path, remedy, error) from None
    if checksums.is_altered(data):
        raise Damaged(f"{path} does not match its checksum, it was damaged or edited: set it aside and {remedy}")
    return data


def parsed(content: bytes | str) -> Any:
    """The value of JSON text. Raises ValueError if it is none, is nested too deep, or has half characters."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            break
    else:
        raise ValueError("nested too deep")
    if re.search(r"\\u[dD][89a-fA-F]", text):  # half a character, which cannot be written
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def unreadable(path: Path, remedy: str, error: BaseException | None = None) -> InputError:
    """The error of a stored file. One that the system does not let us read is not called corrupt."""
    if isinstance(error, OSError):
        return InputError(f"{path} cannot be read ({error.strerror or error}): ask its owner for permission to read it")
    return Damaged(f"{path} cannot be read: it is corrupt, or not written by headtohead; set it aside and {remedy}")


# -- types -------------------------------------------------------------------------------------------------------------


def check_types(value: Any) -> None:
    """Raise TypeError if a field of a dataclass, at any depth, is not of its declared type."""
    for name, kind in _hints(value.__class__).items():
        if not _is(getattr(value, name), kind):
            raise TypeError(f"{type(value).__name__}.{name} is not of type {kind}")


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type. A whole number counts as a float, and a boolean not as a number."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inner)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is dict:
        return isinstance(value, dict) and all(_is(k, inner[0]) and _is(v, inner[1]) for k, v in value.items())
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(_is(one, inner[0]) for one in value)
    if kind in (int, float):
        numbers = (int, float) if kind is float else (int,)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if kind in (None, types.NoneType):
        return value is None
    if not isinstance(value, kind):
        return False
    if dataclasses.is_dataclass(value):
        check_types(value)
    return True
