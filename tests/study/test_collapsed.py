"""A classifier that gives every text the same label has learned nothing: it is shown, and not averaged."""

from __future__ import annotations

import pytest

from headtohead import Arm, Files
from headtohead.outcome import _stuck, load_outcome
from headtohead.report.page import write_report
from headtohead.study import Study

from .small import carried


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "labelled.csv"
    rows = (f"{'good fine' if n % 3 else 'bad poor'} thing {n},{'yes' if n % 3 else 'no'}\n" for n in range(240))
    path.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    return path


def test_stuck_runs_are_named_and_left_out(labelled, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    arm = Arm.of("classifier", Files(path=str(labelled))).settings(
        ["model.width=16", "model.layers=1", "model.block=8", "train.epochs=6", "train.optimizer.lr=0.01"]
    )
    study = Study(
        question="Which rate learns?",
        control=arm,
        vary={"train.optimizer.lr": [0.01, 1.0]},
        seeds=2,
        metric="test/accuracy",
        name="rates",
        again=False,
    )
    carried(study, tmp_path / "home")
    outcome = load_outcome(tmp_path / "home" / "studies" / "rates")
    by_arm = {row.arm: row for row in outcome.all_rows}
    assert by_arm["lr=0.01"].status == "complete"
    assert by_arm["lr=0.01"].value == 1
    assert by_arm["lr=1"].status == "collapsed"
    # which of the two is a matter of the last bits, and so of the machine
    says = {"collapsed: it calls every text yes", "collapsed: it calls every text no"}
    assert by_arm["lr=1"].why in says
    (verdict,) = outcome.verdicts()
    assert verdict.verdict.pairs == 0
    assert verdict.excluded
    assert {e.why for e in verdict.excluded} <= says
    assert "collapsed" in write_report(outcome).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("confusion", "says"),
    [
        ([[0, 5], [0, 7]], "collapsed: it calls every text b"),
        ([[5, 0], [7, 0]], "collapsed: it calls every text a"),
        ([[1, 4], [0, 7]], ""),  # one text is enough
        ([[0, 0], [0, 7]], ""),  # there is nothing else to be found in the set
        ([[0, 0, 3], [0, 0, 2], [0, 0, 0]], "collapsed: it calls every text 2"),
    ],
)
def test_what_stuck_means(confusion, says):
    assert _stuck({"validation/confusion": confusion}, ("a", "b")) == says
    assert _stuck({"test/confusion": confusion}, ("a", "b")) == says
    assert _stuck({"validation/confusion": [[1, 0], [0, 1]], "test/confusion": confusion}, ("a", "b")) == ""
    assert _stuck({"test/loss": 1.0}, ()) == ""
