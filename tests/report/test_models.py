"""What a report computes from the trained models: audits, maps, evolution and samples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headtohead import Arm, Files
from headtohead.outcome.outcome import load_outcome
from headtohead.report.findings import Extras
from headtohead.report.models import look_into, read_heads
from headtohead.report.page import page
from headtohead.study.study import Study
from helpers.browser import Open
from helpers.runs import without_checksums
from helpers.stores import stored
from helpers.studies import carried, study


def looked(folder: Path, heads: str | None = None) -> Extras:
    *_, found = look_into(load_outcome(folder), read_heads(heads), None, "the")
    assert isinstance(found, Extras)
    return found


def test_report_of_a_language_model_has_maps_and_samples(text: Path, home: Path, opened: Open):
    carried(study(text, "model.layers=2", "evaluate.snapshots=3", seeds=2), home)
    found = looked(home / "studies" / "tiny")
    assert [a.arm for a in found.audits] == ["Learned", "Rope", "NoPosition"]
    assert all("proved, 0 broken" in a.summary and not a.broken for a in found.audits)
    assert [p.title for p in found.maps] == [f"{arm}, seed 0" for arm in ("Learned", "Rope", "NoPosition")]
    assert len(found.evolution) == 3
    assert [layer for layer, _ in found.evolution[0].heads] == [0, 1]
    assert found.evolution[0].values["entropy"].shape == (3, 2, 2)
    assert {s.prompt for s in found.samples} == {"the"}
    assert all(s.text for s in found.samples)
    assert found.absent == {}
    chosen = looked(home / "studies" / "tiny", "1.0,0.1")
    assert chosen.evolution[0].heads == ((1, 0), (0, 1))
    assert "layer 1 head 0" in chosen.maps[0].says
    tab = opened(page(load_outcome(home / "studies" / "tiny"), found))
    assert tab.locator("#attention ~ figure img").count() == 3
    assert tab.evaluate("[...document.images].every(i => i.naturalWidth > 100 && i.alt)")


def test_samples_repeat_with_the_same_random_stream(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    assert looked(home / "studies" / "tiny").samples == looked(home / "studies" / "tiny").samples


def test_leaking_arm_is_marked_broken_in_the_report(text: Path, home: Path):
    carried(study(text, vary={"model.fusion": ["Concat", "Reweight(over=sequence)"]}, seeds=2), home)
    found = looked(home / "studies" / "tiny")
    assert not found.audits[0].broken
    assert any("later token" in claim for claim, _, _ in found.audits[1].broken)
    html = page(load_outcome(home / "studies" / "tiny"), found)
    assert "The audit breaks Reweight(over=&#39;sequence&#39;):" in html
    assert "its losses mean nothing" in html  # the run's own warning


def test_absent_snapshots_and_weights_are_named(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    found = looked(home / "studies" / "tiny")
    assert "evaluate.snapshots=20" in found.absent["evolution"]
    with pytest.raises(Exception, match="--heads takes"):
        read_heads("1,2")
    for file in (home / "runs").glob("*/model.safetensors"):
        file.unlink()
    found = looked(home / "studies" / "tiny")
    assert found.maps == found.samples == found.evolution == ()
    assert "No run of this study has its weights here" in found.absent["maps"]
    assert "No run of this study has its weights here" in page(load_outcome(home / "studies" / "tiny"), found)
    assert len(found.audits) == 3


def test_a_head_that_some_arms_lack_is_named_once(text: Path, home: Path):
    carried(study(text, "evaluate.snapshots=3", vary={"model.layers": [2, 1]}, seeds=2), home)
    for heads, maps in (("1.0", 1), ("0.0,1.0", 2)):
        found = looked(home / "studies" / "tiny", heads)
        assert len(found.maps) == maps
        assert len(found.evolution) == 1
        said = " ".join(found.absent.values())
        assert len(re.findall(r"has no head 1\.\d\.", said)) == 1
        assert "no run kept weights" not in said


def test_more_arms_are_examined_on_demand(home: Path):
    outcome = stored(home, {f"arm {n}": 0.0 for n in range(3)}, again=False)
    *_, few = look_into(outcome, most=2)
    assert isinstance(few, Extras)
    assert len(few.audits) == 2
    assert few.absent["audit"] == "The first 2 of 4 arms are looked into here; h2h report --arms 4 does all."
    assert len(list((home / "audits").iterdir())) == 2  # kept with the runs
    *_, more = look_into(outcome, most=4)
    assert isinstance(more, Extras)
    assert len(more.audits) == 4
    assert more.audits[:2] == few.audits
    assert len(list((home / "audits").iterdir())) == 4
    assert "audit" not in more.absent


def test_damaged_weights_leave_out_only_their_arm(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    outcome = load_outcome(home / "studies" / "tiny")
    for row in outcome.rows["", "Rope"]:
        folder = without_checksums(home / "runs" / row.run)
        (folder / "model.safetensors").write_bytes(b"torn")
    found = looked(home / "studies" / "tiny")
    assert [p.title.partition(",")[0] for p in found.maps] == ["Learned", "NoPosition"]
    assert "Left out: Rope: " in found.absent["maps"]


def test_a_classifier_has_confusions_and_no_samples(table: Path, home: Path):
    control = Arm.of("classifier", Files(path=str(table))).settings(
        ["model.width=16", "model.layers=1", "train.epochs=2", "train.optimizer.lr=0.01", "data.validation=0.2"]
    )
    carried(Study("Which?", control, {"model.pooling": ["Mean", "Max"]}, seeds=2, name="tiny", again=False), home)
    found = looked(home / "studies" / "tiny")
    assert found.samples == ()
    assert len(found.maps) == 2
    html = page(load_outcome(home / "studies" / "tiny"), found)
    assert 'id="samples"' not in html
    assert "classifier" in html
