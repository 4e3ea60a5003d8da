"""What an effect is worth: known factors are found, intervals cover them, and what cannot be told is not told."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from headtohead.outcome.equivalents import (
    NO_LENGTHS,
    Difference,
    Lengths,
    Worth,
    columns,
    equivalent,
    lengths_of,
    time_ratio,
    time_share,
    worth,
)
from headtohead.outcome.outcome import RunRow
from headtohead.outcome.worth_text import factor_text, worth_text

FACTORS = (0.5, 2.0)
Curve = Callable[[float], float]


def power_law(k: float) -> float:
    return 3.0 + 1.5 * k**-0.3


def study(
    curve: Curve,
    value: float,
    *,
    pairs: int = 8,
    seeds: int = 4,
    sd: float = 0.0,
    draw: np.random.Generator | None = None,
) -> Difference:
    """An arm whose mean is `value`, against a control with this curve; every run has its own noise, and all runs of a
    seed share some."""
    draw = draw or np.random.default_rng(0)
    shared = 2 * sd * draw.normal(size=pairs)
    control = {s: curve(1.0) + shared[s] + sd * draw.normal() for s in range(pairs)}
    longer = {k: {s: curve(k) + shared[s] + sd * draw.normal() for s in range(seeds)} for k in FACTORS}
    lengths = lengths_of(control, longer)
    assert lengths is not None
    return Difference({s: value + shared[s] + sd * draw.normal() - control[s] for s in control}, lengths)


# -- the factor --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.51, 0.6, 0.9, 1.0, 1.15, 1.5, 1.99])
@pytest.mark.parametrize(("better", "sign"), [("lower", -1), ("higher", 1)])
def test_a_parabola_in_log_tokens_is_found_exactly(factor, better, sign):
    def curve(k: float) -> float:
        return 2 + sign * (0.3 * math.log(k) - 0.05 * math.log(k) ** 2)

    found = equivalent(study(curve, curve(factor)), better)
    assert found[0] == pytest.approx(factor, rel=1e-5)


@pytest.mark.parametrize("factor", [0.6, 0.8, 1.25, 1.6])
@pytest.mark.parametrize("exponent", [0.1, 0.3, 0.5])
def test_a_power_law_is_found_within_two_percent(factor, exponent):
    """The parabola through three lengths differs from a power law between them, though not by much."""

    def curve(k: float) -> float:
        return 3 + k**-exponent

    assert equivalent(study(curve, curve(factor)), "lower")[0] == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize("seeds", [4, 8])
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.15, 1.5])
def test_intervals_cover_the_true_factor(factor, seeds):
    draw, covered, studies = np.random.default_rng(round(100 * factor) + seeds), 0, 600
    for _ in range(studies):
        _, low, high = equivalent(study(power_law, power_law(factor), seeds=seeds, sd=0.02, draw=draw), "lower")
        covered += (low is None or low <= factor) and (high is None or factor <= high)
    assert covered / studies >= 0.93


def test_intervals_are_not_idle():
    """Eight pairs and four seeds of lengths, with the demo's noise, tell 1.15 from 1."""
    _, low, high = equivalent(study(power_law, power_law(1.15), sd=0.01), "lower")
    assert 1.05 < low < 1.15 < high < 1.25


# -- D(k) and its interval ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.7])
def test_d_is_the_paired_difference_where_all_seeds_have_lengths(factor):
    made = study(power_law, 4.4, seeds=8, sd=0.05)
    x = math.log(factor)
    each = []
    for seed, d in made.pairs.items():
        half, twice = made.lengths.gains[seed]
        # Lagrange's parabola through (−log 2, half), (0, 0), (log 2, twice)
        y = x / math.log(2)
        each.append(d - (half * y * (y - 1) / 2 + twice * y * (y + 1) / 2))
    test = stats.ttest_1samp(each, 0.0).confidence_interval(0.95)
    assert made.at(np.array([x]))[:, 0] == pytest.approx([np.mean(each), test.low, test.high])


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.7])
def test_d_is_welchs_where_some_seeds_have_lengths(factor):
    made = study(power_law, 4.4, pairs=9, seeds=4, sd=0.05)
    x = np.array([math.log(factor)])
    test = stats.ttest_ind(list(made.pairs.values()), made.lengths.gain(x)[:, 0], equal_var=False)
    ends = test.confidence_interval(0.95)
    assert made.at(x)[1:, 0] == pytest.approx([ends.low, ends.high])


@pytest.mark.parametrize("seeds", [4, 8])
def test_at_equal_steps_it_is_the_interval_of_the_verdict(seeds):
    made = study(power_law, 4.4, seeds=seeds, sd=0.05)
    ends = stats.ttest_1samp(list(made.pairs.values()), 0.0).confidence_interval(0.95)
    assert made.at(np.zeros(1))[1:, 0] == pytest.approx([ends.low, ends.high])


def test_the_bounds_are_where_d_no_longer_differs_from_zero():
    made = study(power_law, power_law(1.3), sd=0.02)
    _, low, high = equivalent(made, "lower")
    assert made.at(np.log([low]))[2, 0] == pytest.approx(0, abs=1e-5)
    assert made.at(np.log([high]))[1, 0] == pytest.approx(0, abs=1e-5)


def test_lengths_in_any_order_of_seeds_give_the_same():
    made = study(power_law, 4.4, seeds=8, sd=0.05)
    turned = Difference(dict(reversed(made.pairs.items())), made.lengths)
    assert equivalent(turned, "lower") == pytest.approx(equivalent(made, "lower"))


# -- what cannot be told -----------------------------------------------------------------------------------------------


def test_an_arm_beyond_the_lengths_has_only_a_bound():
    factor, low, high = equivalent(study(power_law, power_law(4.0), sd=0.01), "lower")
    assert (factor, high) == (math.inf, None)
    assert low == pytest.approx(2.0)  # better than the longest control for certain
    factor, low, high = equivalent(study(power_law, power_law(0.2), sd=0.01), "lower")
    assert (factor, low) == (0.0, None)
    assert high == pytest.approx(0.5)
    _, low, high = equivalent(study(power_law, power_law(1.95), sd=0.02), "lower")
    assert low < 1.95
    assert high is None  # the interval ends beyond the longest control


def test_a_control_that_more_training_makes_worse_has_no_factor():
    made = study(lambda k: 3 + 0.1 * math.log(k), 2.9)
    assert equivalent(made, "lower") == "more training does not improve the control here"


def test_the_lengths_are_used_only_as_far_as_more_training_helps():
    def overfits(k: float) -> float:
        return 3 + (math.log(k) - math.log(1.5)) ** 2  # best at 1.5 × the steps

    made = study(overfits, overfits(1.3))
    assert made.lengths.reach("lower") == pytest.approx((math.log(0.5), math.log(1.5)))
    assert equivalent(made, "lower")[0] == pytest.approx(1.3, rel=1e-4)
    assert equivalent(study(overfits, 2.9), "lower")[0] == math.inf  # no control is that good
    slow = study(lambda k: 3 - (math.log(k) + 0.3) ** 2, 2.95)  # gets worse before it gets better
    assert slow.lengths.reach("lower")[0] == pytest.approx(-0.3)


def test_noisy_accuracies_cannot_be_told():
    """The accuracy of a classifier that has learned what it can: the interval is open on both sides."""
    told, studies = 0, 100
    for seed in range(studies):
        made = study(lambda k: 0.8 + 0.001 * math.log(k), 0.8, sd=0.01, draw=np.random.default_rng(seed))
        found = equivalent(made, "higher")
        told += not isinstance(found, str) and not (found[1] is None and found[2] is None)
    assert told / studies <= 0.1


def test_clear_accuracies_have_a_factor():
    made = study(lambda k: 0.7 + 0.1 * math.log(k), 0.7 + 0.1 * math.log(1.4), sd=0.004)
    factor, low, high = equivalent(made, "higher")
    assert low < 1.4 < high
    assert factor == pytest.approx(1.4, rel=0.1)


def test_seeds_without_every_length_do_not_count():
    base = {0: 4.0, 1: 4.1, 2: 4.2}
    half, twice = {0: 4.3, 1: 4.4, 2: 4.5}, {0: 3.8, 1: 3.9, 2: math.nan}
    lengths = lengths_of(base, {0.5: half, 2.0: twice})
    assert lengths is not None
    assert lengths.seeds == (0, 1)
    assert lengths.gains == pytest.approx(np.array([[0.3, -0.2], [0.3, -0.2]]))
    assert lengths_of(base, {0.5: half, 2.0: {0: 3.8}}) is None  # one seed has no noise
    assert lengths_of(base, {}) is None


def test_one_length_gives_a_straight_line_and_many_a_fit():
    line = Lengths((0, 1), (2.0,), np.array([[-0.2], [-0.4]]))
    assert line.gain(np.log([1.0, math.sqrt(2), 2.0])).mean(axis=0) == pytest.approx([0, -0.15, -0.3])
    assert line.reach("lower") == pytest.approx((0, math.log(2)))
    x = np.log([0.5, 0.75, 1.5, 2.0])
    many = Lengths((0, 1), (0.5, 0.75, 1.5, 2.0), np.array([-0.3 * x + 0.1 * x * x] * 2))
    assert many.gain(np.log([1.2])) == pytest.approx(-0.3 * math.log(1.2) + 0.1 * math.log(1.2) ** 2)


# -- cost --------------------------------------------------------------------------------------------------------------


def row(arm: str, seed: int, value: float, **given: float) -> RunRow:
    known = {"flops": 1000, "step_ms": 10.0, "steps": 300, "finished": 1e9, **given}
    return RunRow(arm, seed, f"{arm}{seed}", "complete", "", value, 1, **known)  # type: ignore[arg-type]


def test_time_ratios_are_paired_and_only_of_pairs_that_ran_together():
    times = [(10, 12.0), (20, 23.0), (5, 6.2), (10, 11.5)]
    both = [(row("c", s, 4, step_ms=c), row("v", s, 4, step_ms=v)) for s, (c, v) in enumerate(times)]
    far = (row("c", 9, 4, step_ms=10), row("v", 9, 4, step_ms=99, finished=1e9 + 1801))
    untimed = (row("c", 10, 4, step_ms=None), row("v", 10, 4))
    found = time_ratio([*both, far, untimed])
    assert found is not None
    logs = [math.log(v / c) for c, v in times]
    ends = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    assert found.pairs == 4
    assert (found.value, found.low, found.high) == pytest.approx(
        (math.exp(np.mean(logs)), math.exp(ends.low), math.exp(ends.high))
    )
    assert time_share([*both, far, untimed]) == pytest.approx(found.value - 1)
    assert time_ratio(both[:1]) is None
    assert time_share(both[:1]) == pytest.approx(0.2)
    assert time_share([far, untimed]) is None


def arm_of(values: list[float], **given: float) -> list[tuple[RunRow, RunRow]]:
    return [(row("c", s, 4 + 0.01 * s), row("v", s, value, **given)) for s, value in enumerate(values)]


LENGTHS = lengths_of(
    {s: 4 + 0.01 * s for s in range(4)},
    {0.5: {s: 4.3 + 0.012 * s for s in range(4)}, 2.0: {s: 3.8 + 0.007 * s for s in range(4)}},
)


def test_at_equal_flops_the_control_gets_the_flops_of_the_arm():
    values = [3.7, 3.75, 3.72, 3.78]
    found = worth(arm_of(values, flops=2000, step_ms=5), LENGTHS, "lower")
    assert found is not None
    assert (found.flops, found.time and found.time.value) == (2, pytest.approx(0.5))
    twice = np.array(
        [3.8 + 0.007 * s for s in range(4)]
    )  # an arm of twice the FLOPs meets the control of twice the steps
    half = np.array([4.3 + 0.012 * s for s in range(4)])  # and as a step takes half the time, that of half the steps
    for shifted, control in ((found.at_equal_flops, twice), (found.at_equal_seconds, half)):
        ends = stats.ttest_rel(values, control).confidence_interval(0.95)
        assert shifted is not None
        assert (shifted.difference, shifted.low, shifted.high) == pytest.approx(
            (np.mean(values - control), ends.low, ends.high)
        )


def test_a_time_ratio_of_unknown_size_widens_the_interval():
    steady = arm_of([3.9, 3.92, 3.91, 3.95], step_ms=12.0)
    shaky = [(c, row("v", c.seed, v.value, step_ms=ms)) for (c, v), ms in zip(steady, (9, 16, 10, 14.4), strict=True)]
    one, other = (worth(both, LENGTHS, "lower").at_equal_seconds for both in (steady, shaky))  # type: ignore[union-attr]
    assert one is not None
    assert other is not None
    assert other.high - other.low > 1.5 * (one.high - one.low)


def test_total_cost_counts_where_arms_differ_in_steps():
    found = worth(arm_of([3.9, 3.92, 3.91, 3.95], flops=500, steps=600), LENGTHS, "lower")
    assert found is not None
    assert found.at_equal_flops is not None
    assert found.at_equal_flops.factor == 1  # half the FLOPs a step, twice the steps
    assert found.at_equal_seconds is not None
    assert found.at_equal_seconds.factor == pytest.approx(2)


def test_a_cost_beyond_the_lengths_is_not_told():
    found = worth(arm_of([3.9, 3.92, 3.91, 3.95], flops=2100, step_ms=4.5), LENGTHS, "lower")
    assert found is not None
    assert found.at_equal_flops is None
    assert found.at_equal_seconds is None
    assert found.factor is not None
    assert "at equal FLOPs not known; at equal seconds not known" in worth_text(found, "test/loss")


def test_without_lengths_only_what_needs_none_is_told():
    values = [3.9, 3.92, 3.91, 3.95]
    found = worth(arm_of(values), None, "lower")
    assert found is not None
    assert (found.factor, found.reach, found.why, found.at_equal_seconds) == (None, None, NO_LENGTHS, None)
    ends = stats.ttest_rel(values, [4 + 0.01 * s for s in range(4)]).confidence_interval(0.95)
    assert found.at_equal_flops is not None  # equal steps are equal FLOPs
    assert (found.at_equal_flops.low, found.at_equal_flops.high) == pytest.approx((ends.low, ends.high))
    assert found.time is not None
    costly = worth(arm_of(values, flops=1500), None, "lower")
    assert costly is not None
    assert costly.at_equal_flops is None
    assert worth(arm_of(values[:1]), LENGTHS, "lower") is None
    assert worth([], LENGTHS, "lower") is None


# -- words -------------------------------------------------------------------------------------------------------------


def told(**given: object) -> Worth:
    known = {"factor": 1.18, "low": 1.05, "high": 1.33, "reach": (0.5, 2.0), "beyond": "", "seeds": (0, 1), "why": ""}
    costs = {"at_equal_flops": None, "at_equal_seconds": None, "flops": 1.0, "time": None}
    return Worth(**{**known, **costs, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "equal to 1.18 × the training tokens of the control (1.05 to 1.33)"),
        ({"high": None}, "equal to 1.18 × the training tokens of the control (1.05 to above 2)"),
        ({"low": None}, "equal to 1.18 × the training tokens of the control (below 0.5 to 1.33)"),
        (
            {"factor": None, "low": 1.8, "high": None, "beyond": "above"},
            "equal to more than 2 × the training tokens of the control (at least 1.80)",
        ),
        (
            {"factor": None, "low": None, "high": 0.61, "beyond": "below"},
            "equal to less than 0.5 × the training tokens of the control (at most 0.61)",
        ),
    ],
)
def test_factors_in_words(given, text):
    assert factor_text(told(**given), "test/loss") == text


def test_what_cannot_be_told_in_words():
    assert "cannot be told" in factor_text(told(low=None, high=None), "test/accuracy")
    assert "training steps" in factor_text(told(), "test/accuracy")
    why = told(factor=None, low=None, high=None, reach=None, why="more training does not improve the control here")
    assert factor_text(why, "test/loss").endswith("not known: more training does not improve the control here")


def test_frames_have_a_column_for_each_figure():
    assert columns(None) == {}
    assert columns(told())["worth"] == 1.18
