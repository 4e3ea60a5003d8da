"""Groups: the axioms, and what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead import InputError
from headtohead.data.synthetic.groups import group

ORDERS = {"S3": 6, "S5": 120, "A4": 12, "A5": 60, "Z2": 2, "Z60": 60, "A4xZ5": 60, "Z2xZ3xS3": 36}


@pytest.mark.parametrize("name", ORDERS)
def test_tables_are_groups(name: str) -> None:
    table = group(name).table
    n = len(table)
    assert n == len(group(name).names) == len(set(group(name).names)) == ORDERS[name]
    every = np.arange(n)
    assert (table[0] == every).all(), "the first element is the identity"
    assert (table[:, 0] == every).all()
    assert all((np.sort(line) == every).all() for line in (*table, *table.T)), "every element has an inverse"
    draw = np.random.default_rng(0)
    a, b, c = draw.integers(0, n, (3, 2000))
    assert (table[table[a, b], c] == table[a, table[b, c]]).all(), "associative"


@pytest.mark.parametrize(
    ("name", "commutes"), [("Z60", True), ("Z4xZ3", True), ("S3", False), ("A5", False), ("A4xZ5", False)]
)
def test_products_that_commute(name: str, commutes: bool) -> None:
    table = group(name).table
    assert (table == table.T).all() == commutes


def commutators(table: np.ndarray, inside: np.ndarray) -> set[int]:
    """The subgroup that the commutators of some elements generate."""
    inverse = table.argmin(axis=1)
    a, b = np.meshgrid(inside, inside)
    found = set(table[table[a, b], table[inverse[a], inverse[b]]].ravel().tolist())
    while len(wider := {int(table[x, y]) for x in found for y in found} | found) > len(found):
        found = wider
    return found


@pytest.mark.parametrize(("name", "solvable"), [("A5", False), ("A4xZ5", True), ("S3", True)])
def test_a5_alone_is_not_solvable(name: str, solvable: bool) -> None:
    table = group(name).table
    inside = set(range(len(table)))
    for _ in range(4):
        inside = commutators(table, np.array(sorted(inside)))
    assert (len(inside) == 1) == solvable


@pytest.mark.parametrize("name", ["S9", "Z1", "A10", "Z999999", "x", "S5x", "Z1xZ1", "s5"])
def test_other_groups_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="group"):
        group(name)
