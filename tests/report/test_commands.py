"""`h2h report` as a stranger types it, on studies that were really trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headtohead import Arm, Files
from headtohead.outcome import load_outcome
from headtohead.report.extras import Extras
from headtohead.report.page import page
from headtohead.report_commands import look_into, read_heads
from headtohead.study import Study
from report.conftest import Open
from report.stored import stored
from runs.small import h2h
from study.small import carried, study


def looked(folder: Path, heads: str | None = None) -> Extras:
    *_, found = look_into(load_outcome(folder), read_heads(heads), None, "the")
    assert isinstance(found, Extras)
    return found


def folder(home: Path) -> Path:
    return home / "studies" / "tiny"


def test_a_language_model_is_looked_into(text: Path, home: Path, opened: Open):
    carried(study(text, "model.layers=2", "evaluate.snapshots=3", seeds=2), home)
    found = looked(folder(home))
    assert [a.arm for a in found.audits] == ["Learned", "Rope", "NoPosition"]
    assert all("proved, 0 broken" in a.summary and not a.broken for a in found.audits)
    assert [p.title for p in found.maps] == [f"{arm}, seed 0" for arm in ("Learned", "Rope", "NoPosition")]
    assert len(found.evolution) == 3
    assert [layer for layer, _ in found.evolution[0].heads] == [0, 1]
    assert found.evolution[0].values["entropy"].shape == (3, 2, 2)
    assert {s.prompt for s in found.samples} == {"the"}
    assert all(s.text for s in found.samples)
    assert found.absent == {}
    chosen = looked(folder(home), "1.0,0.1")
    assert chosen.evolution[0].heads == ((1, 0), (0, 1))
    assert "layer 1 head 0" in chosen.maps[0].says
    tab = opened(page(load_outcome(folder(home)), found))
    assert tab.locator("#attention ~ figure img").count() == 3
    assert tab.evaluate("[...document.images].every(i => i.naturalWidth > 100 && i.alt)")


def test_the_same_chances_for_every_arm(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    assert looked(folder(home)).samples == looked(folder(home)).samples


def test_a_leak_is_an_alarm(text: Path, home: Path):
    carried(study(text, vary={"model.fusion": ["Concat", "Reweight(over=sequence)"]}, seeds=2), home)
    found = looked(folder(home))
    assert not found.audits[0].broken
    assert any("later token" in claim for claim, _, _ in found.audits[1].broken)
    html = page(load_outcome(folder(home)), found)
    assert "The audit breaks Reweight(over=&#39;sequence&#39;):" in html
    assert "its figures mean nothing" in html  # the run's own warning


def test_what_is_not_there_is_said(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    found = looked(folder(home))
    assert "evaluate.snapshots=20" in found.absent["evolution"]
    with pytest.raises(Exception, match="--heads takes"):
        read_heads("1,2")
    for file in (home / "runs").glob("*/model.safetensors"):
        file.unlink()
    found = looked(folder(home))
    assert found.maps == found.samples == found.evolution == ()
    assert "No run of this study has its weights here" in found.absent["maps"]
    assert "No run of this study has its weights here" in page(load_outcome(folder(home)), found)
    assert len(found.audits) == 3


def test_heads_that_no_arm_has_are_refused_at_once(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    done = h2h("report", "tiny", "--heads", "0.0,9.9")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "no arm has the head 9.9: layers are 0 to " in done.err
    assert not (folder(home) / "report.html").exists()


def test_heads_that_some_arms_lack_are_said_once(text: Path, home: Path):
    carried(study(text, "evaluate.snapshots=3", vary={"model.layers": [2, 1]}, seeds=2), home)
    for heads, maps in (("1.0", 1), ("0.0,1.0", 2)):
        found = looked(folder(home), heads)
        assert len(found.maps) == maps
        assert len(found.evolution) == 1
        said = " ".join(found.absent.values())
        assert len(re.findall(r"has no head 1\.\d\.", said)) == 1
        assert "no run kept weights" not in said


def test_many_arms_are_looked_into_on_demand(home: Path):
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


def test_damaged_weights_cost_their_arm_alone(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    outcome = load_outcome(folder(home))
    run = outcome.rows["", "Rope"][0].run
    (home / "runs" / run / "model.safetensors").write_bytes(b"torn")
    found = looked(folder(home))
    assert [p.title.partition(",")[0] for p in found.maps] == ["Learned", "NoPosition"]
    assert "Left out: Rope: " in found.absent["maps"]


def test_a_classifier_has_confusions_and_no_samples(table: Path, home: Path):
    control = Arm.of("classifier", Files(path=str(table))).settings(
        ["model.width=16", "model.layers=1", "train.epochs=1", "data.validation=0.2"]
    )
    carried(Study("Which?", control, {"model.pooling": ["Mean", "Max"]}, seeds=2, name="tiny", again=False), home)
    found = looked(folder(home))
    assert found.samples == ()
    assert len(found.maps) == 2
    html = page(load_outcome(folder(home)), found)
    assert 'id="samples"' not in html
    assert "classifier" in html


def test_the_command(text: Path, home: Path, tmp_path: Path):
    carried(study(text, seeds=2), home)
    done = h2h("report", "tiny", "--heads", "0.1", "--prompt", "we", "--figures", "figures", "--pdf")
    assert done.code == 0, done.err
    report = Path(re.search("report: (.*)", done.out)[1])
    assert "layer 0 head 1" in report.read_text()
    assert Path(re.search("pdf: (.*)", done.out)[1]).read_bytes().startswith(b"%PDF")
    assert (tmp_path / "figures" / "forest.pdf").is_file()
    quick = h2h("report", "tiny", "--quick", "--json").json
    assert quick["report"] == str(report)
    assert "Not audited here" in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--heads", "x"], "--heads takes LAYER.HEAD"),
        (["--quick", "--heads", "0.0"], "--quick looks into no model: leave out --heads"),
        (["nothing"], "no study 'nothing'"),
        (["--heads", "9.9"], "no arm has the head 9.9"),
    ],
)
def test_what_cannot_be_done_is_one_line(home: Path, arguments: list[str], says: str):
    stored(home)
    done = h2h("report", *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert says in done.err


@pytest.mark.parametrize(
    ("where", "says"), [("/proc/x", "No such file"), ("/etc/passwd", "it is a file"), ("/etc/passwd/x", "Not a dir")]
)
def test_a_folder_for_figures_that_cannot_be_is_one_line(home: Path, where: str, says: str):
    stored(home)
    done = h2h("report", "--quick", "--figures", where)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert f"cannot write figures into {where}: {says}" in done.err
    assert done.err.endswith("give --figures a folder of yours\n")
    assert not list(home.glob("studies/*/report.html"))  # said before the work


def test_a_folder_in_the_place_of_the_report_is_one_line(home: Path):
    path = stored(home).folder / "report.html"
    path.mkdir()
    done = h2h("report", "--quick")
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "report.html: it is a folder; rename or remove it" in done.err
    assert not list(path.parent.glob(".*"))


def test_no_browser_is_said_before_the_work(home: Path, monkeypatch: pytest.MonkeyPatch):
    stored(home)
    monkeypatch.setenv("PATH", "/nowhere")
    done = h2h("report", "--pdf")
    assert done.code == 3
    assert "install one" in done.err
    assert not list(home.glob("studies/*/report.html"))
