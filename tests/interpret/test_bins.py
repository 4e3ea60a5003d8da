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
