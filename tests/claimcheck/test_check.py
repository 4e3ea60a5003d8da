"""check_claim: the whole answer, its JSON, and that nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headtohead
from headtohead import InputError, check_claim
from helpers.stores import stored

CLAIM = "Rope beats Learned by 0.3 nats, one run each"


def test_the_answer_follows_from_the_store(home: Path):
    stored(home)
    found = check_claim(CLAIM, home=home)
    assert found.decides
    assert found.reading.low < -0.3 < found.reading.high < 0
    assert found.reading.wrong_sign < 0.01
    assert found.seconds == pytest.approx(2 * 6 * 500 * 0.010 / found.jobs, rel=0.3)  # 8 to 10 ms a step
    assert found.measured[0].verdict == "better"
    assert not check_claim("Rope beats Learned by 0.01 nats, one run each", home=home).decides


@pytest.mark.usefixtures("home")
def test_the_best_of_many_is_more_often_chance():
    alone, best = (check_claim("A beats B by 2.5 points, one run each", sd=0.8, tried=n) for n in (1, 20))
    assert alone.reading.decides
    assert best.reading.decides
    assert alone.decides
    assert not best.decides
    assert "unresolved" in str(best)


def test_pairs_are_read_as_pairs(home: Path):
    stored(home)
    unpaired, paired = check_claim(CLAIM, home=home), check_claim(CLAIM, home=home, paired=True)
    assert unpaired.other is not None
    assert unpaired.other == paired.reading
    assert paired.other == unpaired.reading
    assert paired.reading.noise.sd < unpaired.reading.noise.sd  # seeds are shared in this store
    with pytest.raises(InputError, match="noise of pairs"):
        check_claim("Rope beats Learned, loss 2.40 ± 0.02 vs 2.44 ± 0.01, 5 seeds each", paired=True, home=home)


def test_json_has_everything_and_no_infinity(home: Path):
    stored(home)
    for options in ({}, {"sd": 0.02}, {"tried": 4}, {"study": "positions-positions"}):
        said = check_claim(CLAIM, home=home, **options).to_json()  # type: ignore[arg-type]
        assert json.loads(json.dumps(said, allow_nan=False)) == said
        assert said["claim"]["difference"] == -0.3
        assert said["answer"]["low"] < said["answer"]["high"]
        assert said["needs"][0]["power"] == 0.8
        assert (said["answer"]["best_of"] is None) == ("tried" not in options)


def test_nothing_is_written_into_the_store(home: Path):
    stored(home)
    before = {f: f.stat().st_mtime_ns for f in home.rglob("*")}
    check_claim(CLAIM, home=home)
    assert {f: f.stat().st_mtime_ns for f in home.rglob("*")} == before


def test_it_is_public():
    assert headtohead.check_claim is check_claim
    assert headtohead.ClaimCheck.__name__ == "ClaimCheck"
