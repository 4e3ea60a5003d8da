"""Planned analyses: the joint test over arms and analyses against brute force, and what must hold for every study."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead.stats import Design, interval, sequential, sequential_design, sign_patterns
from headtohead.stats.sequential import _Flips, decided_at, judge, limits
from helpers.verdicts import few

# -- brute force: all sign vectors, fractions, nested loops ------------------------------------------------------------

Values = list[list[Fraction | None]]  # of each arm


def slow_t_squared(values: list[Fraction | None], signs: tuple[int, ...]) -> Fraction | float:
    there = [s * x for s, x in zip(signs, values, strict=False) if x is not None]
    n, total = len(there), sum(there)
    if n < 2 or total == 0:
        return Fraction(0)
    rest = n * sum(x * x for x in there) - total * total
    return (n - 1) * total * total / rest if rest else math.inf


def slow_test(d: Values, points: list[int], spent: list[float], history: list[list[int]], arm: int, shift, factor=1):
    """Whether the last of these analyses excludes `shift`, and the p of zero if shift is zero."""
    means = {}
    for n, arms in zip(points, history, strict=True):
        for a in arms:
            there = [x for x in d[a][:n] if x is not None]
            means[a] = sum(there) / len(there)
    moved = {a: [None if x is None else x - (shift if a == arm else means[a]) for x in d[a]] for a in means}
    every = list(itertools.product((1, -1), repeat=points[-1]))
    rejected: set[tuple[int, ...]] = set()
    for n, arms, share in zip(points, history, spent, strict=True):
        largest = {signs: max(slow_t_squared(moved[a][:n], signs[:n]) for a in arms) for signs in every}
        alive = [signs for signs in every if signs not in rejected]
        room = math.floor(Fraction(factor * share).limit_denominator(10**9) * len(every)) - len(rejected)
        falling = sorted((largest[signs] for signs in alive), reverse=True)
        limit = math.inf if room <= 0 else falling[room] if room < len(falling) else Fraction(0)
        if n == points[-1]:
            observed = slow_t_squared(moved[arm][:n], every[0][:n])
            beyond = sum(largest[signs] >= observed for signs in alive) + len(rejected)
            return observed > limit, beyond / len(every)
        rejected |= {signs for signs in alive if largest[signs] > limit}
    raise AssertionError


def slow_replay(d: Values, design: Design, least: int) -> tuple[list[int], list[float]]:
    """When each arm is decided, and its last p."""
    arms, history = list(range(len(d))), []
    decided, p = [0] * len(d), [1.0] * len(d)
    for number, n in enumerate(design.analyses, start=1):
        if n > len(d[0]):
            break
        tested = [a for a in arms if sum(x is not None for x in d[a][:n]) >= least]
        history.append(tested)
        for a in tested:
            points, spent = list(design.analyses[:number]), list(design.spent[:number])
            excluded, p[a] = slow_test(d, points, spent, history, a, Fraction(0))
            decided[a] = number if excluded else 0
        arms = [a for a in arms if not decided[a]]
    return decided, p


def as_fractions(d: np.ndarray) -> Values:
    return [[None if math.isnan(x) else Fraction(x) for x in column] for column in d.T]


whole = st.integers(-6, 9).map(float)


@st.composite
def differences(draw, pairs: int, most: int, gaps: bool = False):
    k = draw(st.integers(1, most))
    value = st.one_of(whole, whole, whole, whole, st.just(math.nan)) if gaps else whole
    rows = draw(st.lists(st.lists(value, min_size=k, max_size=k), min_size=pairs, max_size=pairs))
    return np.array(rows) + np.array(draw(st.lists(st.sampled_from([0.0, 5.0, -7.0]), min_size=k, max_size=k)))


def agrees(d: np.ndarray, design: Design, least: int = 6) -> list[int]:
    decided, p = slow_replay(as_fractions(d), design, least)
    assert decided_at(d, design) == decided
    for found, number, slow in zip(judge(d, design), decided, p, strict=True):
        assert (found.state == "differs") == bool(number)
        assert found.p == pytest.approx(slow, abs=1e-12)
        assert number == 0 or (found.analysis, found.pairs) == (number, design.analyses[number - 1])
    return decided


@pytest.mark.parametrize("points", [(5,), (3, 4, 5), (3, 5)])
def test_joint_test_equals_brute_force_for_few_pairs(points, monkeypatch):
    monkeypatch.setattr(sequential, "LEAST_PAIRS", 3)
    seen = set()

    @settings(few, max_examples=40)
    @given(differences(5, 3), st.sampled_from([0.2, 0.4, 0.7]))
    def check(d, alpha):
        seen.update(agrees(d, Design(points, reserve=0.0, alpha=alpha), least=3))

    check()
    assert seen == set(range(len(points) + 1)), "arms were decided at every analysis, and some stayed open"


@settings(few, max_examples=6)
@given(differences(8, 3))
def test_joint_test_equals_brute_force_for_6_7_8_pairs(d):
    agrees(d, Design((6, 7, 8), reserve=0.1, alpha=0.2))


@settings(few, max_examples=6)
@given(differences(7, 2, gaps=True))
def test_joint_test_equals_brute_force_with_missing_pairs(d):
    """All arms have their pairs at the first analysis, or never."""
    d[:6] = np.nan_to_num(d[:6], nan=1.0)
    agrees(d, Design((6, 7), reserve=0.0, alpha=0.15))


@pytest.mark.parametrize("seed", range(4))
def test_arms_that_lack_different_pairs_equal_brute_force(seed):
    d = np.round(9 * np.random.default_rng(seed).normal(size=(8, 2))) + 3
    d[[1, 4], 0] = d[6, 1] = math.nan
    agrees(d, Design((8,), reserve=0.0, alpha=0.2))


def test_missing_pairs_of_one_arm_are_left_out():
    d = np.random.default_rng(3).normal(0.5, size=(8, 1))
    d[[2, 5]] = math.nan
    found, kept = judge(d, Design((8,)))[0], judge(d[np.isfinite(d[:, 0])], Design((6,)))[0]
    ends = lambda one: (one.low, one.high, one.inner_low, one.inner_high, one.estimate, one.p)
    assert ends(found) == pytest.approx(ends(kept), abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_decided_arms_count_at_their_analyses_only(seed):
    make = np.random.default_rng(seed)
    d = np.round(8 * make.normal(size=(7, 3))) + np.array([30.0, 5.0, 0.0])
    decided = agrees(d, Design((6, 7), reserve=0.0, alpha=0.1))
    assert decided[0] == 1


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize(("points", "arms"), [((6,), 1), ((6,), 2), ((7,), 2), ((6, 7), 1), ((6, 7), 2)])
def test_intervals_hold_what_brute_force_does_not_exclude(points, arms, factor):
    make = np.random.default_rng([len(points), arms, points[-1]])
    design = Design(points, reserve=0.0, alpha=0.1)
    d = np.round(20 * make.normal(size=(points[-1], arms))) / 4
    history = [list(range(arms))] * len(points)
    low, high = _Flips(d, design, history).interval(0, float(factor))
    width = high - low
    assert 0 < width < math.inf
    seen = set()
    for share in (-0.5, -0.1, -0.01, -0.001, 0.001, 0.01, 0.3, 0.7, 0.99, 0.999, 1.001, 1.01, 1.1, 1.5):
        shift = Fraction(low + share * width).limit_denominator(1000)
        excluded, _ = slow_test(as_fractions(d), list(points), list(design.spent), history, 0, shift, factor)
        assert excluded == (not low <= shift <= high), share
        seen.add(excluded)
    assert seen == {True, False}


def paths_of(d: np.ndarray, design: Design) -> list[np.ndarray]:
    """t² of one arm for every pattern at every analysis."""
    found = []
    for n in design.analyses:
        flipped = sign_patterns(design.pairs)[:, :n] * d[:n]
        found.append(n * (flipped.mean(axis=1) / flipped.std(axis=1, ddof=1)) ** 2)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_estimate_is_the_median_unbiased_one_of_brute_force(seed):
    make = np.random.default_rng([seed, 3])
    design = Design((6, 8), reserve=0.0, alpha=0.1)
    d = make.normal(0.6, size=(8, 1))
    test = _Flips(d, design, [[0], [0]])
    c, _ = limits(paths_of(d[:, 0], design), design.spent)
    found, error = test.estimate(0), d.std(ddof=1) / math.sqrt(8)

    def share_above(shift: float) -> float:
        above = 0
        for signs in itertools.product((1, -1), repeat=8):
            x = [shift + s * (value - shift) for s, value in zip(signs, d[:, 0], strict=True)]
            mean, sd = np.mean(x[:6]), np.std(x[:6], ddof=1)
            if 6 * (mean / sd) ** 2 > c[0]:
                above += mean > 0
            else:
                above += sum(x) >= d.sum() - 1e-9
        return above / 2**8

    assert share_above(found + 1e-3 * error) >= 0.5 > share_above(found - 1e-3 * error)


def test_the_estimate_of_one_analysis_is_the_mean():
    d = np.random.default_rng(0).normal(1, size=(8, 2))
    assert [found.estimate for found in judge(d, Design((8,)))] == pytest.approx(list(d.mean(axis=0)))


# -- limits ------------------------------------------------------------------------------------------------------------


@few
@given(st.data())
def test_limits_reject_no_more_patterns_than_allowed(data):
    patterns, analyses = data.draw(st.sampled_from([8, 32, 64])), data.draw(st.integers(1, 4))
    value = st.integers(0, 12).map(float) | st.just(math.inf)
    paths = [np.array(data.draw(st.lists(value, min_size=patterns, max_size=patterns))) for _ in range(analyses)]
    spent = sorted(data.draw(st.lists(st.floats(0, 1), min_size=analyses, max_size=analyses)))
    c, before = limits(paths, spent)
    rejected = np.zeros(patterns, dtype=bool)
    for path, limit, share, alive in zip(paths, c, spent, before, strict=True):
        assert np.array_equal(alive, ~rejected)
        kept = path[alive & (path <= limit)]
        rejected |= alive & (path > limit)
        assert rejected.mean() <= share + 1e-9
        if len(kept) and not math.isinf(kept.max()) and kept.max() > 0:  # the next limit would reject too many
            assert rejected.sum() + (kept == kept.max()).sum() > math.floor(share * patterns * (1 + 1e-9))


@pytest.mark.parametrize("design", [sequential_design(10, reserve=0.0), Design((6, 7, 8, 9, 10), reserve=0.0)])
@pytest.mark.parametrize("seed", range(5))
def test_patterns_of_a_study_rejected_so_far_stay_below_spent(design, seed):
    """The definition of the error: flip the study by every pattern and count how many flipped studies are decided."""
    d = np.random.default_rng(seed).normal(0.8, size=(10, 1))
    at = np.array([decided_at(signs[:, None] * d, design)[0] for signs in sign_patterns(10)])
    for number, share in enumerate(design.spent, start=1):
        assert ((at > 0) & (at <= number)).mean() <= share + 1e-12
    assert (at > 0).mean() > 0.5 * design.planned, "most of the error is used"


# -- what holds for every study ----------------------------------------------------------------------------------------


def study(seed: int, n: int = 10, arms: int = 3, sizes: tuple[float, ...] = (0.0, 1.0, 3.0)) -> np.ndarray:
    make = np.random.default_rng([seed, n, arms])
    values = make.normal(size=(n, arms + 1)) / math.sqrt(2)
    return values[:, 1:] - values[:, :1] + make.choice(sizes, size=arms)


@pytest.mark.parametrize("rule", ["flips", "t"])
@pytest.mark.parametrize("seed", range(8))
def test_state_interval_p_and_margin_agree(seed, rule):
    design, margin = sequential_design(10, rule=rule), 1.3
    d = study(seed)
    for found, without, at in zip(judge(d, design, margin), judge(d, design), decided_at(d, design), strict=True):
        outside = not found.low <= 0 <= found.high
        inside = -margin < found.inner_low and found.inner_high < margin
        assert found.state == ("equivalent" if inside else "differs" if outside else "open")
        assert found.low <= found.inner_low <= found.inner_high <= found.high
        assert found.low <= found.estimate <= found.high
        assert outside == (found.p <= design.spent[found.analysis - 1] + 1e-12)
        assert (without.state == "differs") == bool(at)
        assert without.analysis == (at or 3)
        assert without.pairs == design.analyses[without.analysis - 1]


@pytest.mark.parametrize("rule", ["flips", "t"])
@pytest.mark.parametrize("seed", range(5))
def test_a_decided_arm_never_changes(seed, rule):
    design, d = sequential_design(14, rule=rule), study(seed, 14)
    kept = {}
    for n in range(6, 15):
        for arm, found in enumerate(judge(d[:n], design, margin=1.0)):
            if arm in kept:
                assert found == kept[arm]
            elif found.state != "open":
                assert found.pairs == n
                kept[arm] = found
    assert kept


@pytest.mark.parametrize("rule", ["flips", "t"])
@pytest.mark.parametrize("later", [math.nan, 100.0, -3.0])
def test_later_pairs_of_a_decided_arm_change_no_other_arm(later, rule):
    design = sequential_design(10, rule=rule)
    d = np.random.default_rng(0).normal(size=(10, 3)) + np.array([9.0, 0.9, 0.0])
    before = judge(d, design)
    assert before[0].analysis == 1
    d[6:, 0] = later
    assert judge(d, design) == before


def test_analyses_without_their_pairs_are_not_made():
    d = study(1)
    assert [found.analysis for found in judge(d[:5], sequential_design(10))] == [0, 0, 0]
    assert judge(d[:5], sequential_design(10)) == [sequential.NOT_JUDGED] * 3
    assert decided_at(d[:5] + 9, sequential_design(10)) == [0, 0, 0]
    assert judge(d[:9], sequential_design(10)) == judge(d[:8], sequential_design(10))
    assert judge(d[:, :0], sequential_design(10)) == []


def test_an_arm_with_too_few_pairs_waits_for_its_analysis():
    d = np.random.default_rng(1).normal(5, size=(8, 2))
    d[0, 1] = math.nan
    one, two = judge(d, Design((6, 8)))
    assert (one.analysis, two.analysis) == (1, 2)
    assert two.state == "differs"


def test_other_arms_are_tested_around_their_own_mean():
    """A large effect in one arm hides no effect in another."""
    d = np.random.default_rng(5).normal(size=(8, 2)) + np.array([1.5, 0.0])
    moved = d + np.array([0.0, 50.0])
    design = Design((8,), reserve=0.0)
    assert judge(moved, design)[0] == judge(d, design)[0]
    assert judge(d, design)[0].p <= 0.05


@pytest.mark.parametrize("size", [0.1, 0.3, 1.7])
def test_an_arm_with_a_constant_difference_changes_no_other(size):
    d = np.random.default_rng(2).normal(0.9, size=(8, 1))
    design = Design((6, 8))
    alone = judge(d, design)[0]
    with_constant = judge(np.column_stack([d, np.full(8, size)]), design)
    assert with_constant[0] == alone
    assert (with_constant[1].state, with_constant[1].low) == ("differs", pytest.approx(size))


@pytest.mark.parametrize("rule", ["flips", "t"])
def test_arms_without_any_difference_stay_open(rule):
    found = judge(np.zeros((8, 2)), Design((6, 8), rule=rule))
    assert [(one.state, one.low, one.high, one.p) for one in found] == [("open", 0.0, 0.0, 1.0)] * 2
    assert judge(np.zeros((8, 1)), Design((8,), rule=rule), margin=0.1)[0].state == "equivalent"


def test_intervals_shift_and_mirror_with_the_differences():
    d, design = study(3, 8, 2), Design((8,), reserve=0.0)
    for plain, mirrored, moved in zip(judge(d, design), judge(-d, design), judge(d + 2.5, design), strict=True):
        assert (mirrored.low, mirrored.high, mirrored.p) == pytest.approx((-plain.high, -plain.low, plain.p), abs=1e-3)
        assert (moved.low, moved.high) == pytest.approx((plain.low + 2.5, plain.high + 2.5), abs=2e-3)


def test_the_inner_interval_has_twice_the_error():
    d = study(4, 9, 1)
    double = Design((9,), reserve=0.0, alpha=0.1)
    assert judge(d, Design((9,), reserve=0.0))[0].inner_low == judge(d, double)[0].low
    assert judge(d, Design((9,), reserve=0.0))[0].inner_high == judge(d, double)[0].high


# -- the rule t --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 8, 20])
def test_the_rule_t_of_one_arm_is_students_t(n):
    d = np.random.default_rng(n).normal(0.4, size=n)
    found = judge(d[:, None], Design((n,), reserve=0.0, rule="t"))[0]
    assert (found.low, found.high) == pytest.approx(interval(d), rel=0.02, abs=0.02)
    assert (found.inner_low, found.inner_high) == pytest.approx(interval(d, 0.9), rel=0.02, abs=0.02)
    assert found.p == pytest.approx(float(distributions.ttest_1samp(d, 0).pvalue), abs=0.01)
    assert found.estimate == pytest.approx(d.mean())


def test_the_rule_t_uses_the_degrees_of_freedom_that_are_left():
    d = np.random.default_rng(2).normal(0.4, size=20)
    d[[1, 3, 4, 7, 9, 11, 12, 13, 14, 16, 18]] = math.nan
    kept = d[np.isfinite(d)]
    found = judge(d[:, None], Design((20,), reserve=0.0, rule="t"))[0]
    assert (found.low, found.high) == pytest.approx(interval(kept), rel=0.02, abs=0.02)
    assert found.p == pytest.approx(float(distributions.ttest_1samp(kept, 0).pvalue), abs=0.01)


def test_the_rule_t_is_wider_for_more_arms_and_more_analyses():
    d = np.random.default_rng(0).normal(size=(8, 4))
    width = lambda columns, design: judge(d[:, :columns], design)[0].high - judge(d[:, :columns], design)[0].low
    one, four = (width(k, Design((8,), reserve=0.0, rule="t")) for k in (1, 4))
    assert four > 1.15 * one
    assert width(1, Design((6, 8), reserve=0.0, rule="t")) > 1.05 * one


def test_the_rule_t_counts_arms_that_join_at_a_later_analysis():
    d = np.random.default_rng(0).normal(size=(8, 4))
    late = d.copy()
    late[0, 1:] = math.nan
    design = Design((6, 8), reserve=0.0, rule="t")
    assert judge(late, design)[0].low == judge(d, design)[0].low


def test_the_rule_t_knows_that_arms_share_their_control():
    d = np.random.default_rng(0).normal(size=(20, 8))
    found = judge(d, Design((20,), reserve=0.0, rule="t"))[0]
    error = d[:, 0].std(ddof=1) / math.sqrt(20)
    values = np.random.default_rng(1).normal(size=(20_000, 20, 9))
    t = distributions.ttest_rel(values[:, :, 1:], values[:, :, :1], axis=1).statistic
    assert (found.high - found.low) / 2 / error == pytest.approx(np.quantile(np.abs(t).max(axis=1), 0.95), rel=0.02)


@pytest.mark.parametrize("constant", [0.1, -0.7, 1e-3])
def test_an_arm_with_equal_differences_changes_no_other(constant: float):
    """Its differences are equal up to rounding errors, so its noise is zero: it cannot widen another arm's interval."""
    base, noise = np.random.default_rng(0).normal(size=(2, 8))
    rounded = (base + constant) - base
    assert 0 < np.ptp(rounded) < 1e-15
    alone, beside = (judge(np.column_stack([noise, *others]), Design((8,))) for others in ((), (rounded,)))
    assert (beside[0].low, beside[0].high) == (alone[0].low, alone[0].high)
    assert beside[1].state == "differs"
