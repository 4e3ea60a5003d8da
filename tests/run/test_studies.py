"""Studies in the store, found by name."""

from __future__ import annotations

import json
from pathlib import Path

from headtohead.run.studies import find_study
from headtohead.study.execution import folder_of
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
