"""Sentences: what is understood, and what is refused."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from headtohead import InputError
from headtohead.claimcheck.sentence import Amount, read_sentence

POINTS = Amount(1.2, "points")
SENTENCES = [
    ("Rope beats Learned by 1.2 points, one run each", "Rope Learned better", POINTS, 1),
    (
        "RoPE outperforms learned positions by 1.2 % (3 seeds)",
        "RoPE|learned positions|better",
        Amount(1.2, "percent"),
        3,
    ),
    ("Rope is 1.2 points better than Learned, one lucky run", "Rope Learned better", POINTS, 1),
    ("Rope is better than Learned by about 1.2 percentage points, n=3", "Rope Learned better", POINTS, 3),
    ("RMSNorm is 0.02 nats worse than LayerNorm (3 seeds)", "RMSNorm LayerNorm worse", Amount(0.02, "plain"), 3),
    ("Rope improves over Learned by 1.2pp, 5 seeds each", "Rope Learned better", POINTS, 5),
    ("Rope loses to Learned by 1.2 points, mean of 5 runs", "Rope Learned worse", POINTS, 5),
    ("Rope reduces perplexity by 3 over Learned, two runs each", "Rope Learned down", Amount(3.0), 2),
    ("Gated lowers the validation loss by .01, averaged over ten seeds", "Gated||down", Amount(0.01), 10),
    ("Rope raises accuracy by 1.2 points compared to Learned, 3 runs", "Rope Learned up", POINTS, 3),
    ("Rope vs Learned: +1.2 points, 3 random seeds", "Rope|Learned|", POINTS, 3),
    ("lr=0.003 beats lr=0.001 by 1.2 points, 2 seeds", "lr=0.003 lr=0.001 better", POINTS, 2),
    ("Alibi(slope=1.0) beats Local(8) by 1.2 points, single run", "Alibi(slope=1.0) Local(8) better", POINTS, 1),
    ("GPT-2 with Rope beats GPT-2 by 1.2 points, 2 runs", "GPT-2 with Rope|GPT-2|better", POINTS, 2),
    ("a gain of 1.2 points with 5 seeds", "||", POINTS, 5),
    ("Rope beats Learned by 1.2 points after 300 steps, 4 runs", "Rope Learned better", POINTS, 4),
]


@pytest.mark.parametrize(("sentence", "who", "by", "runs"), SENTENCES)
def test_a_sentence_is_understood(sentence: str, who: str, by: Amount, runs: int):
    said = read_sentence(sentence)
    wanted = tuple(who.split("|") if "|" in who else who.split())
    assert (said.variant, said.control, said.way) == wanted
    assert said.by == by
    assert said.runs == runs
    assert said.values is None


@pytest.mark.parametrize(
    ("sentence", "who", "values", "runs"),
    [
        ("Rope improves accuracy from 85.1 to 86.3, mean of 5 runs", ("Rope", ""), (86.3, 85.1), 5),
        ("Rope improves over Learned from 85.1% to 86.3%, 5 seeds", ("Rope", "Learned"), (86.3, 85.1), 5),
        ("Rope gets 86.3 vs Learned 85.1, accuracy, one run each", ("Rope", "Learned"), (86.3, 85.1), 1),
        ("Rope reaches 86.3 and Learned 85.1, one run each", ("Rope", "Learned"), (86.3, 85.1), 1),
        ("86.3 vs 85.1 accuracy, single run", ("", ""), (86.3, 85.1), 1),
        (
            "Rope achieves an accuracy of 86.3 compared to 85.1 for Learned, 5 seeds",
            ("Rope", "Learned"),
            (86.3, 85.1),
            5,
        ),
        ("Rope lowers perplexity by 3 over Learned, from 120 to 117, n = 3", ("Rope", "Learned"), (117, 120), 3),
    ],
)
def test_two_values_are_understood(sentence: str, who: tuple[str, str], values: tuple[float, float], runs: int):
    said = read_sentence(sentence)
    assert (said.variant, said.control) == who
    assert said.values is not None
    assert tuple(amount.number for amount in said.values) == values
    assert said.runs == runs


def test_spreads_belong_to_what_they_follow():
    each = read_sentence("Rope gets 86.3 ± 0.4 vs Learned 85.1 +/- 0.3, 5 seeds").values
    assert each is not None
    assert [amount.spread for amount in each] == [0.4, 0.3]
    difference = read_sentence("Rope beats Learned by 1.2 ± 0.4 points, 5 seeds").by
    assert difference == Amount(1.2, "points", 0.4)
    runs = read_sentence("Rope beats Learned by 1.2 points, 5 seeds, standard error 0.2")
    assert (runs.spread, runs.spread_is, runs.by) == (0.2, "se", POINTS)


@pytest.mark.parametrize(
    ("sentence", "figure"),
    [
        ("by 1.2 points of accuracy, 2 runs", "accuracy"),
        ("1.2 F1 points, 2 runs", "macro_f1"),
        ("by 3 perplexity points, 2 runs", "perplexity"),
        ("by 0.02 bits per byte, 2 runs", "bits_per_byte"),
        ("by 0.02 nats of loss, 2 runs", "loss"),
        ("by 1.2 points, 2 runs", ""),
    ],
)
def test_figures_are_recognised(sentence: str, figure: str):
    said = read_sentence(sentence)
    assert said.figure == figure
    assert said.by is not None


def test_pairs_and_equal_seeds_are_recognised():
    assert read_sentence("Rope beats Learned by 1.2 points, 3 pairs").paired
    assert read_sentence("Rope beats Learned by 1.2 points, same seeds, 3 runs each").paired
    assert not read_sentence("Rope beats Learned by 1.2 points, 3 runs each").paired


def test_numbers_of_the_setup_are_named_as_not_used():
    said = read_sentence("Rope beats Learned by 1.2 points after 300 steps with 4 layers, 3 runs")
    assert set(said.ignored) == {"300 steps", "4 layers"}


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("Rope beats Learned by 1.2 points, 3 runs, 17", "17 is in the sentence and was not understood"),
        ("Rope beats Learned by 1.2 points, 3 runs, 5 seeds", "3 and 5 runs"),
        ("Rope beats Learned by 1.2 points (95% CI 0.3 to 2.1), 3 runs", "--spread"),
        ("Rope beats Learned in accuracy and loss by 1.2, 3 runs", "one claim at a time"),
        ("Rope beats Learned by 1.2 points (sd 0.3, se 0.1), 3 runs", "--spread-is"),
        ("word " * 300, "longer than 1000 characters"),
    ],
)
def test_what_is_not_understood_is_refused(sentence: str, says: str):
    with pytest.raises(InputError, match=says) as refused:
        read_sentence(sentence)
    assert "\n" not in str(refused.value)


def test_any_words_are_read_or_refused_quickly():
    """Sentences of random words: no other exception, and no sentence that takes long."""
    words = (
        "Rope beats Learned by 1.2 points , one run each from to vs 86.3 ± 0.4 ( ) sd se is better than the loss % §"
    )
    draw, known = random.Random(1), [*words.split(), "½", "١", "1e5", "x=3", "f(2)", "confidence", "n=3", "300 steps"]
    start = time.process_time()
    for _ in range(300):
        sentence = " ".join(draw.choice(known) for _ in range(draw.choice([3, 10, 30, 150])))[:1000]
        with contextlib.suppress(InputError):
            read_sentence(sentence)
    assert time.process_time() - start < 10
