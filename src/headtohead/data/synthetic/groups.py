"""Finite groups as tables of products: S5, A5, Z60, and direct products such as A4xZ5."""

from __future__ import annotations

import functools
import itertools
import math
import re
from dataclasses import dataclass

import numpy as np

from headtohead.errors import InputError

LARGEST = 1000  # elements


@dataclass(frozen=True)
class Group:
    """A group of G elements, of which the first is the identity."""

    names: tuple[str, ...]
    table: np.ndarray  # (G, G): table[a, b] is a · b, for permutations first b, then a


@functools.lru_cache(maxsize=16)
def group(name: str) -> Group:
    """Return the group of a name: S5, A5, Z60, A4xZ5."""
    factors = name.split("x")
    if not all(re.fullmatch(r"[SAZ][1-9]\d{0,2}", factor) for factor in factors):
        raise InputError(f"there is no group '{name}': write S5, A5, Z60 or a product such as A4xZ5")
    order = math.prod(_order(factor) for factor in factors)
    if not 2 <= order <= LARGEST:
        raise InputError(f"the group {name} has {order:,} elements: choose one of 2 to {LARGEST:,}")
    return functools.reduce(_product, map(_factor, factors))


def _order(factor: str) -> int:
    n = int(factor[1:])
    if factor[0] == "Z":
        return n
    whole = math.factorial(min(n, 10))  # more is too large in any case
    return whole if factor[0] == "S" or n < 2 else whole // 2


def _factor(name: str) -> Group:
    n = int(name[1:])
    if name[0] == "Z":
        i = np.arange(n)
        return Group(tuple(map(str, i)), (i[:, None] + i) % n)
    every = [p for p in itertools.permutations(range(n)) if name[0] == "S" or _is_even(p)]
    number = {p: i for i, p in enumerate(every)}
    table = [[number[tuple(a[i] for i in b)] for b in every] for a in every]
    return Group(tuple("".join(str(i + 1) for i in p) for p in every), np.array(table))


def _is_even(permutation: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 0


def _product(left: Group, right: Group) -> Group:
    """The pairs of elements, multiplied place by place."""
    n = len(right.names)
    i = np.arange(len(left.names) * n)
    table = left.table[i[:, None] // n, i // n] * n + right.table[i[:, None] % n, i % n]
    return Group(tuple(f"{a}/{b}" for a in left.names for b in right.names), table)
