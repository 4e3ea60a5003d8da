"""Verdicts: what the definitions say, wrong no more often than promised, and seen as often as forecast."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead import stats
from headtohead.errors import InputError
from headtohead.stats import (
    ALPHA,
    compare,
    compare_all,
    detectable,
    interval,
    pairs_for,
    sign_flip,
    sign_patterns,
)

pytestmark = pytest.mark.usefixtures("no_advice")


few = settings(max_examples=60, deadline=None, derandomize=True)
missing = math.nan


@st.composite
def tables(draw, least=2, most=8, arms=4, gaps=False):
    """(n, 1 + k) whole numbers, the control first: ties are frequent and nothing is rounded."""
    n, k = draw(st.integers(least, most)), draw(st.integers(1, arms))
    value = st.integers(-20, 20).map(float)
    value = st.one_of(value, value, value, st.just(missing)) if gaps else value
    rows = draw(st.lists(st.lists(value, min_size=k + 1, max_size=k + 1), min_size=n, max_size=n))
    effects = draw(st.lists(st.sampled_from([0.0, 12.0, 40.0, -40.0]), min_size=k, max_size=k))
    return np.array(rows) + np.array([0.0, *effects])


def named(table: np.ndarray) -> dict[str, np.ndarray]:
    return {f"arm {k}": table[:, k] for k in range(1, table.shape[1])}


def noise(n: int, arms: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng([seed, n, arms]).normal(size=(n, arms + 1))
    return values[:, 0], values[:, 1:]


# -- the test is what its definition says ------------------------------------------------------------------------------


@few
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=8))
@example([1, 1, 1, 1, 1, 1])
@example([0, 0, 5, 0])
def test_p_is_the_share_of_sign_patterns_as_extreme(d):
    assume(sum(d) != 0 or not any(d))
    beyond = 0
    for signs in itertools.product((1, -1), repeat=len(d)):
        total = 0
        for sign, value in zip(signs, d, strict=True):
            total += sign * value
        beyond += abs(total) >= abs(sum(d))
    found = compare(np.zeros(len(d)), d)
    assert found.p == found.p_alone == pytest.approx(beyond / 2 ** len(d), abs=1e-12)


def t_squared(d: list[int | None]) -> Fraction | float:
    there = [Fraction(x) for x in d if x is not None]
    n, total = len(there), sum(there)
    if n < 2 or total == 0:
        return Fraction(0)
    rest = n * sum(x * x for x in there) - total**2
    return (n - 1) * total**2 / rest if rest else math.inf


def westfall_young(arms: list[list[int | None]]) -> list[float]:
    flip = lambda signs: [
        t_squared([None if x is None else s * x for s, x in zip(signs, d, strict=True)]) for d in arms
    ]
    n, observed = len(arms[0]), [t_squared(d) for d in arms]
    falling = sorted(range(len(arms)), key=lambda arm: observed[arm], reverse=True)
    beyond = [0] * len(arms)
    for signs in itertools.product((1, -1), repeat=n):
        t = flip(signs)
        for place, arm in enumerate(falling):
            beyond[arm] += max(t[other] for other in falling[place:]) >= observed[arm]
    p, largest = [0.0] * len(arms), 0.0
    for arm in falling:
        largest = max(largest, beyond[arm] / 2**n)
        p[arm] = largest
    return p


@few
@given(tables(most=7, arms=3, gaps=True))
def test_corrected_p_is_step_down_max_t(table):
    d = table[:, 1:] - table[:, :1]
    assume((np.isfinite(d).sum(axis=0) >= 2).all())
    slow = westfall_young([[None if math.isnan(x) else int(x) for x in column] for column in d.T])
    found = compare_all(table[:, 0], named(table))
    for verdict, p, column in zip(found.values(), slow, d.T, strict=True):
        if np.nansum(column) != 0 or not np.nan_to_num(column).any():
            assert verdict.p == pytest.approx(p, abs=1e-12)
            alone = westfall_young([[None if math.isnan(x) else int(x) for x in column]])
            assert verdict.p_alone == pytest.approx(alone[0], abs=1e-12)


@pytest.mark.parametrize("d", [[3, -2, -6, -2, 1, 6]])
def test_a_mean_of_zero_has_p_one(d):
    assert compare(np.zeros(len(d)), d).p == 1.0


@pytest.mark.parametrize("n", range(2, 12))
def test_p_is_smallest_when_all_pairs_agree(n):
    control, variants = noise(n, 8)
    agreeing = {str(k): control + 100 + v for k, v in enumerate(variants.T)}
    assert {found.p for found in compare_all(control, agreeing).values()} == {2.0 ** (1 - n)}


@pytest.mark.parametrize("n", [2, 5, stats.EXACT_PAIRS])
def test_each_sign_pattern_or_its_mirror_is_used_once(n):
    patterns = sign_patterns(n)
    assert set(np.unique(patterns)) <= {1.0, -1.0}
    assert (patterns[0] == 1).all()
    assert len(np.unique(np.concatenate([patterns, -patterns]), axis=0)) == 2**n == 2 * len(patterns)


@pytest.mark.parametrize("shift", [0.2, 0.4, 0.6, 0.9])
def test_beyond_16_pairs_p_is_within_sampling_error(shift):
    n = 18
    d = np.random.default_rng(3).normal(size=n) + shift
    every = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    exact = (np.abs(every @ d) >= abs(d.sum()) - 1e-9).mean()
    found = compare(np.zeros(n), d).p
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / stats.DRAWS) + 1 / stats.DRAWS)
    assert found == compare(np.zeros(n), d).p
    assert found >= 1 / stats.DRAWS


@pytest.mark.parametrize("n", [17, 20, 40])
def test_drawn_sign_patterns_are_fair_and_start_with_the_identity(n):
    patterns = sign_patterns(n)
    assert patterns.shape == (stats.DRAWS, n)
    assert (patterns[0] == 1).all()
    error = 5 / math.sqrt(stats.DRAWS)
    assert np.abs(patterns.mean(axis=0)).max() < error
    assert np.abs(np.corrcoef(patterns.T) - np.eye(n)).max() < error


# -- difference, interval and the rest of a verdict --------------------------------------------------------------------


@few
@given(tables(least=3, most=12, arms=1))
def test_difference_and_interval_match_the_paired_t_test(table):
    control, variant = table.T
    assume(np.ptp(variant - control) > 0)
    theirs = distributions.ttest_rel(variant, control)
    found = compare(control, variant)
    assert found.difference == pytest.approx(float(np.mean(variant) - np.mean(control)), abs=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)), abs=1e-9)
    inner = tuple(theirs.confidence_interval(0.90))
    assert interval(variant - control, 0.90) == pytest.approx(inner, abs=1e-9)
    if len(control) >= 6:
        edge = max(abs(inner[0]), abs(inner[1]))
        assert compare(control, variant, edge * (1 + 1e-9) + 1e-12).verdict == "equivalent"
        assert compare(control, variant, edge * (1 - 1e-9)).verdict != "equivalent"


@few
@given(tables(most=12, arms=1))
def test_sd_agreement_and_correlation_match_their_definitions(table):
    control, variant = table.T
    found, d = compare(control, variant), variant - control
    n, mean = len(d), sum(d) / len(d)
    assert found.pairs == n
    assert found.descriptive == (n < 6)
    assert found.sd == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in d) / (n - 1)), abs=1e-12)
    assert found.agree == sum(x * mean > 0 for x in d)
    if n < 3 or np.ptp(control) == 0 or np.ptp(variant) == 0:
        assert found.correlation is None
    else:
        assert found.correlation == pytest.approx(distributions.pearsonr(control, variant).statistic, abs=1e-12)


@few
@given(tables(least=2, most=10), st.none() | st.floats(0.1, 30), st.sampled_from(["lower", "higher"]))
def test_a_verdict_follows_from_p_interval_and_margin(table, margin, better):
    for found in compare_all(table[:, 0], named(table), margin, better=better).values():
        real = found.pairs >= 6 and found.p <= 0.05 and not found.low <= 0 <= found.high
        good = found.difference < 0 if better == "lower" else found.difference > 0
        half = (found.high - found.low) / 2 / distributions.t.ppf(0.975, found.pairs - 1)
        reach = abs(found.difference) + half * distributions.t.ppf(0.95, found.pairs - 1)
        same = found.pairs >= 6 and margin is not None and reach < margin
        assert found.verdict == ("equivalent" if same else "unresolved" if not real else "better" if good else "worse")
        assert found.margin == margin


def test_small_p_with_zero_in_the_interval_is_unresolved():
    d = [0.01, 0.02, 0.03, 0.01, 0.02, 9.0]
    found = compare(np.zeros(6), d)
    assert found.p == 1 / 32
    assert found.low < 0 < found.high
    assert found.verdict == "unresolved"


def test_large_p_is_unresolved_whatever_the_interval():
    d = [10.0, 10.0, 10.0, 10.0, 10.0, -0.1]
    found = compare(np.zeros(6), d)
    assert found.low > 0
    assert found.p == 2 / 32
    assert found.verdict == "unresolved"


@pytest.mark.usefixtures("advice")
def test_an_unresolved_verdict_states_pairs_needed_and_power():
    control, variants = noise(8, 3, seed=4)
    clear = {name: control + 9 + 0.1 * variants[:, k] for k, name in enumerate("ab", start=1)}
    found = compare_all(control, {"small": control + variants[:, 0] + 0.5, **clear})
    small = found["small"]
    assert small.verdict == "unresolved"
    assert small.pairs_needed == pairs_for(abs(small.difference) / small.sd, 3)
    assert small.smallest_effect == pytest.approx(small.sd * detectable(8, 3))
    alone = compare(control, control + variants[:, 0] + 0.5)
    assert alone.smallest_effect == pytest.approx(alone.sd * detectable(8))
    assert alone.smallest_effect < small.smallest_effect
    assert compare(control, control + 5 + 0.1 * variants[:, 0]).pairs_needed is None, "seen already"


def test_power_is_simulated_only_when_read(monkeypatch):
    control, variants = noise(8, 3)
    monkeypatch.setattr(stats, "power", lambda *_: pytest.fail("power was simulated"))
    found = compare_all(control, {str(k): control + v for k, v in enumerate(variants.T)}, 0.1)["0"]
    assert found.arms == 3
    monkeypatch.undo()
    said = found.to_json()
    assert said["smallest_effect"] == found.smallest_effect == pytest.approx(found.sd * detectable(8, 3))
    assert said["pairs_needed"] == found.pairs_needed


def test_lower_is_better_by_default():
    control, variants = noise(8)
    less = control - 5 + 0.1 * variants[:, 0]
    assert compare(control, less).verdict == "better"
    assert compare(control, less, better="lower").verdict == "better"
    assert compare(control, less, better="higher").verdict == "worse"


# -- what must not matter ----------------------------------------------------------------------------------------------


def figures(found: stats.Verdict) -> list[float]:
    return [found.difference, found.low, found.high, found.p, found.p_alone, found.sd, found.pairs, found.agree]


def balanced(table: np.ndarray) -> bool:
    return bool((np.nansum(table[:, 1:] - table[:, :1], axis=0) == 0).any())


@few
@given(tables(least=6, gaps=True), st.randoms(use_true_random=False))
def test_order_of_arms_and_seeds_changes_nothing(table, dice):
    assume(not balanced(table) and (np.isfinite(table[:, 1:] - table[:, :1]).sum(axis=0) >= 2).all())
    rows, arms = list(range(len(table))), list(named(table))
    dice.shuffle(rows)
    dice.shuffle(arms)
    before = compare_all(table[:, 0], named(table), 5.0)
    after = compare_all(table[rows, 0], {name: named(table)[name][rows] for name in arms}, 5.0)
    assert list(before) == list(named(table))
    assert list(after) == arms
    for name, found in before.items():
        assert after[name].verdict == found.verdict
        assert figures(after[name]) == pytest.approx(figures(found), abs=1e-9)


@few
@given(tables(most=10, arms=1), st.none() | st.floats(0.1, 20))
def test_swapping_control_and_variant_mirrors_the_verdict(table, margin):
    control, variant = table.T
    one, other = compare(control, variant, margin), compare(variant, control, margin)
    mirror = {"better": "worse", "worse": "better"}
    assert other.verdict == mirror.get(one.verdict, one.verdict)
    assert (other.difference, other.low, other.high) == pytest.approx((-one.difference, -one.high, -one.low), abs=1e-9)
    assert (other.p, other.p_alone, other.agree) == (one.p, one.p_alone, one.agree)
    flipped = compare(control, variant, margin, better="higher")
    assert flipped.verdict == other.verdict
    assert (flipped.low, flipped.high, flipped.p) == (one.low, one.high, one.p)


@few
@given(tables(), st.floats(1e-6, 1e6), st.integers(-1000, 1000))
def test_verdicts_scale_with_the_unit_and_ignore_an_offset(table, unit, zero):
    assume(not balanced(table))
    before = compare_all(table[:, 0], named(table), 5.0)
    scaled = compare_all(unit * table[:, 0], named(unit * table), unit * 5.0)
    moved = compare_all(table[:, 0] + zero, named(table + zero), 5.0)
    for name, found in before.items():
        assert [scaled[name].p, scaled[name].p_alone] == pytest.approx([found.p, found.p_alone], abs=1e-9)
        assert figures(scaled[name])[:3] == pytest.approx(
            [unit * x for x in figures(found)[:3]], rel=1e-9, abs=1e-9 * unit
        )
        assert figures(moved[name]) == pytest.approx(figures(found), abs=1e-9)
        assert moved[name].verdict == found.verdict


@few
@given(tables(least=6, most=9, gaps=True))
def test_adding_arms_never_lowers_p_and_copies_never_raise_it(table):
    assume((np.isfinite(table[:, 1:] - table[:, :1]).sum(axis=0) >= 2).all())
    d = table[:, 1:] - table[:, :1]
    all_of_them = sign_flip(d)
    for k in range(1, d.shape[1]):
        assert (all_of_them[:k] >= sign_flip(d[:, :k]) - 1e-12).all()
    alone = [sign_flip(d[:, [k]])[0] for k in range(d.shape[1])]
    assert (all_of_them >= np.array(alone) - 1e-12).all()
    copied = sign_flip(np.concatenate([d, -d, d], axis=1))
    if not balanced(table):
        assert copied == pytest.approx(np.tile(all_of_them, 3), abs=1e-12)


@few
@given(tables(least=6), st.floats(0.01, 50), st.floats(1, 3))
def test_a_wider_margin_keeps_equivalent_verdicts(table, margin, factor):
    narrow = compare_all(table[:, 0], named(table), margin)
    wide = compare_all(table[:, 0], named(table), margin * factor)
    assert all(wide[name].verdict == "equivalent" for name in narrow if narrow[name].verdict == "equivalent")


@few
@given(tables(least=6, most=10, gaps=True))
def test_a_missing_value_drops_one_pair_of_its_arm_only(table):
    d = table[:, 1:] - table[:, :1]
    assume(not balanced(table) and (np.isfinite(d).sum(axis=0) >= 2).all())
    for (name, found), column in zip(compare_all(table[:, 0], named(table), 5.0).items(), d.T, strict=True):
        there = np.isfinite(column)
        whole = compare(table[there, 0], named(table)[name][there], 5.0)
        skip = {"p", "verdict", "arms"}
        for field in set(found.__dataclass_fields__) - skip:
            assert getattr(found, field) == pytest.approx(getattr(whole, field), abs=1e-12), field
        assert found.pairs == there.sum()


# -- what users give ---------------------------------------------------------------------------------------------------

SIX = [1.0, 2.0, 4.0, 3.0, 5.0, 7.0]


@pytest.mark.parametrize(
    ("control", "variant"),
    [
        (SIX, SIX[:5]),
        (SIX[:5], SIX),
        (SIX, []),
        (SIX, [*SIX[:5], "high"]),
        (["a"] * 6, SIX),
        (SIX, "123456"),
        (SIX, [SIX]),
        ([SIX], [SIX]),
        (SIX, 3.0),
        (3.0, 3.0),
        (SIX, {"a": 1}),
        (SIX, [[1.0], [1.0, 2.0]]),
        (SIX, [*SIX[:5], math.inf]),
        ([*SIX[:5], -math.inf], SIX),
        ([-math.inf, *SIX[:5]], [math.inf, *SIX[:5]]),
        pytest.param([math.inf, *SIX[:5]], [math.inf, *SIX[:5]]),
        pytest.param([missing, *SIX[:5]], [math.inf, *SIX[:5]]),
        pytest.param(SIX, [10**400] * 6),
        pytest.param(SIX, np.full(6, 1j)),
    ],
)
def test_values_that_cannot_be_compared_are_refused_in_one_line(control, variant):
    with pytest.raises(InputError) as caught:
        compare(control, variant)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("margin", [0, 0.0, -1, -math.inf, math.nan, "1"])
def test_a_margin_is_a_number_above_zero(margin):
    with pytest.raises(InputError, match="margin"):
        compare(SIX, SIX, margin)


@pytest.mark.parametrize("better", ["smaller", "", None, "LOWER", 1])
def test_better_is_lower_or_higher(better):
    with pytest.raises(InputError, match="better"):
        compare(SIX, SIX, better=better)


def test_an_error_names_the_arm():
    with pytest.raises(InputError, match=r"wide has 5 values and the control 6"):
        compare_all(SIX, {"narrow": SIX, "wide": SIX[:5]})
    with pytest.raises(InputError, match="wide"):
        compare_all(SIX, {"narrow": SIX, "wide": ["?"] * 6})
    with pytest.raises(InputError, match="control"):
        compare_all(["?"] * 6, {"narrow": SIX})


def test_no_arms_give_no_verdicts():
    assert compare_all(SIX, {}) == {}


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_pairs_give_no_verdict(n):
    variant = [x + 100 for x in SIX[:n]]
    found = compare(SIX[:n], variant, 1e6)
    assert (found.verdict, found.descriptive, found.pairs) == ("unresolved", True, n)
    assert found.smallest_effect is None
    assert found.difference == 100 if n else math.isnan(found.difference)
    assert compare(SIX[:n], variant).verdict == "unresolved"
    kept = [x if i < n else missing for i, x in enumerate([x + 100 for x in SIX] * 2)]
    assert compare(SIX * 2, kept, 1e6).verdict == "unresolved"
    assert (found.low, found.high) == ((-math.inf, math.inf) if n < 2 else (100, 100))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_p_of_few_agreeing_pairs_is_exact(n):
    found = compare(SIX[:n], [x + 1 for x in SIX[:n]])
    assert found.p == found.p_alone == (2.0 ** (1 - n) if n else 1.0)


def test_an_arm_with_one_pair_changes_no_other_arm():
    control, variants = noise(8, 2)
    lost = np.where(np.arange(8) == 0, 5.0, missing)
    before = compare_all(control, {"a": variants[:, 0], "b": variants[:, 1]})
    after = compare_all(control, {"a": variants[:, 0], "b": variants[:, 1], "lost": lost})
    assert [after[name].p for name in "ab"] == [before[name].p for name in "ab"]
    assert after["lost"].p == 1.0


def test_an_arm_without_pairs_changes_no_other_arm():
    control, variants = noise(8, 2)
    arms = {"a": variants[:, 0], "b": variants[:, 1]}
    before, after = compare_all(control, arms), compare_all(control, {**arms, "lost": [missing] * 8})
    assert [after[name].p for name in arms] == [before[name].p for name in arms]
    lost = after["lost"]
    assert (lost.p, lost.pairs, lost.verdict, lost.agree) == (1.0, 0, "unresolved", 0)
    assert math.isnan(lost.difference)


def test_none_is_a_missing_value():
    assert compare([*SIX, 3.0], [*SIX, None]).pairs == 6


@pytest.mark.usefixtures("advice")
def test_arms_that_never_differ_are_equivalent_or_unresolved():
    found = compare(SIX, SIX)
    assert (found.verdict, found.difference, found.low, found.high) == ("unresolved", 0, 0, 0)
    assert (found.p, found.sd, found.agree, found.pairs_needed) == (1.0, 0, 0, None)
    assert compare(SIX, SIX, 1e-9).verdict == "equivalent"


@pytest.mark.parametrize("shift", [1.0, -1.0, 0.1])
def test_a_constant_difference_has_a_verdict(shift):
    found = compare(np.zeros(6), np.full(6, shift))
    assert found.verdict == ("worse" if shift > 0 else "better")
    assert (found.difference, found.low, found.high) == pytest.approx((shift,) * 3)
    assert (found.p, found.agree, found.correlation) == (1 / 32, 6, None)
    assert compare(np.zeros(6), np.full(6, shift), 2.0).verdict == "equivalent"


def test_a_constant_control_has_no_correlation():
    found = compare([3.0] * 6, SIX)
    assert found.correlation is None
    assert found.difference == pytest.approx(np.mean(SIX) - 3)


@pytest.mark.parametrize(
    "scale",
    [
        1e-100,
        1e-30,
        1e30,
        1e100,
        1e-300,
        1e-170,
        1e160,
        1e300,
    ],
)
def test_huge_and_tiny_values_give_the_same_verdict(scale):
    control, variants = noise(8, 1)
    variant = control + 1 + 0.5 * variants[:, 0]
    usual, found = compare(control, variant, 0.1), compare(scale * control, scale * variant, scale * 0.1)
    assert found.verdict == usual.verdict == "worse"
    for field in ("difference", "low", "high", "sd", "smallest_effect"):
        assert getattr(found, field) == pytest.approx(scale * getattr(usual, field), rel=1e-9), field
    assert found.p == usual.p
    assert found.correlation == pytest.approx(usual.correlation)


def test_values_too_far_apart_are_refused():
    with pytest.raises(InputError):
        compare([-1e308] * 6, [1e308] * 6)


def test_level_is_5_percent_and_fewest_pairs_are_six():
    assert (ALPHA, stats.LEAST_PAIRS) == (0.05, 6)


VALUES = np.random.default_rng(0).normal(size=(3, 8))


@pytest.mark.parametrize("pairs", [4, 8])
def test_an_arm_without_a_pair_is_not_corrected_for(pairs: int):
    base, one, two = VALUES[:, :pairs]
    nothing = np.full(pairs, np.nan)
    with_it = compare_all(base, {"one": one, "nothing": nothing, "two": two}, margin=0.1)
    without = compare_all(base, {"one": one, "two": two}, margin=0.1)
    assert {name: with_it[name] for name in without} == without
    assert with_it["nothing"].pairs == 0
    alone = compare_all(base, {"one": one})["one"]
    assert alone.smallest_effect != without["one"].smallest_effect or pairs < 6, "a real second arm counts"
