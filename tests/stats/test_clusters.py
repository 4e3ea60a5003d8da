"""Clusters of windows share no token, and clusters of labelled texts are equal in size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from headtohead.stats.clusters import LEAST_BLOCKS, MOST_GROUPS, MOST_STRETCHES, OUTSIDE, groups, merged, stretches


def tiled(text: int, block: int, stride: int) -> np.ndarray:
    return np.arange(0, text - block + 1, stride)


@pytest.mark.parametrize("block", [1, 2, 7, 32])
@pytest.mark.parametrize("text", [40, 1631, 5000])
@pytest.mark.parametrize("share", [0, 0.5, 1, 1.5])
def test_windows_of_different_clusters_share_no_token(block: int, text: int, share: float):
    starts = tiled(text, block, max(1, int(share * block)))
    if not len(starts):
        return
    found = stretches(starts, np.full(len(starts), block))
    spans = [
        (starts[found == c].min(), starts[found == c].max() + block) for c in range(found.max() + 1)
    ]  # each cluster has a window
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    blocks = (starts[-1] + block) // block
    assert len(spans) == min(MOST_STRETCHES, max(1, blocks // LEAST_BLOCKS))
    for start, cluster in zip(starts, found, strict=True):
        holds = [c for c, (a, b) in enumerate(spans) if a <= start and start + block <= b]
        assert holds == ([] if cluster == OUTSIDE else [cluster])


@pytest.mark.parametrize("text", [32 * 48, 32 * 100 + 5, 32 * 1000])
def test_windows_side_by_side_make_clusters_of_equal_length(text: int):
    starts = np.arange(0, text - 1, 32)
    tokens = np.minimum(32, text - 1 - starts)
    found = stretches(starts, tokens)
    sizes = np.bincount(found)
    assert sizes.max() - sizes.min() <= 1 + (text % 32 > 0)


def test_overlapping_windows_lose_at_most_one_block_per_boundary():
    starts = tiled(32 * 240, 32, 1)
    found = stretches(starts, np.full(len(starts), 32))
    assert (found == OUTSIDE).sum() == 31 * (MOST_STRETCHES - 1)


def test_windows_that_count_new_tokens_only_are_still_a_block_long():
    """All but the first count 8 tokens, but read 32."""
    starts = tiled(32 * 100, 32, 8)
    tokens = np.r_[32, np.full(len(starts) - 1, 8)]
    assert stretches(starts, tokens).tolist() == stretches(starts, np.full(len(starts), 32)).tolist()


def test_a_text_need_not_begin_at_zero_and_may_be_short():
    starts = tiled(5000, 32, 16)
    block = np.full(len(starts), 32)
    assert stretches(starts + 777, block).tolist() == stretches(starts, block).tolist()
    assert stretches([5], [3]).tolist() == [0]
    assert stretches([], [1]).tolist() == []


def test_merged_clusters_keep_their_order_and_are_as_many_as_asked():
    clusters = np.array([0, 0, OUTSIDE, 1, 2, 3, OUTSIDE, 4, 5, 6])
    assert merged(clusters, 3).tolist() == [0, 0, OUTSIDE, 0, 0, 1, OUTSIDE, 1, 2, 2]
    assert merged(clusters, 7).tolist() == merged(clusters, 9).tolist() == clusters.tolist()
    assert set(merged(np.arange(24), 8).tolist()) == set(range(8))
    assert merged(np.arange(5), 0).tolist() == [0] * 5


def test_labelled_texts_make_groups_of_equal_size():
    found = groups(750)
    sizes = np.bincount(found)
    assert len(sizes) == MOST_GROUPS
    assert sizes.max() - sizes.min() <= 1
    assert found.tolist() == groups(750).tolist()
    first = np.bincount(found[:250], minlength=MOST_GROUPS)  # a class that comes first in the file
    assert first.std() > 1, "drawn at random, not dealt out in turn"
    assert sorted(groups(7).tolist()) == list(range(7))
