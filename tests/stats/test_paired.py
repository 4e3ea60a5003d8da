"""Verdicts: what the definitions say, whatever the order, the unit and the gaps, with and without a design."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead import stats
from headtohead.errors import InputError
from headtohead.stats import (
    Design,
    compare,
    compare_all,
    detectable,
    paired,
    pairs_for_equivalence,
    sequential_design,
    upper_sd,
)
from headtohead.stats.anytime import anytime_interval, anytime_p
from headtohead.stats.sequential import judge
from headtohead.stats.signflip import alone
from helpers.verdicts import few, named, noise, tables

missing = math.nan


def judged(d: np.ndarray, margin: float | None = None):
    return judge(d, Design((len(d),), reserve=0.0), margin)


# -- p, interval and verdict -------------------------------------------------------------------------------------------


@few
@given(tables(least=6, arms=3, gaps=True))
def test_without_a_design_there_is_one_analysis_of_all_pairs(table):
    d = table[:, 1:] - table[:, :1]
    for verdict, one, column in zip(
        compare_all(table[:, 0], named(table), 5.0).values(), judged(d, 5.0), d.T, strict=True
    ):
        assert verdict.p_alone == alone(column)
        if np.isfinite(column).sum() < 6:
            assert verdict.p == alone(column)
            continue
        assert verdict.p == pytest.approx(one.p, abs=1e-12)
        close = {"abs": 1e-3 * (1 + np.nanstd(column))}
        assert (verdict.low, verdict.high) == pytest.approx((one.low, one.high), **close)
        assert (verdict.inner_low, verdict.inner_high) == pytest.approx((one.inner_low, one.inner_high), **close)
        assert (verdict.analysis, verdict.analyses, verdict.spent, verdict.planned) == (1, 1, 0.05, True)


@pytest.mark.parametrize("d", [[3, -2, -6, -2, 1, 6]])
def test_a_mean_of_zero_has_p_one(d):
    assert compare(np.zeros(len(d)), d).p == 1.0


@pytest.mark.parametrize("n", range(2, 12))
def test_p_is_smallest_when_all_pairs_agree(n):
    control, variants = noise(n, 8)
    agreeing = {str(k): control + 100 + v for k, v in enumerate(variants.T)}
    assert {found.p for found in compare_all(control, agreeing).values()} == {2.0 ** (1 - n)}


@few
@given(tables(least=3, most=12, arms=1))
def test_the_interval_of_an_arm_alone_matches_the_paired_t_test(table):
    control, variant = table.T
    assume(np.ptp(variant - control) > 0)
    theirs = distributions.ttest_rel(variant, control)
    found = compare(control, variant)
    assert found.difference == pytest.approx(float(np.mean(variant) - np.mean(control)), abs=1e-9)
    assert (found.alone_low, found.alone_high) == pytest.approx(tuple(theirs.confidence_interval(0.95)), abs=1e-9)
    if len(control) < 6:
        assert (found.low, found.high) == (found.alone_low, found.alone_high)
        inner = tuple(theirs.confidence_interval(0.90))
        assert (found.inner_low, found.inner_high) == pytest.approx(inner, abs=1e-9)
    else:
        edge = max(abs(found.inner_low), abs(found.inner_high))
        assert compare(control, variant, edge * (1 + 1e-9) + 1e-12).verdict == "equivalent"
        assert edge == 0 or compare(control, variant, edge * (1 - 1e-9)).verdict != "equivalent"


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
    assert found.estimate == found.difference
    if n < 3 or np.ptp(control) == 0 or np.ptp(variant) == 0:
        assert found.correlation is None
    else:
        assert found.correlation == pytest.approx(distributions.pearsonr(control, variant).statistic, abs=1e-12)


@few
@given(tables(least=2, most=10), st.none() | st.floats(0.1, 30), st.sampled_from(["lower", "higher"]))
def test_verdict_p_interval_and_margin_agree(table, margin, better):
    for found in compare_all(table[:, 0], named(table), margin, better=better).values():
        real = found.pairs >= 6 and not found.low <= 0 <= found.high
        assert real == (found.pairs >= 6 and found.p <= 0.05) == found.is_real
        good = found.difference < 0 if better == "lower" else found.difference > 0
        same = found.pairs >= 6 and margin is not None and -margin < found.inner_low and found.inner_high < margin
        assert found.verdict == ("equivalent" if same else "unresolved" if not real else "better" if good else "worse")
        assert found.low <= found.inner_low <= found.difference <= found.inner_high <= found.high
        assert found.margin == margin
        alone_real = found.p_alone <= 0.05 and not found.alone_low <= 0 <= found.alone_high
        assert found.resolved_alone == (found.verdict == "unresolved" and found.pairs >= 6 and alone_real)


def test_small_p_has_an_interval_without_zero():
    found = compare(np.zeros(6), [0.01, 0.02, 0.03, 0.01, 0.02, 9.0])
    assert (found.p, found.verdict) == (1 / 32, "worse")
    assert found.alone_low < 0 < found.low


def test_large_p_has_an_interval_with_zero():
    found = compare(np.zeros(6), [10.0, 10.0, 10.0, 10.0, 10.0, -0.1])
    assert (found.p, found.verdict) == (2 / 32, "unresolved")
    assert found.low <= 0 < found.alone_low


@pytest.mark.parametrize("d", [[0, 1, 2, 3, 4, 5], [0, -1, -2, -3, -4, -5], [0, 7, 7, 7, 7, 7]])
def test_a_pair_without_a_difference_agrees_with_neither_side(d):
    """Flipping a zero changes nothing, so two of 32 patterns are as extreme, and the interval ends at zero."""
    found = compare(np.zeros(6), d)
    assert (found.p, found.verdict) == (2 / 32, "unresolved")
    assert found.low <= 0 <= found.high


def test_one_arm_of_four_may_be_resolved_only_alone():
    values = np.random.default_rng(7).normal(size=(200, 8, 5))
    found = [compare_all(v[:, 0], named(v + np.array([0, 1.3, 0, 0, 0])))["arm 1"] for v in values[:40]]
    only_alone = [one for one in found if one.resolved_alone]
    assert only_alone
    assert all(one.low <= 0 <= one.high and one.p > 0.05 >= one.p_alone for one in only_alone)


def test_an_unresolved_verdict_states_power_and_pairs_for_its_margin():
    control, variants = noise(8, 3, seed=4)
    clear = {name: control + 9 + 0.1 * variants[:, k] for k, name in enumerate("ab", start=1)}
    found = compare_all(control, {"small": control + variants[:, 0] + 0.5, **clear}, 0.4)
    small = found["small"]
    assert small.verdict == "unresolved"
    assert small.smallest_effect == pytest.approx(small.sd * detectable(8, 3))
    assert small.pairs_for_margin == pairs_for_equivalence(0.4 / upper_sd(small.sd, 8), 3) > 8
    alone_in_table = compare(control, control + variants[:, 0] + 0.5, 0.4)
    assert alone_in_table.smallest_effect == pytest.approx(alone_in_table.sd * detectable(8))
    assert alone_in_table.smallest_effect < small.smallest_effect
    assert alone_in_table.pairs_for_margin < small.pairs_for_margin
    assert found["a"].pairs_for_margin is None, "decided"
    assert compare(control, control + variants[:, 0] + 0.5).pairs_for_margin is None, "no margin"


@pytest.mark.parametrize("n", [4, 8, 20])
def test_upper_sd_is_above_the_truth_in_nine_of_ten(n):
    sds = np.random.default_rng(n).normal(size=(4000, n)).std(axis=1, ddof=1)
    assert np.mean([upper_sd(sd, n) > 1 for sd in sds]) == pytest.approx(0.9, abs=0.015)


def test_power_is_simulated_only_when_read(monkeypatch):
    control, variants = noise(8, 3)
    monkeypatch.setattr(paired, "detectable", lambda *_, **__: pytest.fail("power was simulated"))
    monkeypatch.setattr(paired, "pairs_for_equivalence", lambda *_, **__: pytest.fail("power was simulated"))
    found = compare_all(control, {str(k): control + v for k, v in enumerate(variants.T)}, 0.1)["0"]
    assert found.arms == 3
    monkeypatch.undo()
    said = found.to_json()
    assert said["smallest_effect"] == found.smallest_effect == pytest.approx(found.sd * detectable(8, 3))
    assert said["pairs_for_margin"] == found.pairs_for_margin


def test_lower_is_better_by_default():
    control, variants = noise(8)
    less = control - 5 + 0.1 * variants[:, 0]
    assert compare(control, less).verdict == "better"
    assert compare(control, less, better="lower").verdict == "better"
    assert compare(control, less, better="higher").verdict == "worse"


# -- designs -----------------------------------------------------------------------------------------------------------


def sequential_study(seed: int = 0, n: int = 20) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    control, variants = noise(n, 3, seed)
    return control, {"large": control + 4 + variants[:, 0], "small": control + variants[:, 1], "none": variants[:, 2]}


def test_a_planned_verdict_says_which_analysis_decided_it():
    control, arms = sequential_study()
    design = sequential_design(20)
    found = compare_all(control, arms, design=design)
    large = found["large"]
    assert (large.verdict, large.analysis, large.pairs, large.planned) == ("worse", 1, 6, True)
    assert (large.analyses, large.spent) == (5, design.spent[0])
    one = judge(np.stack([v - control for v in arms.values()], axis=1), design)[0]
    assert (large.low, large.high, large.estimate) == pytest.approx((one.low, one.high, one.estimate), abs=1e-3)
    assert large.p == pytest.approx(one.p / 0.9)
    assert large.difference == pytest.approx(np.mean(arms["large"][:6] - control[:6]))
    none = found["none"]
    assert (none.verdict, none.analysis, none.pairs, none.spent) == ("unresolved", 5, 20, design.spent[4])


def test_the_estimate_of_a_later_analysis_is_corrected():
    control, variants = noise(20, 1, seed=3)
    found = compare_all(control, {"a": control + 1 + variants[:, 0]}, design=sequential_design(20))["a"]
    assert (found.verdict, found.planned) == ("worse", True)
    assert found.analysis > 1
    one = judge((1 + variants)[: found.pairs], sequential_design(20))[0]
    assert found.estimate == pytest.approx(one.estimate)
    assert found.low < found.estimate < found.high
    assert abs(found.estimate - found.difference) > 1e-3


@pytest.mark.parametrize("seed", range(2))
def test_later_pairs_never_change_a_planned_verdict(seed):
    control, arms = sequential_study(seed, 24)
    design, kept = sequential_design(14), {}
    for n in range(6, 25):
        found = compare_all(control[:n], {k: v[:n] for k, v in arms.items()}, 1.0, design=design)
        for name, verdict in found.items():
            assert name not in kept or kept[name] == verdict
            if verdict.verdict != "unresolved" and verdict.planned:
                kept[name] = verdict
    assert "large" in kept


def test_before_the_first_analysis_only_the_reserve_decides():
    control, arms = sequential_study(n=7)
    found = compare_all(control, arms, design=Design((8,)))
    assert {(v.verdict, v.analysis, v.spent) for v in found.values()} == {("unresolved", 0, 0.0)}
    assert {(v.low, v.high) for v in found.values()} == {(-math.inf, math.inf)}
    assert all(v.p == min(1.0, anytime_p(arms[k] - control, 2 * 3) / 0.1) > 0.05 for k, v in found.items())


def test_unplanned_pairs_are_judged_with_the_reserve():
    control, variants = noise(30, 2, seed=1)
    late = 2.0 * (np.arange(30) >= 8)
    arms = {"a": control + late + variants[:, 0], "b": control + variants[:, 1]}
    design = Design((8,))
    planned, found = (
        compare_all(control[:n], {k: v[:n] for k, v in arms.items()}, design=design)["a"] for n in (8, 30)
    )
    d = arms["a"] - control
    assert planned.verdict == "unresolved"
    assert (found.verdict, found.planned, found.pairs, found.analysis) == ("worse", False, 30, 1)
    low, high = anytime_interval(d, 0.005, 2 * 2)
    assert found.low == pytest.approx(max(planned.low, low), abs=1e-6)
    assert found.high == pytest.approx(min(planned.high, high), abs=1e-6)
    assert found.p == pytest.approx(min(planned.p, anytime_p(d, 2 * 2) / 0.1))
    assert found.low > 0
    assert found.p < 0.05
    assert found.estimate == found.difference == pytest.approx(d.mean())
    inner = anytime_interval(d, 0.01, 2 * 2)
    assert found.inner_low == pytest.approx(max(planned.inner_low, inner[0]), abs=1e-6)
    assert found.inner_high == pytest.approx(min(planned.inner_high, inner[1]), abs=1e-6)


def test_without_a_reserve_unplanned_pairs_change_nothing():
    control, variants = noise(30, 1, seed=1)
    variant = control + 2.0 * (np.arange(30) >= 8) + variants[:, 0]
    design = Design((8,), reserve=0.0)
    planned, found = (compare_all(control[:n], {"a": variant[:n]}, design=design)["a"] for n in (8, 30))
    assert (found.verdict, found.low, found.high, found.p) == (planned.verdict, planned.low, planned.high, planned.p)
    assert found.pairs == 30


def test_later_arms_are_judged_by_the_reserve_only():
    control, variants = noise(16, 2, seed=3)
    first, second = control + variants[:, 0], control + 3 + 0.5 * variants[:, 1]
    design = Design((8,))
    found = compare_all(control, {"first": first, "second": second}, design=design, later={"second"})
    late = found["second"]
    assert (late.low, late.high) == pytest.approx(anytime_interval(second - control, 0.005, 2 * 2), abs=1e-6)
    assert late.p == pytest.approx(anytime_p(second - control, 2 * 2) / 0.1)
    assert (late.verdict, late.planned, late.analysis, late.spent) == ("worse", False, 0, 0.0)
    eight = {"first": first[:8], "second": second[:8]}
    short = compare_all(control[:8], eight, design=design, later=["second"])
    assert short["second"].verdict == "unresolved", "eight pairs cannot reach the reserve"
    assert short["second"].low == -math.inf


def test_a_later_arm_leaves_planned_analyses_as_they_were():
    control, arms = sequential_study()
    design = sequential_design(20)
    before = compare_all(control, {"large": arms["large"]}, design=design)["large"]
    after = compare_all(control, arms, design=design, later=["small", "none"])["large"]
    assert (after.low, after.high, after.p, after.analysis) == (before.low, before.high, before.p, before.analysis)
    assert (before.arms, after.arms) == (1, 3)


def test_equivalence_by_planned_and_unplanned_analyses():
    control, variants = noise(40, 1, seed=2)
    variant = control + 0.05 * variants[:, 0]
    early = compare_all(control[:8], {"a": variant[:8]}, 1.0, design=Design((8,)))["a"]
    assert (early.verdict, early.planned, early.analysis) == ("equivalent", True, 1)
    late = compare_all(control, {"a": variant}, 1.0, design=Design((50,)))["a"]
    assert (late.verdict, late.planned, late.analysis) == ("equivalent", False, 0)
    assert -1 < late.inner_low <= late.inner_high < 1


@pytest.mark.parametrize("rule", ["flips", "t"])
def test_missing_pairs_do_not_count_for_an_analysis(rule):
    control, variants = noise(8, 1)
    variant = control + 5 + variants[:, 0]
    variant[[0, 1, 2]] = missing
    found = compare_all(control, {"a": variant}, design=Design((8,), rule=rule))["a"]
    assert (found.verdict, found.descriptive, found.pairs, found.analysis) == ("unresolved", True, 5, 0)


# -- what must not matter ----------------------------------------------------------------------------------------------

EXACT = ("difference", "p", "p_alone", "sd", "pairs", "agree", "alone_low", "alone_high", "estimate")
ENDS = ("low", "high", "inner_low", "inner_high")  # from a bisection


def alike(one: stats.Verdict, other: stats.Verdict, unit: float = 1.0) -> None:
    scale = dict.fromkeys((*ENDS, "difference", "sd", "alone_low", "alone_high", "estimate"), unit)
    for name in (*EXACT, *ENDS):
        expected = getattr(one, name) * scale.get(name, 1.0)
        error = 1e-3 * (1 + abs(one.sd)) if name in ENDS else 1e-9
        assert getattr(other, name) == pytest.approx(expected, rel=1e-9, abs=error * unit, nan_ok=True), name


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
        alike(found, after[name])


@few
@given(tables(most=10, arms=1), st.none() | st.floats(0.1, 20))
def test_swapping_control_and_variant_mirrors_the_verdict(table, margin):
    control, variant = table.T
    one, other = compare(control, variant, margin), compare(variant, control, margin)
    mirror = {"better": "worse", "worse": "better"}
    assert other.verdict == mirror.get(one.verdict, one.verdict)
    mirrored = (-one.difference, -one.high, -one.low, -one.inner_high, -one.inner_low, -one.estimate)
    found = (other.difference, other.low, other.high, other.inner_low, other.inner_high, other.estimate)
    assert found == pytest.approx(mirrored, abs=1e-3 * (1 + one.sd))
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
        alike(found, scaled[name], unit)
        alike(found, moved[name])
        assert moved[name].verdict == found.verdict


@few
@given(tables(least=6, most=8))
def test_adding_arms_never_lowers_p_and_copies_never_raise_it(table):
    d = table[:, 1:] - table[:, :1]
    p = lambda columns: [one.p for one in judged(columns)]
    everything = p(d)
    for k in range(1, d.shape[1]):
        assert (np.array(everything[:k]) >= np.array(p(d[:, :k])) - 1e-12).all()
    for k in range(d.shape[1]):
        assert everything[k] >= p(d[:, [k]])[0] - 1e-12
    if d.shape[1] > 1:  # a copy or a mirror image of another arm adds nothing
        assert p(np.column_stack([d, d[:, 1], -d[:, 1]]))[0] == pytest.approx(everything[0], abs=1e-12)
    copied = p(np.column_stack([d, -d]))
    assert copied[: len(everything)] == pytest.approx(copied[len(everything) :], abs=1e-12)


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
    several = d.shape[1] > 1
    for (name, found), column in zip(compare_all(table[:, 0], named(table), 5.0).items(), d.T, strict=True):
        there = np.isfinite(column)
        whole = compare(table[there, 0], named(table)[name][there], 5.0)
        joint = {"p", "verdict", "arms", *ENDS} if several else set()
        for field in set(found.__dataclass_fields__) - joint:
            close = 1e-3 * (1 + found.sd) if field in ENDS else 1e-12
            assert getattr(found, field) == pytest.approx(getattr(whole, field), abs=close), field
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
    same = lambda found: [(found[name].p, found[name].low, found[name].high) for name in "ab"]
    assert same(after) == same(before)
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


def test_arms_that_never_differ_are_equivalent_or_unresolved():
    found = compare(SIX, SIX)
    assert (found.verdict, found.difference, found.low, found.high) == ("unresolved", 0, 0, 0)
    assert (found.p, found.sd, found.agree, found.pairs_for_margin) == (1.0, 0, 0, None)
    assert compare(SIX, SIX, 1e-9).verdict == "equivalent"


@pytest.mark.parametrize("shift", [1.0, -1.0, 0.1])
def test_a_constant_difference_has_a_verdict(shift):
    found = compare(np.zeros(6), np.full(6, shift))
    assert found.verdict == ("worse" if shift > 0 else "better")
    assert (found.difference, found.low, found.high) == pytest.approx((shift,) * 3)
    assert (found.p, found.agree, found.correlation) == (1 / 32, 6, None)
    assert compare(np.zeros(6), np.full(6, shift), 2.0).verdict == "equivalent"


def test_rounding_errors_are_no_difference():
    found = compare(SIX, np.nextafter(SIX, np.inf))
    assert (found.difference, found.sd, found.p, found.verdict) == (0, 0, 1.0, "unresolved")


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
    for field in ("difference", "low", "high", "sd", "smallest_effect", "alone_low", "inner_high", "estimate"):
        error = 1e-3 if field in ENDS else 1e-9
        assert getattr(found, field) == pytest.approx(scale * getattr(usual, field), rel=error), field
    assert found.p == usual.p
    assert found.correlation == pytest.approx(usual.correlation)


def test_values_too_far_apart_are_refused():
    with pytest.raises(InputError):
        compare([-1e308] * 6, [1e308] * 6)


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
