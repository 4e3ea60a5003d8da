"""Which noise is used: given, written in the claim, of the store, of the published studies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from headtohead import InputError, check_claim
from headtohead.claimcheck.claim import Asked, understand
from headtohead.claimcheck.sources import Source, measured, source_of
from headtohead.outcome.noise import noise_of_arms
from headtohead.outcome.outcome import Outcome
from headtohead.stats.noise import Noise, expected, moderated
from helpers.stores import stored

CLAIM = "Rope beats Learned by 0.02 nats, one run each"


def found(home: Path, sentence: str = CLAIM, study: str | None = None, **options: object) -> Source:
    asked = Asked(claim=sentence, **options)  # type: ignore[arg-type]
    return source_of(understand(asked), asked, study, home)


def values(outcome: Outcome, arm: str) -> np.ndarray:
    return np.array([row.value for row in outcome.rows["", arm]])


def test_own_arms_come_first_and_others_moderate_them(home: Path):
    outcome = stored(home, seeds=6)
    source = found(home)
    assert source.kind == "store"
    assert source.same_setup
    assert "Rope and Learned foremost" in source.said
    assert "18 runs of 3 arms of study stored" in source.said
    pairs = noise_of_arms(outcome, "")
    assert source.pairs.sd == pytest.approx(moderated(pairs["Rope"], [pairs["Alibi"]]).sd)
    assert source.variant is not None
    assert source.variant.free > 5
    alone = {a: Noise(float(values(outcome, a).std(ddof=1)), 5, "") for a in ("Learned", "Rope", "Alibi")}
    assert source.variant.sd == pytest.approx(moderated(alone["Rope"], [alone["Learned"], alone["Alibi"]]).sd)


def test_two_arms_that_are_not_the_control_are_paired(home: Path):
    outcome = stored(home, seeds=8)
    source = found(home, "Rope beats Alibi by 0.02 nats, one run each")
    own = (values(outcome, "Rope") - values(outcome, "Alibi")).std(ddof=1)
    assert source.pairs_known
    assert source.pairs.sd == pytest.approx(own, rel=0.01)  # no other pair moderates it: both are of these arms


def test_other_arms_of_one_setup_speak_for_unknown_names(home: Path):
    outcome = stored(home)
    source = found(home, "Flux beats Learned by 0.02 nats, one run each")
    other = expected(noise_of_arms(outcome, "").values())
    assert other is not None
    assert (source.pairs.sd, source.pairs.free) == (pytest.approx(other.sd), pytest.approx(other.free))
    assert source.variant is source.control


def test_several_setups_are_uncertain_until_one_is_named(home: Path):
    stored(home, name="one")
    second = stored(home, name="two", noise=0.03, control="Sinusoidal", effects={"Alibi": 0.1})
    file = second.folder / "study.json"
    file.write_text(file.read_text().replace('"block": 32', '"block": 16'))
    unknown = "Flux beats Flow by 0.02 nats, one run each"
    both, one = found(home, unknown), found(home, unknown, study="one")
    assert not both.same_setup
    assert both.variant is not None
    assert both.variant.spread > 0
    assert one.same_setup
    assert found(home).same_setup  # only one of them has both arms


def test_studies_of_another_task_or_damaged_ones_are_left_out(home: Path):
    stored(home, name="reviews", task="classifier")
    broken = home / "studies" / "broken"
    broken.mkdir(parents=True)
    (broken / "study.json").write_text("{")
    assert found(home).kind == "shipped"
    assert found(home, "Rope beats Learned by 1.2 points, one run each").kind == "store"


def test_published_noise_is_of_other_setups_unless_one_is_named(home: Path):
    source = found(home, "Rope beats Learned by 1.2 points, one run each")
    assert source.kind == "shipped"
    assert not source.same_setup
    assert not found(home, "Rope beats Learned by 0.02 bits per byte, one run each").same_setup  # one setup is known
    named = found(home, "Rope beats Learned by 1.2 points, one run each", study="classifier-fresh")
    assert named.same_setup
    assert named.pairs.sd == pytest.approx(0.0136, rel=0.05)
    assert source.pairs.limit(0.9) / source.pairs.limit(0.1) > named.pairs.limit(0.9) / named.pairs.limit(0.1)
    with pytest.raises(InputError, match="did you mean classifier-fresh"):
        found(home, "Rope beats Learned by 1.2 points, one run each", study="classifier-fesh")


def test_a_claims_own_spread_comes_before_stores(home: Path):
    stored(home)
    source = found(home, "Rope beats Learned, loss 2.40 ± 0.02 vs 2.44 ± 0.01, 5 seeds each")
    assert source.kind == "claim"
    assert source.variant is not None
    assert source.control is not None
    assert (source.variant.sd, source.variant.free) == (pytest.approx(0.02), 4)
    assert source.control.sd == pytest.approx(0.01)
    assert source.pairs.sd == pytest.approx(math.hypot(0.02, 0.01))
    assert not source.pairs_known
    pairs = found(home, "Rope beats Learned by 0.04 ± 0.02 nats, 5 seeds")
    assert (pairs.variant, pairs.pairs.free) == (None, 4)


def test_given_noise_comes_first_and_is_checked(home: Path):
    stored(home)
    assert found(home, sd=0.01).kind == "given"
    for options, says in (
        ({"sd": 0.0}, "--sd"),
        ({"sd": 0.1, "sd_runs": 1}, "--sd-runs"),
        ({"sd_runs": 5}, "--sd too"),
    ):
        with pytest.raises(InputError, match=says):
            found(home, **options)


def test_a_perplexity_has_the_noise_of_its_logarithm(home: Path):
    stored(home)
    perplexity = "Rope beats Learned from 20.5 to 20.1 perplexity, one run each"
    assert found(home, perplexity).pairs.sd == pytest.approx(found(home).pairs.sd)
    level = check_claim("Rope lowers perplexity over Learned by 0.4, one run each", home=home)
    assert level.claim.control_mean == pytest.approx(math.exp(3.0), rel=0.05)  # of the control in the store


def test_verdicts_that_exist_are_found_and_turned(home: Path):
    outcome = stored(home, seeds=6)
    claim = understand(Asked("Rope beats Learned by 0.02 nats, one run each"))
    turned = understand(Asked("Learned beats Rope by 0.02 nats, one run each"))
    here = {m.study: m for m in measured(claim, home)}
    there = {m.study: m for m in measured(turned, home)}
    verdict = outcome.verdicts["Rope"].verdict
    assert here["stored"].difference == pytest.approx(verdict.difference)
    assert here["stored"].verdict == "better"
    assert there["stored"].difference == pytest.approx(-verdict.difference)
    assert (there["stored"].low, there["stored"].verdict) == (pytest.approx(-verdict.high), "worse")
    assert "h2h run published/positions:positions" in here


def test_no_noise_is_one_line(home: Path):
    stored(home, seeds=1)
    assert found(home).kind == "shipped"  # one run each has no spread
    with pytest.raises(InputError, match="no study 'none' with loss of a classifier"):
        found(home, task="classifier", study="none")


def test_an_sd_in_another_unit_than_the_difference_is_refused(home: Path):
    claim = "Rope beats Learned by 0.012 in accuracy, one run each"
    assert found(home, claim, sd=0.01).pairs.sd == pytest.approx(found(home, POINTS, sd=1.0).pairs.sd)
    with pytest.raises(InputError, match=r"--sd 1 is 100 points, too much for accuracy"):
        found(home, claim, sd=1.0)


POINTS = "Rope beats Learned by 1.2 points, one run each"
