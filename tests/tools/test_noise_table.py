"""The noise that ships is that of the stored results."""

from __future__ import annotations

import json
import math
import statistics
import tomllib

import pytest

import noise_table
from headtohead.claims.run import STORED
from headtohead.spec.userfiles import RECIPES

TABLE = tomllib.loads(noise_table.FILE.read_text(encoding="utf-8"))["study"]
FOLDER = RECIPES / "published" / STORED


@pytest.mark.parametrize("name", ["classifier-fresh", "no_position", "learning_rates"])
def test_noise_is_that_of_the_stored_runs(name: str):
    """From the JSON, without the code that reads it."""
    kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    (study,) = (s for s in TABLE if s["name"] == name and s["metric"] == kept["study"]["metric"])
    values = {
        arm["name"]: {seed: kept["runs"][run]["result"]["values"][study["metric"]] for seed, run in arm["runs"].items()}
        for arm in kept["study"]["tables"][0]["arms"]
    }
    control = values[study["control"]]
    for arm in study["arms"]:
        own = values[arm["name"]]
        assert arm["runs"] == len(own)
        assert arm["sd"] == pytest.approx(statistics.stdev(own.values()), rel=1e-3)
        if arm["name"] != study["control"]:
            pairs = [own[seed] - control[seed] for seed in own]
            assert arm["pair_sd"] == pytest.approx(statistics.stdev(pairs), rel=1e-3)
            assert arm["difference"] == pytest.approx(statistics.mean(pairs), rel=1e-3, abs=1e-6)


def test_every_stored_study_is_in_the_table():
    assert {study["name"] for study in TABLE} == {file.stem for file in FOLDER.glob("*.json")}


def test_no_arm_that_guesses_is_in_the_table():
    shares = [arm for s in TABLE if s["metric"].endswith(("accuracy", "macro_f1")) for arm in s["arms"]]
    assert shares
    assert all(arm["mean"] > 0.55 and math.isfinite(arm["sd"]) for arm in shares)


@pytest.mark.slow
def test_the_table_is_what_the_program_writes():
    assert noise_table.made() == noise_table.FILE.read_text(encoding="utf-8")
