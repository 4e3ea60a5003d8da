"""Reads numbers from text or lists: `1,2,3` is a vector, `1,2;3,4` are two rows. Errors are one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles.reach import Array

LARGEST = 1e100  # the product of two such numbers is finite
MOST = 4096  # largest number of values in one option


def rows(name: str, given: Any) -> Array:
    """An array (m, d) from text such as 1,2;3,4 or from nested lists; text without a semicolon is one row."""
    if isinstance(given, str):
        given = [[_number(name, word) for word in row.split(",")] for row in given.strip().rstrip(";").split(";")]
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"--{name} needs numbers in rows of one length, such as 1,2;3,4") from None
    values = np.atleast_2d(values)
    size = np.abs(values)
    tiny = (size > 0) & (size < 1 / LARGEST)  # their quotients would be infinite
    for wrong, problem in (
        (values.ndim != 2 or values.size == 0, "is empty: give numbers such as 1,2,3"),
        (values.size > MOST, f"has {values.size:,} numbers: give at most {MOST:,}"),
        (not np.isfinite(values).all(), "has a number that is not finite: give numbers such as 1,2,3"),
        ((size > LARGEST).any(), f"has a number beyond {LARGEST:g}: give smaller numbers"),
        (tiny.any(), f"has a number nearer to 0 than {1 / LARGEST:g}: give 0 or a larger number"),
    ):
        if wrong:
            raise InputError(f"--{name} {problem}")
    return values


def vector(name: str, given: Any, length: int) -> Array:
    """An array (length,)."""
    values = rows(name, given)
    if values.shape != (1, length):
        has = f"{values.shape[1]}" if len(values) == 1 else f"{len(values)} rows of {values.shape[1]}"
        wanted = f"{length} number{'s' * (length > 1)}"
        raise InputError(f"--{name} takes {wanted}, not {has}: for example {_example(length)}")
    return values[0]


def matrix(name: str, given: Any, shape: tuple[int, int]) -> Array:
    """An array of this shape."""
    values = rows(name, given)
    if values.shape != shape:
        raise InputError(
            f"--{name} takes {shape[0]} rows of {shape[1]} numbers, not {values.shape[0]} of {values.shape[1]}: "
            f"for example '{_example(shape[1])};…'"
        )
    return values


def number(name: str, given: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    """One number within limits."""
    value = float(vector(name, given, 1)[0])
    if not least <= value <= most:
        limits = f"from {least:g} to {most:g}" if most < LARGEST else f"of {least:g} or more"
        raise InputError(f"--{name} takes a number {limits}, not {value:g}")
    return value


def whole(name: str, given: Any, least: int, most: int) -> int:
    """One whole number within limits."""
    value = number(name, given, least, most)
    if value != int(value):
        raise InputError(f"--{name} takes a whole number from {least} to {most}, not {value:g}")
    return int(value)


def _number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        shown = " ".join(word.split())[:40]
        what = f"'{shown}' is not a number" if shown else "a number is missing"
        raise InputError(f"--{name}: {what}; give numbers such as 1,2,3 or rows such as '1,2,3;4,5,6'") from None


def _example(length: int) -> str:
    return ",".join(str(n + 1) for n in range(min(length, 6))) + (",…" if length > 6 else "")
