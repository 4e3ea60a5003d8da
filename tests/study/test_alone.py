"""vary=() is a study of the control alone: what it reaches, from seed to seed."""

from __future__ import annotations

import pytest

from headtohead.errors import InputError
from headtohead.outcome import load_outcome
from headtohead.report.page import page
from headtohead.study import Study

from .small import carried, control, study


def test_the_control_alone(text, home):
    what = study(text, vary=(), seeds=3, metric="validation/loss", again=True)
    assert [v.name for v in what.variants] == ["control"]
    carried(what, home)
    outcome = load_outcome(home / "studies" / "tiny")
    verdicts = outcome.verdicts()
    assert len(verdicts) == 0
    values = [row.value for row in outcome.rows["", "control"]]
    assert verdicts.control_mean == pytest.approx(sum(values) / 3)
    assert len(outcome.again) == 3
    made = page(outcome)
    assert "control" in made
    assert what.verdicts(home)._repr_html_()


def test_an_empty_mapping_is_a_slip(text):
    with pytest.raises(InputError, match=r"varies something.*vary=\(\)"):
        Study(question="?", control=control(text), vary={})
