from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.comparison import compare_sources
from headtohead.external.text_logs import compiled
from helpers.external import ARMS, SEEDS, curve


@pytest.fixture
def logs(inside: Path) -> Path:
    for arm in ARMS:
        for seed in SEEDS:
            lines = [f"step {step:3} | val_loss={value:.6f} | ok" for step, value in curve(arm, seed)]
            (inside / f"{arm}_s{seed}.log").write_text("\n".join(["started", *lines]))
    return inside


def test_last_first_best_and_step(logs: Path) -> None:
    pattern = r"val_loss=([0-9.]+)"
    last = compare_sources([logs], pattern=pattern, metric="val_loss")
    assert (last.design, last.verdicts["rope"].verdict) == ("paired", "better")
    mean = last.means["rope"]
    for take, shift in (("first", 2), ("best", -0.1)):
        found = compare_sources([logs], pattern=pattern, metric="val_loss", take=take)  # type: ignore[arg-type]
        assert found.means["rope"] == pytest.approx(mean + shift)
    stepped = r"step +(?P<step>\d+) .*=(?P<value>[0-9.]+)"
    assert compare_sources([logs], pattern=stepped, metric="loss", step=10).means["rope"] == pytest.approx(mean + 0.5)


def test_patterns_are_checked() -> None:
    with pytest.raises(InputError, match="not a regular expression"):
        compiled("--pattern", "(", "x")
    with pytest.raises(InputError, match="no group"):
        compiled("--pattern", "loss", "x")


def test_a_match_that_is_no_number(logs: Path) -> None:
    with pytest.raises(InputError, match="'ok', which is not a number"):
        compare_sources([logs], pattern=r"\| (ok)")
