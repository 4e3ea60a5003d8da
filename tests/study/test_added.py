"""What Compose says of an arm that is added to a study that was analysed is what the study then does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from headtohead.outcome.wording import analysis_text, lines_under
from headtohead.run.studies import read_study, write_study
from headtohead.study.added import added_arms
from headtohead.study.execution import folder_of
from headtohead.study.study import Study
from helpers.studies import QUICK, shown, study


def with_arms(text: Path, *arms: str, **given) -> Study:
    return study(text, *QUICK, vary={"model.position": ["Learned", *arms]}, margin=3.0, **given)


def test_an_added_arm_waits_for_the_unplanned_test(text: Path, home: Path):
    first, more = (with_arms(text, *arms, seeds=6) for arms in (["Rope"], ["Rope", "NoPosition"]))
    assert added_arms(first, home) is None  # nothing is stored
    shown(first, home)
    assert added_arms(first, home) is None
    found = added_arms(more, home)
    assert found is not None
    assert (found.arms, found.least, found.never) == (("NoPosition",), 12, True)
    assert found.says() == (
        "NoPosition is added after verdicts were shown: the planned analyses do not judge it. The test for unplanned "
        "analyses needs at least 12 pairs, and more if pairs disagree. This study has at most 6 pairs and cannot "
        "decide it: ask for more pairs."
    )
    verdicts = shown(more, home).verdicts
    row = verdicts["NoPosition"]
    assert (row.later, row.verdict.verdict, analysis_text(row)) == (True, "unresolved", "–")
    assert not any(line.startswith("NoPosition: if it is equal") for line in lines_under(verdicts))
    assert added_arms(more, home) == found  # it stays unplanned


def test_a_longer_study_can_decide_an_added_arm(text: Path, home: Path):
    shown(with_arms(text, "Rope", seeds=6), home)
    longer = with_arms(text, "Rope", "NoPosition", max_pairs=14)
    found = added_arms(longer, home)
    assert found is not None
    assert (found.never, found.most) == (False, 14)
    folder = folder_of(longer, home)
    record = read_study(folder)
    write_study(folder, dataclasses.replace(record, design=dataclasses.replace(record.planned, reserve=0.0)))
    without = added_arms(longer, home)
    assert without is not None
    assert without.never
    assert "nothing can decide it" in without.says()
