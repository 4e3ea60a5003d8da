"""The benchmark of mixers: what it measures, with short texts and few contenders. Nothing here says who is fast."""

from __future__ import annotations

import json
import math

import pytest

from benchmark_tables import mixers as table_of
from headtohead import families
from headtohead.spec import is_builtin
from measure import mixers
from mixer_picture import draw


def test_every_builtin_mixer_is_a_contender():
    found, _ = mixers.contenders()
    names = {c.name for c in found if c.library == "headtohead"}
    assert names == {name for name, part in families()["mixer"].items() if is_builtin(part)}


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_is_the_power_of_the_length(power):
    times = {n: 3.0 * n**power for n in (128, 256, 512, 1024)}
    assert math.isclose(mixers.growth(times), power)
    assert mixers.growth({128: 1.0, 256: 2.0}) is None
    assert math.isclose(mixers.growth({1: 99.0, **times}), power), "only the longest lengths count"


@pytest.fixture
def result(monkeypatch):
    found = [c for c in mixers.contenders()[0] if c.name in ("Attention", "Retention")]
    monkeypatch.setattr(mixers, "contenders", lambda: (found, ["nobody is not installed"]))
    monkeypatch.setattr(mixers, "_peaks", lambda _name, lengths: [float(n) for n in lengths])
    found = mixers.measure([64, 96, 128], 1)
    return json.loads(json.dumps({**found, "command": "python x.py", "machine": "m", "date": "2026-11-19", "load": 1}))


def test_every_length_is_measured_and_shown(result, tmp_path):
    for row in result["rows"]:
        assert [*row["step_ms"]] == [*row["tokens_per_second"]] == ["64", "96", "128"]
        assert all(0 < least <= middle for least, middle in row["step_ms"].values())
        assert row["parameters"] > 0
    said = table_of(result)
    assert "| Retention |" in said
    assert "16,384 bytes for each text" in said
    assert "nobody is not installed" in said
    draw(result, tmp_path / "mixers.png")
    assert (tmp_path / "mixers.png").stat().st_size > 10_000


def test_a_contender_that_is_too_slow_is_left_out(monkeypatch):
    found = [c for c in mixers.contenders()[0] if c.name == "Attention"]
    monkeypatch.setattr(mixers, "contenders", lambda: (found, []))
    monkeypatch.setattr(mixers, "_peaks", lambda _name, lengths: [0.0] * len(lengths))
    monkeypatch.setattr(mixers, "SLOW", 0.0)
    (row,) = mixers.measure([64, 96], 1)["rows"]
    assert row["step_ms"] == {}
    assert row["exponent"] is None


@pytest.mark.slow
def test_peak_memory_is_measured_in_its_own_process():
    short, long = mixers._peaks("Attention", [128, 1024])
    assert 0 <= short < long < 2000
