"""Studies asked for by a recipe or by options."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.study.recipes import study_for


def asked(name="lm", **given):
    return study_for(
        name, **{"vary": None, "data": None, "settings": [], "seeds": None, "metric": None, "margin": None} | given
    )


def test_the_stored_command_asks_for_the_same_study(text: Path):
    made = asked(
        vary=["model.position=Learned,Rope(theta=500)"],
        data=str(text),
        settings=["model.width=16"],
        seeds=7,
        margin="1%",
    )
    expected = f"h2h run lm --vary 'model.position=Learned,Rope(theta=500)' --data {text}"
    assert made.command == f"{expected} --set model.width=16 --seeds 7 --margin 1%"
    assert made.name == "lm-mine-position"
    with pytest.raises(InputError, match="given twice"):
        asked(vary=["model.norm=RMSNorm", "model.norm=NoNorm"])
