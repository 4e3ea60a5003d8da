"""Outcomes: verdicts follow from the store, also after changes and damage; runs without a result are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, InputError, Study
from headtohead.outcome.outcome import _stuck, load_outcome
from headtohead.outcome.wording import corrected_text, lines_under
from headtohead.report.page import page, write_report
from headtohead.run import store
from headtohead.run.events import Finished
from headtohead.run.executors.execution import Execution
from headtohead.run.store import Record
from headtohead.stats import Design, compare_all
from headtohead.study.execution import folder_of, train_study
from helpers.studies import carried, control, study


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "labelled.csv"
    rows = (f"{'good fine' if n % 3 else 'bad poor'} thing {n},{'yes' if n % 3 else 'no'}\n" for n in range(240))
    path.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    return path


def test_collapsed_classifiers_are_named_and_left_out(labelled, tmp_path, monkeypatch):
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
    (verdict,) = outcome.verdicts
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
def test_a_classifier_with_one_label_has_collapsed(confusion, says):
    assert _stuck({"validation/confusion": confusion}, ("a", "b")) == says
    assert _stuck({"test/confusion": confusion}, ("a", "b")) == says
    assert _stuck({"validation/confusion": [[1, 0], [0, 1]], "test/confusion": confusion}, ("a", "b")) == ""
    assert _stuck({"test/loss": 1.0}, ()) == ""


def test_verdicts_match_the_stored_values(text: Path, home: Path):
    made = study(text, seeds=6)
    carried(made, home)
    frame = made.outcome(home).results()
    values = {arm: rows.sort_values("seed")["test/loss"].to_numpy() for arm, rows in frame.groupby("arm")}
    by_hand = compare_all(
        values["Learned"], {k: values[k] for k in ("Rope", "NoPosition")}, design=Design((6,), reserve=0.1)
    )
    verdicts = made.outcome(home).verdicts
    assert [row.arm for row in verdicts] == ["Rope", "NoPosition"]
    for row in verdicts:
        assert row.verdict == by_hand[row.arm]
        assert row.mean == pytest.approx(values[row.arm].mean())
        assert row.extra_parameters == -16 * 16  # no table of positions
        assert row.extra_flops == 0
    assert verdicts.control_mean == pytest.approx(values["Learned"].mean())
    assert "seeds 0–5" in verdicts.scope
    assert lines_under(verdicts)[-2] == f"training of the control: {verdicts.training}"
    assert verdicts.to_json()["training"].startswith("AdamW at 0.003, WarmupCosine with 30 % warm-up")
    json.dumps(verdicts.to_json(), default=str)
    html = verdicts._repr_html_()
    assert "Learned" in html
    assert "unresolved" in html or "better" in html or "worse" in html


def test_a_dropped_arm_still_counts_in_the_family(text: Path, home: Path):
    whole = study(text, seeds=6)
    carried(whole, home)
    before = whole.outcome(home).verdicts
    fewer = study(text, seeds=6, vary={"model.position": ["Learned", "Rope"]})
    carried(fewer, home)
    after = fewer.outcome(home).verdicts
    assert [(row.arm, row.dropped) for row in after] == [("Rope", False), ("NoPosition", True)]
    assert after["Rope"].verdict == before["Rope"].verdict
    carried(whole, home)
    assert not any(row.dropped for row in whole.outcome(home).verdicts)


def test_a_diverged_run_is_named_and_its_pair_left_out(text: Path, home: Path):
    made = study(text, seeds=2, vary={"train.optimizer.lr": [1e30]})
    carried(made, home)
    row = made.outcome(home).verdicts["lr=1e+30"]
    assert row.verdict.pairs == 0
    assert row.verdict.verdict == "unresolved"
    assert len(row.excluded) == 2
    assert row.excluded[0][:2] == (0, "lr=1e+30")
    assert row.excluded[0].why.startswith("diverged at step")
    assert list(made.outcome(home).results()["status"]) == ["complete", "complete", "diverged", "diverged"]


def test_noise_is_the_control_against_itself(text: Path, home: Path):
    made = study(text, seeds=6, again=True)
    carried(made, home)
    verdicts = made.outcome(home).verdicts
    assert verdicts.noise is not None
    frame = made.outcome(home).results().set_index(["arm", "seed"])["test/loss"]
    d = [frame["control again", s] - frame["Learned", s] for s in range(6)]
    assert verdicts.noise.verdict.difference == pytest.approx(np.mean(d))
    assert verdicts.noise.verdict.sd > 0
    assert "control against itself" in verdicts._repr_html_()


def test_an_a_a_study_of_12_pairs_finds_nothing(text: Path, home: Path):
    short = ["train.steps=40", "evaluate.every=40"]
    made = study(text, *short, seeds=12, vary={"train.order": [1]}, margin="50%")
    carried(made, home, jobs=2)
    row = made.outcome(home).verdicts["order=1"]
    assert row.verdict.pairs == 12
    assert row.verdict.sd > 0
    assert row.verdict.verdict == "equivalent"
    strict = study(text, *short, seeds=12, vary={"train.order": [1]})
    carried(strict, home)
    assert strict.outcome(home).verdicts["order=1"].verdict.verdict == "unresolved"


def test_a_study_that_was_not_run_is_refused(text: Path, home: Path):
    with pytest.raises(InputError, match="has not been run here yet"):
        study(text).outcome(home)


def test_a_study_of_a_newer_format_is_refused(text: Path, home: Path):
    made = study(text, seeds=2)
    carried(made, home)
    path = folder_of(made, home) / "study.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(InputError, match="does not match its checksum"):
        made.outcome(home)
    path.write_text(path.read_text().replace('"checksum"', '"x"'))
    with pytest.raises(InputError, match="newer version of headtohead"):
        made.outcome(home)
    path.write_text("{")
    with pytest.raises(InputError, match="corrupt, or not written by headtohead"):
        made.outcome(home)


def test_five_pairs_are_described_without_a_verdict(text: Path, home: Path):
    made = study(text, "train.steps=30", seeds=5, vary={"train.optimizer.lr": [1e-6]})
    carried(made, home)
    row = made.outcome(home).verdicts["lr=1e-06"]
    assert row.verdict.low > 0  # clearly worse, and yet
    assert (row.verdict.verdict, row.verdict.descriptive) == ("unresolved", True)
    more = study(text, "train.steps=30", seeds=6, vary={"train.optimizer.lr": [1e-6]})
    carried(more, home)
    assert more.outcome(home).verdicts["lr=1e-06"].verdict.verdict == "worse"


def test_tokenizers_are_compared_by_bits_per_byte(text: Path, home: Path):
    made = study(text, seeds=2, vary={"tokenizer": ["Byte", "Character"]})
    carried(made, home)
    verdicts = made.outcome(home).verdicts
    assert verdicts.metric == "test/bits_per_byte"
    run = made.outcome(home).results().iloc[0]["run"]
    values = Record(home / "runs" / run).result.values
    assert made.outcome(home).results().iloc[0]["test/bits_per_byte"] == values["test/bits_per_byte"]
    assert not verdicts.notes


def test_different_test_texts_between_arms_give_a_note(text: Path, home: Path):
    made = study(text, seeds=2, vary={"data.test": [0.3]}, metric="test/bits_per_byte")
    carried(made, home)
    assert "measured on different texts" in made.outcome(home).verdicts.notes[0]


FAILS = """
from headtohead import Position

class Fails(Position):
    def build(self, dims):
        raise RuntimeError("it cannot be built")
"""


@pytest.fixture
def failing_part(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(FAILS)


def figures(made, home: Path) -> dict[str, dict]:
    """Of every arm that has a pair, without the time it took."""
    rows = {row.arm: row.to_json() for row in made.outcome(home).verdicts if row.verdict.pairs}
    return store.plain({arm: {k: v for k, v in row.items() if k != "extra_time"} for arm, row in rows.items()})


@pytest.mark.usefixtures("failing_part")
@pytest.mark.parametrize("seeds", [3, 6])
def test_an_arm_that_always_fails_changes_no_verdict(text: Path, home: Path, seeds: int):
    positions = ["Learned", "Rope", "NoPosition"]
    without = study(text, vary={"model.position": positions}, seeds=seeds, name="without")
    failing = study(text, vary={"model.position": [*positions, "fails.py:Fails"]}, seeds=seeds, name="failing")
    carried(without, home)
    carried(failing, home)
    assert figures(failing, home) == figures(without, home)
    verdicts = failing.outcome(home).verdicts
    assert [row.arm for row in verdicts] == ["Rope", "NoPosition", "Fails"]
    which = "6 pairs" if seeds >= 6 else "a pair"
    assert corrected_text(verdicts) == f"; intervals and p are corrected for the 2 arms that have {which}"
    assert corrected_text(verdicts) in lines_under(verdicts)[-1]
    shown = page(failing.outcome(home))
    assert corrected_text(verdicts) in shown
    assert "corrected for all 3 arms" not in shown


def test_an_arm_stopped_before_its_runs_changes_no_figure(text: Path, home: Path):
    """The planned analysis waits for it, so until then only the test for unplanned analyses can decide."""
    whole = study(text, seeds=6, name="whole")
    events = train_study(whole, Execution(device="cpu", jobs=1), home=home)
    assert next(e for e in events if isinstance(e, Finished))  # of the control's first seed
    events.close()
    small = study(text, vary={"model.position": ["Learned", "Rope"]}, seeds=6, name="small")
    carried(small, home)
    unfinished, complete = (s.outcome(home).verdicts["Rope"].verdict for s in (whole, small))
    for figure in ("difference", "sd", "p_alone", "alone_low", "alone_high", "agree", "correlation", "pairs"):
        assert getattr(unfinished, figure) == getattr(complete, figure), figure
    assert (unfinished.analysis, complete.analysis) == (0, 1)
    assert [row.verdict.pairs for row in whole.outcome(home).verdicts] == [6, 0]


@pytest.mark.usefixtures("failing_part")
def test_an_earlier_arm_that_never_trained_is_not_kept(text: Path, home: Path):
    carried(study(text, vary={"model.position": ["Learned", "Rope", "fails.py:Fails"]}, seeds=2), home)
    later = study(text, vary={"model.position": ["Learned", "NoPosition"]}, seeds=2)
    carried(later, home)
    found = [(row.arm, row.dropped) for row in later.outcome(home).verdicts]
    assert found == [("NoPosition", False), ("Rope", True)]


@pytest.mark.usefixtures("failing_part")
def test_an_earlier_version_that_never_trained_is_not_kept(text: Path, home: Path, tmp_path: Path):
    given = {"vary": {"model.position": ["Learned", "fails.py:Fails"]}, "seeds": 2}
    carried(study(text, **given), home)
    (tmp_path / "fails.py").write_text(FAILS.replace("it cannot", "it still cannot"))
    again = study(text, **given)
    carried(again, home)
    assert [(row.arm, row.dropped) for row in again.outcome(home).verdicts] == [("Fails", False)]


def test_a_study_of_the_control_alone_has_no_verdicts(text, home):
    what = study(text, vary=(), seeds=3, metric="validation/loss", again=True)
    assert [v.name for v in what.variants] == ["control"]
    carried(what, home)
    outcome = load_outcome(home / "studies" / "tiny")
    verdicts = outcome.verdicts
    assert len(verdicts) == 0
    values = [row.value for row in outcome.rows["", "control"]]
    assert verdicts.control_mean == pytest.approx(sum(values) / 3)
    assert len(outcome.again) == 3
    made = page(outcome)
    assert "control" in made
    assert what.outcome(home).verdicts._repr_html_()


def verdicts(made, home):
    carried(made, home)
    return load_outcome(folder_of(made, home)).verdicts


def value(home: Path, made: Study, arm: str, seed: int) -> float:
    """As the store has it, by the run that the arm's own spec names."""
    from headtohead.outcome.metrics import value_of
    from headtohead.run.store import Record
    from headtohead.training.arm import run_specs

    chosen = next(v.arm for v in made.variants if v.name == arm)
    spec = run_specs(chosen, [seed], "cpu", 1)[seed]
    return value_of(Record.at(home, spec.id).require_result(), made.measured)


def named(text, lr, **given):
    base = control(text)
    arms = {"mine": base.set("train.optimizer.lr", lr)}
    return study(text, vary=["train.optimizer.lr"], arms=arms, **{"seeds": 3} | given)


def test_an_edited_arm_keeps_its_earlier_version(text: Path, home: Path):
    first, then = named(text, 0.05), named(text, 1e-5)
    before = verdicts(first, home)["mine"].mean
    after = verdicts(then, home)
    assert [(row.arm, row.dropped) for row in after] == [("mine", False), ("mine (earlier version)", True)]
    assert after["mine"].mean == pytest.approx(np.mean([value(home, then, "mine", s) for s in range(3)]))
    assert after["mine (earlier version)"].mean == pytest.approx(before)
    assert after["mine"].mean != pytest.approx(before)
    frame = load_outcome(folder_of(then, home)).results()
    assert sorted(frame["arm"].unique()) == ["lr=0.003", "mine", "mine (earlier version)"]
    third = verdicts(first, home)  # and back again
    assert third["mine"].mean == pytest.approx(before)


def test_a_changed_text_gives_new_results(text: Path, home: Path):
    made = study(text, seeds=2, again=True)
    verdicts(made, home)
    text.write_text(text.read_text()[:6000])
    found = verdicts(made, home)
    assert [row.arm for row in found] == ["Rope", "NoPosition"]
    assert found.control_mean == pytest.approx(np.mean([value(home, made, "Learned", s) for s in range(2)]))
    assert found["Rope"].mean == pytest.approx(np.mean([value(home, made, "Rope", s) for s in range(2)]))


def test_other_threads_change_no_verdict(text: Path, home: Path):
    made = study(text, "evaluate.windows=4", seeds=2, vary={"model.position": ["Rope"]})
    once = verdicts(made, home)
    carried(made, home, threads=2)
    assert [row.arm for row in load_outcome(folder_of(made, home)).verdicts] == ["Rope"]
    assert verdicts(made, home).to_json() == once.to_json()


def test_pairs_of_earlier_seeds_stay(text: Path, home: Path):
    verdicts(study(text, seeds=[0, 1]), home)
    found = verdicts(study(text, seeds=[10, 11, 12]), home)
    assert [(row.arm, row.verdict.pairs) for row in found] == [("Rope", 5), ("NoPosition", 5)]
    again = verdicts(study(text, seeds=[1, 10, 13]), home)
    assert [row.verdict.pairs for row in again] == [6, 6]
    assert "seeds 0, 1, 10, 11, 12, 13" in again.scope


def test_a_dropped_arm_keeps_its_pairs(text: Path, home: Path):
    verdicts(study(text, seeds=2), home)
    found = verdicts(study(text, seeds=3, vary={"model.position": ["Rope"]}), home)
    assert [(row.arm, row.dropped, row.verdict.pairs) for row in found] == [("Rope", False, 3), ("NoPosition", True, 2)]


def test_arms_may_have_odd_names(text: Path, home: Path):
    base = control(text)
    arms = {"again": base.set("train.optimizer.lr", 0.05), "a/b": base.set("train.optimizer.lr", 0.02)}
    made = study(text, vary=["train.optimizer.lr"], arms=arms, seeds=2, again=True)
    found = verdicts(made, home)
    assert found["again"].mean == pytest.approx(np.mean([value(home, made, "again", s) for s in range(2)]))
    assert found.noise is not None
    assert "tuned" not in load_outcome(folder_of(made, home)).results().columns


def test_noise_uses_another_batch_order(text: Path, home: Path):
    found = verdicts(study(text, "train.order=1", seeds=2, again=True), home)
    assert found.noise.verdict.difference != 0


def test_arms_with_other_tokenizers_share_no_items(text: Path, home: Path):
    made = study(text, "evaluate.windows=5", vary={"tokenizer": ["Byte", "Character"]}, seeds=2)
    found = verdicts(made, home)
    assert found.arms[0].items is None
    assert any("evaluate.windows=5 is other text" in note for note in found.notes)


def test_a_huge_perplexity_is_left_out_by_name(text: Path, home: Path):
    made = study(
        text, vary={"train.optimizer.lr": [0.001, 3000.0]}, seeds=2, metric="validation/perplexity", name="huge"
    )
    found = verdicts(made, home)
    row = found.arms[0]
    said = "\n".join(lines_under(found))
    assert row.verdict.pairs + len(row.excluded) == 2
    if row.excluded:
        assert "pairs left out" in said


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("items.npz", b"PK torn", "items.npz has 7 bytes, not"),
        ("items.npz", None, "items.npz is missing"),
        ("result.json", b'{"status":"complete"}', "result.json cannot be read"),
        ("result.json", b'{"sta', "result.json cannot be read"),
        ("times.json", b"{", "times.json is missing or cannot be read"),
        ("metrics.jsonl", b"{torn\n", "metrics.jsonl has 6 bytes, not"),
        ("model.safetensors", b"torn", "model.safetensors has 4 bytes, not"),
        ("run.json", None, "run.json is missing"),
    ],
)
def test_a_damaged_run_is_named_and_left_out(text: Path, home: Path, name, content, says):
    made = study(text, seeds=3)
    carried(made, home)
    folder = folder_of(made, home)
    run = load_outcome(folder).record.tables[0].arms[1].runs[1]
    path = home / "runs" / run / name
    path.unlink() if content is None else path.write_bytes(content)
    found = load_outcome(folder).verdicts
    said = "\n".join(lines_under(found))
    assert f"run {run} is damaged: {says}" in said
    assert found["Rope"].verdict.pairs == 2
    assert found["NoPosition"].verdict.pairs == 3
    assert "NoPosition" in page(load_outcome(folder))
