"""Numbers as they are typed or given: `1,2,3` is a vector, `1,2;3,4` are rows. What is wrong is said in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles.reach import Array

LARGEST = 1e100  # products of two such numbers are still finite
MOST = 4096  # numbers in one option


def rows(name: str, given: Any) -> Array:
    """(m, d) from text such as 1,2;3,4 or from nested lists; one row where there is no semicolon."""
    if isinstance(given, str):
        given = [[_number(name, word) for word in row.split(",")] for row in given.strip().rstrip(";").split(";")]
    try:
        found = np.array(given, dtype=float)
    except (TypeError, ValueError):
        sizes = ", ".join(str(len(row)) if hasattr(row, "__len__") else "1" for row in given) if _is_list(given) else ""
        raise InputError(
            f"--{name} needs numbers in rows of one length" + (f", not of {sizes}" if sizes else "")
        ) from None
    found = np.atleast_2d(found)
    if found.ndim != 2 or found.size == 0:
        raise InputError(f"--{name} is empty: give numbers such as 1,2,3")
    if found.size > MOST:
        raise InputError(f"--{name} has {found.size:,} numbers: at most {MOST:,}")
    if not np.isfinite(found).all():
        raise InputError(f"--{name} has a number that is not finite: give plain numbers such as 1,2,3")
    if np.abs(found).max() > LARGEST:
        raise InputError(f"--{name} has a number beyond {LARGEST:g}: give smaller ones")
    if np.any((found != 0) & (np.abs(found) < 1 / LARGEST)):  # quotients must stay finite too
        raise InputError(f"--{name} has a number nearer to 0 than {1 / LARGEST:g}: give 0, or a larger one")
    return found


def vector(name: str, given: Any, length: int) -> Array:
    """(length,)"""
    found = rows(name, given)
    if found.shape != (1, length):
        has = f"{found.shape[1]}" if len(found) == 1 else f"{len(found)} rows of {found.shape[1]}"
        raise InputError(f"--{name} takes {length} number{'s' * (length > 1)}, not {has}: such as {_example(length)}")
    return found[0]


def matrix(name: str, given: Any, shape: tuple[int, int]) -> Array:
    found = rows(name, given)
    if found.shape != shape:
        raise InputError(
            f"--{name} takes {shape[0]} rows of {shape[1]} numbers, not {found.shape[0]} of {found.shape[1]}: "
            f"such as '{_example(shape[1])};…'"
        )
    return found


def number(name: str, given: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    value = float(vector(name, given, 1)[0])
    if not least <= value <= most:
        limits = f"from {least:g} to {most:g}" if most < LARGEST else f"of {least:g} or more"
        raise InputError(f"--{name} takes a number {limits}, not {value:g}")
    return value


def whole(name: str, given: Any, least: int, most: int) -> int:
    value = number(name, given, least, most)
    if value != int(value):
        raise InputError(f"--{name} takes a whole number from {least} to {most}, not {value:g}")
    return int(value)


def _number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        shown = " ".join(word.split())[:40]
        what = f"'{shown}' is no number" if shown else "a number is missing"
        raise InputError(f"--{name}: {what}; give numbers such as 1,2,3 and rows such as '1,2,3;4,5,6'") from None


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple)


def _example(length: int) -> str:
    return ",".join(str(n + 1) for n in range(min(length, 6))) + (",…" if length > 6 else "")
