"""Studies of tiny models that take a second or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headtohead import Arm, Files
from headtohead.carry import StudyEvent, carry_out
from headtohead.study import Study
from runs.small import SMALL


def control(text: Path, *settings: str) -> Arm:
    return Arm.of("lm", Files(path=str(text))).settings([*SMALL, "train.steps=6", "evaluate.every=3", *settings])


def study(text: Path, *settings: str, **given: Any) -> Study:
    chosen: dict[str, Any] = {
        "question": "Does it matter?",
        "control": control(text, *settings),
        "vary": {"model.position": ["Learned", "Rope", "NoPosition"]},
        "name": "tiny",
        "again": False,
    }
    return Study(**chosen | given)


def carried(what: Study, home: Path, jobs: int = 1, **options: Any) -> list[StudyEvent]:
    return list(carry_out(what, home, jobs=jobs, **options))
