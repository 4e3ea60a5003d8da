"""Samplings: which windows of a text each step sees."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import families
from headtohead.parts.samplings import HalfOfText, RandomWindows, ShuffledWindows, in_passes
from headtohead.spec import is_builtin

SAMPLINGS = [
    *(cls() for cls in families("train")["sampling"].values() if is_builtin(cls)),
    ShuffledWindows(stride=3),
    ShuffledWindows(stride=500),
]
few = settings(max_examples=100, deadline=None)


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


def test_every_pass_has_a_different_order():
    passes = [in_passes(50, 50, seed, step).tolist() for seed in (0, 1) for step in (0, 1, 2)]
    assert len(set(map(tuple, passes))) == 6
    assert all(sorted(p) == list(range(50)) for p in passes)


def test_changing_a_batch_changes_no_other():
    first = in_passes(50, 10, 0, 0).tolist()
    in_passes(50, 10, 0, 0)[:] = 0
    assert in_passes(50, 10, 0, 0).tolist() == first


def test_random_windows_are_uniform_over_the_text():
    drawn = np.concatenate([RandomWindows().starts(10, 100, 0, step) for step in range(100)])
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    assert abs(counts - 1000).max() < 150, "five standard deviations"


@pytest.mark.parametrize(("windows", "block", "batch"), [(1000, 32, 16), (512, 32, 16), (513, 32, 16), (1, 32, 16)])
def test_a_pass_of_random_windows_shows_as_many_tokens_as_there_are(windows, block, batch):
    steps = RandomWindows().steps_per_epoch(windows, block, batch)
    assert (steps - 1) * block * batch < windows <= steps * block * batch


def test_a_pass_of_shuffled_windows_has_the_counted_steps():
    assert ShuffledWindows().steps_per_epoch(100, 9, 8) == 13
    assert ShuffledWindows(stride=3).steps_per_epoch(100, 9, 8) == math.ceil(34 / 8) == 5


@few
@given(st.integers(2, 300), st.integers(2, 70), st.integers(0, 3))
def test_the_halves_of_a_text_are_disjoint_and_complete(count, pieces, draw):
    """Read in passes, a half shows each of its windows once an epoch."""
    halves = []
    for other in (False, True):
        half = HalfOfText(within=ShuffledWindows(), draw=draw, other=other, pieces=pieces)
        halves.append(half.starts(count, count, 0, 0).tolist())
        assert len(set(halves[-1])) == len(halves[-1])
    assert sorted(halves[0] + halves[1]) == list(range(count))
    pieces = min(pieces, count)  # the sizes of two pieces differ by at most one
    assert abs(len(halves[0]) - len(halves[1])) <= pieces // 2 + count // pieces + 1


def test_a_half_is_made_of_contiguous_pieces():
    starts = sorted({s for step in range(200) for s in HalfOfText(pieces=4).starts(400, 50, 0, step).tolist()})
    jumps = sum(b - a > 50 for a, b in itertools.pairwise(starts))
    assert jumps <= 2
    assert len(starts) == 200
    assert starts != sorted({s for step in range(200) for s in HalfOfText(pieces=4, draw=1).starts(400, 50, 0, step)})


def test_a_half_of_labelled_texts_is_read_in_passes():
    halves = [HalfOfText(other=other).texts(20, 5, 3, step).tolist() for other in (False, True) for step in (0, 1)]
    assert sorted(itertools.chain(*halves)) == list(range(20))
    assert RandomWindows().texts(20, 5, 3, 2).tolist() == in_passes(20, 5, 3, 2).tolist()


def test_a_half_takes_as_many_steps_as_the_whole():
    for within in (RandomWindows(), ShuffledWindows(stride=3)):
        assert HalfOfText(within=within).steps_per_epoch(500, 9, 8) == within.steps_per_epoch(500, 9, 8)
