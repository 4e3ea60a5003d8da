"""Bins of long texts."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.interpret.bins import bin_edges, bin_labels, binned


@pytest.mark.parametrize(("length", "bins"), [(7, 3), (10, 10), (5, 9), (1, 1), (100, 7)])
def test_bins_keep_rows_summing_to_one(length, bins):
    w = np.random.default_rng(0).random((2, length, length))
    w /= w.sum(axis=-1, keepdims=True)
    edges = bin_edges(length, bins)
    small = binned(w, edges)
    width = -(-length // bins)
    n = -(-length // width)
    assert set(np.diff(edges)[:-1]) <= {width}, "a wider bin among narrow ones is a stripe that is not there"
    assert small.shape == (2, n, n)
    np.testing.assert_allclose(small.sum(axis=-1), 1)
    for a in range(n):
        for b in range(n):
            block = w[1, edges[a] : edges[a + 1], edges[b] : edges[b + 1]]
            assert small[1, a, b] == pytest.approx(block.sum(axis=1).mean())
    assert len(bin_labels(["t"] * length, edges)) == n


def test_queries_and_keys_of_a_region_have_their_own_bins():
    weights = np.arange(24, dtype=float).reshape(4, 6)
    found = binned(weights, np.array([0, 2, 4]), np.array([0, 3, 6]))
    assert found.tolist() == [[(0 + 1 + 2 + 6 + 7 + 8) / 2, 21.0], [48.0, 57.0]]
    assert binned(weights, np.arange(5), np.arange(7)) is weights
