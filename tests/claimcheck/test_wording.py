"""The text: what was understood comes first, 80 columns, the picture shows the intervals at their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import check_claim
from headtohead.claimcheck.wording import one_in, picture, share_text, text_of
from helpers.stores import stored

CLAIM = "Rope beats Learned by 1.2 points, one run each"


@pytest.mark.usefixtures("home")
def test_lines_fit_and_say_what_matters():
    text = str(check_claim(CLAIM, sd=0.8, sd_runs=5, tried=8))
    lines = text.splitlines()
    assert lines[0] == "understood: Rope against Learned, +1.20 points, 1 run each"
    assert max(len(line) for line in lines if "h2h " not in line) <= 80
    for words in ("noise: given with --sd, from 5 runs", "sd 0.80 points (likely", "unresolved", "true difference: −"):
        assert words in text
    for words in (
        "the other sign",
        "runs that share nothing",
        "best of 8 variants",
        "80 % power:",
        "    h2h run classifier",
    ):
        assert words in text


@pytest.mark.usefixtures("home")
def test_each_figure_has_its_unit():
    assert "−0.0200 nats" in str(check_claim("A beats B by 0.02 nats, 1 run", sd=0.01))
    falls = str(check_claim("A beats B from 120 to 117 perplexity, 1 run", sd=2))
    assert "−2.50 % of perplexity" in falls
    assert "differ by 2.50 % of perplexity or more" in " ".join(falls.split())
    assert "read as points" in str(check_claim("A beats B by 1.2 %, 1 run", sd=0.8))


@pytest.mark.usefixtures("home")
def test_the_picture_marks_zero_and_the_difference():
    found = check_claim(CLAIM, sd=0.8)
    row, marks = picture(found, 80)
    assert row.index("├") < row.index("┼") < row.index("●") < row.index("┤")
    assert marks.index("0", row.index("├") + 6) == row.index("┼")
    assert row.index("├") == marks.index("−")  # the lower end stands above its number
    assert len(row) == len(marks.rstrip())
    at_zero = (row.index("┼") - row.index("├")) / (row.index("┤") - row.index("├"))
    assert at_zero == pytest.approx(found.reading.low / (found.reading.low - found.reading.high), abs=0.02)
    share = (row.index("●") - row.index("├")) / (row.index("┤") - row.index("├"))
    assert share == pytest.approx(0.5, abs=0.02)
    decided = picture(check_claim(CLAIM, sd=0.08), 80)[0]
    assert decided.index("│") < decided.index("├")


def test_both_readings_are_shown(home: Path):
    stored(home)
    text = text_of(check_claim("Rope beats Learned by 0.02 nats, one run each", home=home), 80)
    assert "assumed: runs that share nothing" in text
    assert "(--paired)" in text
    assert "measured before: −0.3" in text
    assert "here for 80 % power" in " ".join(text.split())
    assert text.count("├") == 2


@pytest.mark.parametrize(
    ("share", "said", "odds"),
    [
        (0.26, "26 %", ", about 1 in 4"),
        (0.004, "0.4 %", ", about 1 in 250"),
        (0.39, "39 %", ""),
        (0.6, "60 %", ""),
        (0, "less than 0.01 %", ""),
    ],
)
def test_chances_in_words(share: float, said: str, odds: str):
    assert share_text(share) == said
    assert one_in(share) == odds
