"""Units, options and contradictions: sentence and options become one difference on one scale."""

from __future__ import annotations

import math

import pytest

from headtohead import InputError
from headtohead.claimcheck.claim import Asked, understand


def claimed(sentence: str = "", **options: object):
    return understand(Asked(claim=sentence, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "metric", "difference"),
    [
        ("A beats B by 1.2 points, 1 run", "test/accuracy", 0.012),
        ("A beats B by 1.2 %, 1 run", "test/accuracy", 0.012),
        ("A beats B by 0.012 accuracy, 1 run", "test/accuracy", 0.012),
        ("A is worse than B by 1.2 points, 1 run", "test/accuracy", -0.012),
        ("A lowers the accuracy over B by 1.2 points, 1 run", "test/accuracy", -0.012),
        ("A beats B by 2 F1 points, 1 run", "test/macro_f1", 0.02),
        ("A beats B by 0.02 nats, 1 run", "test/loss", -0.02),
        ("A raises the loss over B by 0.02, 1 run", "test/loss", 0.02),
        ("A beats B, validation loss from 2.5 to 2.4, 1 run", "validation/loss", -0.1),
        ("A beats B from 120 to 117 perplexity, 1 run", "test/perplexity", math.log(117 / 120)),
        ("A lowers perplexity over B by 5%, 1 run", "test/perplexity", math.log(0.95)),
        ("A gets 86.3 vs B 85.1 accuracy, 1 run", "test/accuracy", 0.012),
        ("A gets 0.863 vs B 0.851 accuracy, 1 run", "test/accuracy", 0.012),
        ("A vs B: -1.2 points, 1 run", "test/accuracy", -0.012),
        ("A beats B by 0.02 bits per byte, 1 run", "test/bits_per_byte", -0.02),
    ],
)
def test_units_become_one_scale(sentence: str, metric: str, difference: float):
    claim = claimed(sentence)
    assert claim.metric == metric
    assert claim.difference == pytest.approx(difference)


def test_a_share_of_a_loss_needs_the_level():
    claim = claimed("A lowers the loss over B by 1%, 1 run")
    assert claim.difference is None
    assert claim.at_level(2.5).difference == pytest.approx(-0.025)
    assert claimed("A lowers the loss over B by 1%, 1 run", control_mean=2.0).at_level(2.5).difference == -0.02
    with pytest.raises(InputError, match="--control-mean"):
        claim.at_level(None)
    perplexity = claimed("A lowers perplexity over B by 3, 1 run").at_level(120)
    assert perplexity.difference == pytest.approx(math.log(117 / 120))
    with pytest.raises(InputError, match="cannot fall"):
        claimed("A lowers perplexity over B by 3, 1 run").at_level(2.5)


def test_options_replace_the_sentence():
    said = "A beats B by 1.2 points, 3 runs"
    claim = claimed(
        said, difference="-2 points", runs=5, control_runs=4, variant="C", control="D", metric="test/accuracy"
    )
    assert (claim.difference, claim.runs, claim.control_runs) == (-0.02, 5, 4)
    assert (claim.variant, claim.control) == ("C", "D")
    assert claimed(difference=1.2, runs=1, metric="test/accuracy").difference == claimed(said).difference
    assert claimed(difference="0.02 nats", runs=1).metric == "test/loss"
    assert claimed(difference="1%", runs=1, metric="test/loss").written.amount is not None


def test_a_spread_becomes_a_standard_deviation():
    each = "A gets 86.3 ± 0.4 vs B 85.1 ± 0.3, accuracy, 4 seeds"
    assert claimed(each).spreads == pytest.approx((0.004, 0.003))
    assert claimed(each, spread_is="se").spreads == pytest.approx((0.008, 0.006))
    assert any("read as the standard deviation" in line for line in claimed(each).read)
    difference = claimed("A beats B by 1.2 ± 0.4 points, 4 seeds")
    assert difference.paired
    assert difference.pair_sd == pytest.approx(0.004)
    assert claimed("A beats B by 1.2 ± 0.4 points, 4 seeds", spread_is="se").pair_sd == pytest.approx(0.008)
    assert claimed("A beats B by 1.2 points, 4 seeds, sd 0.4").spreads == pytest.approx((0.004, 0.004))
    assert claimed("A beats B by 1.2 points, 4 seeds", spread=0.4, spread_is="se").spreads == pytest.approx(
        (0.008, 0.008)
    )
    perplexity = claimed("A beats B, 117 ± 2 vs 120 ± 2 perplexity, 4 seeds")
    assert perplexity.spreads == pytest.approx((2 / 120, 2 / 120))


@pytest.mark.parametrize(
    ("sentence", "options", "says"),
    [
        ("", {}, "say the claim"),
        ("A beats B, one run each", {}, "--difference"),
        ("A beats B by 1.2 points", {}, "--runs"),
        ("A beats B by 1.2, 3 runs", {}, "--metric"),
        ("A beats B by 0.5 accuracy, 3 runs", {}, "points or a fraction"),
        ("A beats B by 1.2 points, 3 runs", {"metric": "test/loss"}, "points are not a unit of loss"),
        (
            "A beats B by 1.2 points, 3 runs",
            {"task": "lm", "metric": "test/accuracy"},
            "language model has no accuracy",
        ),
        ("A beats B by 1.2 points, 3 runs", {"task": "tree"}, "lm or classifier"),
        ("A beats B by 1.2 points, 3 runs", {"metric": "accuracy"}, "SET/FIGURE"),
        ("A beats B by 1.2 points, 3 runs", {"metric": "test/accurate"}, "did you mean accuracy"),
        ("A beats B from 86.3 to 85.1 accuracy, 3 runs", {}, "disagree"),
        ("A improves on B by 3 points, from 85.1 to 86.3, 3 runs", {}, "do not differ by 3"),
        ("A beats B, 186.3 vs 85.1 accuracy, 3 runs", {}, "is no accuracy"),
        ("A beats B, 0.9 vs 1.1 perplexity, 3 runs", {}, "is no perplexity"),
        ("A beats B by 1.2 ± 0.4 points, one run each", {}, "no spread between seeds"),
        ("A beats B by 1.2 ± 0 points, 3 runs", {}, "spread of zero"),
        ("A beats B by 1.2 points, 3 runs", {"spread": 0.4, "spread_is": "ci"}, "sd or se"),
        ("A beats B by 1.2 points, 3 runs", {"runs": 0}, "--runs"),
        ("A beats B by 1.2 points, 3 runs", {"control_runs": -1}, "--control-runs"),
        ("A beats B by 1.2 points, 3 runs", {"tried": 0}, "--tried"),
        ("A beats B by 1.2 points, 3 runs", {"control_runs": 2, "paired": True}, "as many runs"),
        ("A beats B by 1.2 points, 3 runs", {"control_mean": -1.0}, "--control-mean"),
        ("A beats B by 1e300 nats, 3 runs", {}, "out of range"),
        ("A beats B by 1 nats, 3 runs", {"spread": math.nan}, "out of range"),
        ("A improves BLEU over B by 2 points, one run each", {}, "BLEU is a figure whose noise is not known"),
        ("A beats B by 2 points of ROUGE-L, one run each", {}, "ROUGE-L is a figure"),
        ("A lowers the error rate over B by 2 points, one run each", {}, "turn them round"),
        ("A does not beat B by 2 points, one run each", {}, "says 'does not'"),
        ("A can't beat B by 2 points, one run each", {}, "says 'can't'"),
        ("A beats B by 120 points, one run each", {}, "cannot change by 120 points"),
        ("", {"difference": "much", "runs": 1}, "a difference is a number"),
        ("", {"difference": math.nan, "runs": 1, "metric": "test/loss"}, "a difference is a number"),
    ],
)
def test_contradictions_and_gaps_are_one_line(sentence: str, options: dict[str, object], says: str):
    with pytest.raises(InputError, match=says) as refused:
        claimed(sentence, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "agrees"),
    [
        ("A beats B by 1.2 points, accuracy from 0.851 to 0.863, 1 run", True),
        ("A beats B by 1.2 points, accuracy from 0.851 to 0.893, 1 run", False),
        ("A lowers the loss over B by 0.02, from 2.50 to 2.48, 1 run", True),
        ("A lowers the loss over B by 0.02, from 2.50 to 2.46, 1 run", False),
        ("A lowers perplexity over B by 2.5%, from 120 to 117, 1 run", True),
        ("A lowers perplexity over B by 3, from 120 to 112, 1 run", False),
    ],
)
def test_an_amount_agrees_with_its_values(sentence: str, agrees: bool):
    if agrees:
        assert claimed(sentence).difference
    else:
        with pytest.raises(InputError, match="do not differ by"):
            claimed(sentence)


@pytest.mark.parametrize(
    ("sentence", "options"),
    [
        ("A with attention map pooling beats B by 2 points, one run each", {}),
        ("A improves BLEU over B by 2 points, one run each", {"metric": "test/accuracy"}),
        ("A raises accuracy over B by 2 points (standard error 0.3), 3 runs each", {}),
        ("A with no position beats B by 2 points, one run each", {}),
    ],
)
def test_other_words_are_no_other_figures(sentence: str, options: dict[str, object]):
    assert claimed(sentence, **options).difference == pytest.approx(0.02)


def test_the_control_after_over_has_its_name():
    assert claimed("Rope increases the loss over Learned by 0.02, one run each").control == "Learned"
