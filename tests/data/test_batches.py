"""Batches: a function of seed and step alone, each window once a pass, and padding that nobody mistakes for text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead.data.batches import Encoded, sentences, windows, windows_in
from headtohead.errors import InputError
from headtohead.parts.samplings import RandomWindows
from headtohead.spec.streams import stream

few = settings(max_examples=100, deadline=None)


# -- which windows -----------------------------------------------------------------------------------------------------


def test_random_streams_are_independent():
    numbers = {stream(seed, name, n) for seed in range(20) for name in ("order", "dropout") for n in range(50)}
    assert len(numbers) == 2000
    assert all(0 <= n < 2**63 for n in numbers)
    assert stream(3, "order", 17) == stream(3, "order", 17)
    assert stream(1, "a", 12) != stream(1, "a", 1, 2)


# -- windows -----------------------------------------------------------------------------------------------------------


@few
@given(st.lists(st.integers(0, 9), min_size=5, max_size=40), st.integers(1, 4), st.data())
def test_targets_are_the_next_tokens(tokens, block, data):
    array = np.array(tokens, np.uint16)
    last = windows_in(array, block) - 1
    starts = data.draw(st.lists(st.integers(0, last), min_size=1, max_size=5))
    batch = windows(array, np.array(starts), block)
    assert batch.ids.tolist() == [tokens[s : s + block] for s in starts]
    assert batch.targets.tolist() == [tokens[s + 1 : s + block + 1] for s in starts]
    assert batch.ids.dtype == batch.targets.dtype == np.int64
    assert batch.keep is None
    assert batch.tokens == len(starts) * block


def test_the_last_window_ends_with_the_text():
    tokens = np.arange(10, dtype=np.uint16)
    assert windows_in(tokens, 4) == 6
    assert windows(tokens, np.array([5]), 4).targets.tolist() == [[6, 7, 8, 9]]
    with pytest.raises(IndexError):
        windows(tokens, np.array([6]), 4)
    assert windows_in(tokens, 9) == 1
    with pytest.raises(InputError, match="has 10 tokens and one window needs 11"):
        windows_in(tokens, 10)


# -- sentences ---------------------------------------------------------------------------------------------------------


def encoded(texts: list[list[int]], labels: list[int] | None = None) -> Encoded:
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    flat = np.array([i for t in texts for i in t], np.uint16)
    return Encoded(flat, offsets, np.array(range(len(texts)) if labels is None else labels))


def naive(texts: list[list[int]], which: list[int], block: int) -> tuple[list[list[int]], list[list[bool]]]:
    cut = [texts[n][:block] for n in which]
    longest = max(1, *map(len, cut), 1)
    ids = [t + [0] * (longest - len(t)) for t in cut]
    keep = [[True] * max(1, len(t)) + [False] * (longest - max(1, len(t))) for t in cut]
    return ids, keep


texts_of_ids = st.lists(st.lists(st.integers(1, 99), max_size=8), min_size=1, max_size=12).filter(any)


@settings(max_examples=300, deadline=None)
@given(texts_of_ids, st.integers(1, 9), st.data())
def test_a_batch_of_sentences_matches_a_plain_loop(texts, block, data):
    which = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    batch = sentences(encoded(texts), np.array(which), block)
    ids, keep = naive(texts, which, block)
    assert batch.ids.tolist() == ids
    assert batch.keep.tolist() == keep
    assert batch.targets.tolist() == which
    assert batch.ids.dtype == np.int64
    assert batch.keep.dtype == bool
    assert batch.tokens == sum(map(sum, keep))


def test_an_empty_sentence_keeps_one_padding_token():
    batch = sentences(encoded([[5, 6], [], [7]]), np.array([1, 0, 2, 1]), 4)
    assert batch.ids.tolist() == [[0, 0], [5, 6], [7, 0], [0, 0]]
    assert batch.keep.tolist() == [[True, False], [True, True], [True, False], [True, False]]
    last = sentences(encoded([[5], []]), np.array([1]), 4)
    assert (last.ids.tolist(), last.keep.tolist()) == ([[0]], [[True]])


@few
@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2), st.integers(0, 2))
def test_every_sentence_comes_once_an_epoch(count, batch, seed, epoch):
    items = encoded([[n + 1] for n in range(count)])
    steps = math.ceil(count / batch)
    shown = [sentences(items, RandomWindows().texts(count, batch, seed, epoch * steps + n), 3) for n in range(steps)]
    assert sorted(int(y) for b in shown for y in b.targets) == list(range(count))
    assert all((b.ids[:, 0] == b.targets + 1).all() for b in shown)
