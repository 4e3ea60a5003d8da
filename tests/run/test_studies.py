"""Studies in the store, found by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.disk.checksums import with_checksum
from headtohead.run.store import Record
from headtohead.run.studies import AnalysisRecord, find_study, read_study, write_study
from headtohead.stats import Design
from headtohead.study.execution import folder_of
from helpers.stores import stored
from helpers.studies import carried, study
from helpers.terminal import h2h

SETTINGS = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=3"]


def test_an_incomplete_study_file_is_one_line(text: Path, home: Path):
    made = study(text, seeds=2)
    carried(made, home)
    (folder_of(made, home) / "study.json").write_text('{"format": 1}')
    for command in (["report", "tiny"], ["list", "studies"]):
        done = h2h(*command)
        assert "Traceback" not in done.err + done.out
        assert "cannot be read" in done.err + done.out


def test_latest_is_the_study_that_was_run_last(text: Path, home: Path):
    for name in ("one", "other"):
        recipe = Path(f"{name}.py")
        recipe.write_text(
            "from headtohead import Arm, Files, Study\n"
            f"base = Arm.of('lm', Files(path={str(text)!r})).settings({SETTINGS!r})\n"
            f"study = Study(question='?', control=base, vary={{'model.heads': [1, 2]}}, seeds=2, again=False)\n"
        )
        assert h2h("run", recipe, "--jobs", 1).code == 0
    assert find_study("latest", home).name == "other"
    done = h2h("run", "one.py", "--jobs", 1, "--json")
    assert find_study("latest", home).name == "one"
    assert json.loads(done.out)["tables"][0]["arms"][0]["arm"] == "heads=1"
    done = h2h("run", "one.py", "--effect", "50%", "--seeds", "9")
    assert done.code == 2
    assert "leave out --seeds" in done.err


# -- what study.json may not hold --------------------------------------------------------------------------------------

SHOWN = {"when": "now", "pairs": {"Rope": 6}, "metric": "test/loss", "margin": None, "verdicts": {"Rope": "better"}}
WRONG = {
    "design": [[], "x", 5, {"analyses": []}, {"analyses": [8, 6]}, {"analyses": [6.5]}, {"analyses": ["6"]}],
    "history": ["x", 5, [5], [{}], [{**SHOWN, "pairs": {"Rope": "six"}}], [{**SHOWN, "margin": []}]],
    "later": [5, [5]],
    "asked_by": [[None]],
    "published": ["x", []],
    "locked": [5],
    "chaos": [5, [], {"a": "b"}],
    "seeds": ["x", 5, [1.5], []],
    "tables": [[], [{}], [{"title": "", "arms": []}]],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_value_of_a_wrong_type_is_one_line(home: Path, field: str, value: object):
    folder = stored(home, design={"analyses": [6]}, history=[SHOWN]).folder
    data = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**data, field: value}))
    with pytest.raises(InputError, match=r"study\.json cannot be read: it is corrupt.*run the study again$"):
        read_study(folder)


@pytest.mark.parametrize("given", [{"alpha": 7}, {"alpha": "x"}, {"rule": "z"}, {"reserve": "x"}, {"odd": 1}])
def test_a_wrong_design_is_one_line(home: Path, given: dict):
    folder = stored(home).folder
    data = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**data, "design": {"analyses": [6], **given}}))
    with pytest.raises(InputError, match="cannot be read"):
        read_study(folder)


def test_a_study_is_read_as_it_was_written(home: Path):
    design = {"analyses": [6, 8], "reserve": 0.0, "rule": "t", "alpha": 0.05}
    given = {"design": design, "history": [SHOWN], "later": ["Rope"], "asked_by": ["test/f1"], "published": -0.1}
    record = stored(home, **given, locked="abc", chaos={"0": "abc0"}).record
    assert record.design == Design((6, 8), reserve=0.0, rule="t")
    assert record.history == (AnalysisRecord(**SHOWN),)
    assert (record.later, record.asked_by, record.published) == (("Rope",), ("test/f1",), -0.1)
    assert (record.locked, record.chaos) == ("abc", {0: "abc0"})
    write_study(home / "studies" / "other", record)
    assert read_study(home / "studies" / "other") == record


def test_a_study_of_an_older_version_has_one_analysis(home: Path):
    record = stored(home).record
    assert record.design is None
    assert record.planned == Design((6,))
    assert not {"design", "history", "later", "locked", "chaos"} & set(record.to_json())


@pytest.mark.parametrize("run", ["../../outside", "/etc", "..", "", "abc/../def", "ABC", "a" * 65])
def test_an_id_that_could_be_a_path_is_refused(run: str, home: Path) -> None:
    """The ids of runs in study.json become paths, and somebody else may have written the file."""
    outcome = stored(home, {"Slow": -0.1}, seeds=2, again=False)
    path = outcome.folder / "study.json"
    data = json.loads(path.read_text())
    data["tables"][0]["arms"][1]["runs"]["0"] = run
    path.write_text(json.dumps(with_checksum(data)))
    with pytest.raises(InputError, match="cannot be read"):
        read_study(outcome.folder)
    with pytest.raises(InputError, match="is no id of a run"):
        Record.at(home, run)
