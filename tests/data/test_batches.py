"""Batches: a function of seed and step alone, each window once a pass, and padding that nobody mistakes for text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import families
from headtohead.data.batches import Encoded, sentence_steps, sentences, shuffled_sentences, windows, windows_in
from headtohead.errors import InputError
from headtohead.parts.samplings import RandomWindows, ShuffledWindows, in_passes
from headtohead.spec import is_builtin
from headtohead.streams import stream

SAMPLINGS = [
    *(cls() for cls in families("train")["sampling"].values() if is_builtin(cls)),
    ShuffledWindows(stride=3),
    ShuffledWindows(stride=500),
]
few = settings(max_examples=100, deadline=None)


# -- which windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_starts_depend_on_seed_and_step_alone(sampling):
    def starts(step: int, seed: int = 5) -> list[int]:
        return sampling.starts(100, 8, seed, step).tolist()

    forward = {step: starts(step) for step in range(40)}
    np.random.seed(0)
    assert {step: starts(step) for step in (39, 3, 17, 3, 0, 26, 8)}.items() <= forward.items()
    assert all(0 <= s < 100 for found in forward.values() for s in found)
    if sampling != ShuffledWindows(stride=500):  # which has one window only
        assert starts(0) != starts(0, seed=6)
        assert len(set(map(tuple, forward.values()))) == 40


@few
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 70), st.integers(0, 3), st.integers(0, 3))
def test_a_pass_shows_every_window_once(count, batch, stride, seed, epoch):
    sampling = ShuffledWindows(stride=stride)
    steps = sampling.steps_per_epoch(count, 7, batch)
    shown = [sampling.starts(count, batch, seed, epoch * steps + n) for n in range(steps)]
    assert sorted(np.concatenate(shown).tolist()) == list(range(0, count, stride))
    assert [len(s) for s in shown[:-1]] == [batch] * (steps - 1)
    assert 1 <= len(shown[-1]) <= batch


def test_every_pass_has_an_order_of_its_own():
    passes = [in_passes(50, 50, seed, step).tolist() for seed in (0, 1) for step in (0, 1, 2)]
    assert len(set(map(tuple, passes))) == 6
    assert all(sorted(p) == list(range(50)) for p in passes)


def test_what_is_done_to_a_batch_changes_no_other():
    first = in_passes(50, 10, 0, 0).tolist()
    in_passes(50, 10, 0, 0)[:] = 0
    assert in_passes(50, 10, 0, 0).tolist() == first


def test_random_windows_are_uniform_and_reach_both_ends():
    drawn = np.concatenate([RandomWindows().starts(10, 100, 0, step) for step in range(100)])
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    assert abs(counts - 1000).max() < 150, "five standard deviations"


@pytest.mark.parametrize(("windows", "block", "batch"), [(1000, 32, 16), (512, 32, 16), (513, 32, 16), (1, 32, 16)])
def test_a_pass_of_random_windows_shows_as_many_tokens_as_there_are(windows, block, batch):
    steps = RandomWindows().steps_per_epoch(windows, block, batch)
    assert (steps - 1) * block * batch < windows <= steps * block * batch


def test_a_pass_of_shuffled_windows_takes_the_steps_it_takes():
    assert ShuffledWindows().steps_per_epoch(100, 9, 8) == 13
    assert ShuffledWindows(stride=3).steps_per_epoch(100, 9, 8) == math.ceil(34 / 8) == 5


def test_streams_share_nothing():
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
def test_a_batch_of_sentences_is_what_a_plain_loop_makes(texts, block, data):
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
    steps = sentence_steps(count, batch)
    shown = [shuffled_sentences(items, 3, batch, seed, epoch * steps + n) for n in range(steps)]
    assert sorted(int(y) for b in shown for y in b.targets) == list(range(count))
    assert all((b.ids[:, 0] == b.targets + 1).all() for b in shown)
    assert steps == math.ceil(count / batch)
