"""Tells replicates from repeats: a replicate is a run with another seed; a repeat runs the same seed again."""

from __future__ import annotations

import statistics
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from headtohead.errors import InputError
from headtohead.external.values import Value

WHY = (
    "runs of one seed share weights and batches, so they cannot show what another seed would give; "
    "give each run its own seed, or add --average-repeats"
)


def split_missing(values: Iterable[Value]) -> tuple[list[Value], list[Value], list[str]]:
    """Values that are there, values that are missing, and notes on seeds that failed once and have another value."""
    values = list(values)
    there = [value for value in values if not value.is_missing]
    have = {(value.arm, value.seed) for value in there if value.seed is not None}
    missing, notes = [], []
    for value in (v for v in values if v.is_missing):
        if (value.arm, value.seed) in have:
            notes.append(f"{value.named}: one value is missing ({value.source}); its other value counts")
        else:
            missing.append(value)
    return there, missing, notes


def without_repeats(values: Sequence[Value], average: bool) -> tuple[list[Value], list[str]]:
    """One value per arm and seed. Repeats are refused, or averaged if the user wants that."""
    runs: dict[tuple[str, str | None, int], list[Value]] = {}
    for n, value in enumerate(values):
        runs.setdefault((value.arm, value.seed, n if value.seed is None else 0), []).append(value)
    repeated = [found for found in runs.values() if len(found) > 1]
    if not repeated:
        return list(values), []
    if not average:
        first = repeated[0]
        raise InputError(f"{first[0].arm} has {len(first)} values for seed {first[0].seed}: {WHY}")
    merged = [
        replace(found[0], value=statistics.fmean(v.value for v in found), source=_sources(found))
        for found in runs.values()
    ]
    return merged, [f"{len(values)} values were averaged to {len(merged)}, one per arm and seed"]


def without_identical(values: Sequence[Value], average: bool) -> tuple[list[Value], list[str]]:
    """One value per arm and result. Runs that agree in every digit under different seeds ignore their seed.

    Values with few digits and shares of items, such as accuracies, can agree by chance and are left alone.
    """
    runs: dict[tuple[str, float], list[Value]] = {}
    for value in values:
        runs.setdefault((value.arm, value.value), []).append(value)
    same = [found for (_, number), found in runs.items() if len(found) > 1 and not may_tie(number)]
    if not same:
        return list(values), []
    first = same[0]
    seeds = " and ".join(f"seed {v.seed}" if v.seed is not None else v.source for v in first[:2])
    if not average:
        raise InputError(
            f"{first[0].arm}: {seeds} give exactly the same value, {first[0].value!r}: the seed has no effect there; "
            "check that it reaches the program, or add --average-repeats to count them once"
        )
    dropped = {id(value) for found in same for value in found[1:]}
    kept = [value for value in values if id(value) not in dropped]
    return kept, [f"{len(dropped)} values that equal another one of their arm in every digit were counted once"]


def may_tie(value: float) -> bool:
    """Whether independent runs may well have exactly this value: few digits, or a share of items."""
    single = struct.unpack("f", struct.pack("f", value))[0] == value if abs(value) < 1e38 else False
    items, rounding = (1000, 6e-8) if single else (10_000, 1e-12)  # TensorBoard keeps single precision
    return abs(float(Fraction(value).limit_denominator(items)) - value) <= rounding * abs(value)


def _sources(found: Sequence[Value]) -> str:
    return ", ".join(dict.fromkeys(value.source for value in found))
