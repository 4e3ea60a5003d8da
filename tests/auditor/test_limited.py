"""Audits with limits: modules that do not end or end their process, and a folder of submissions."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from helpers.terminal import h2h

SOUND = """
import os, sys
from torch import nn

print("at import")

class Model(nn.Module):
    def __init__(self, vocab=20, width=8):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab, width), nn.Linear(width, vocab)

    def forward(self, ids):
        HERE
        return self.out(self.embed(ids))
"""
BODIES = {
    "sound.py": "print('called')",
    "loops.py": "while len(ids) == 4: pass",
    "leaves.py": "len(ids) == 4 and os._exit(0)",
    "leaky.py": "return self.out(self.embed(ids) + self.embed(ids).mean(dim=1, keepdim=True))",
    "syntax.py": "return (",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, body in BODIES.items():
        (tmp_path / name).write_text(SOUND.replace("HERE", body))
    return tmp_path


def test_what_a_module_prints_goes_to_standard_error(folder: Path) -> None:
    done = h2h("audit", f"{folder}/sound.py:Model", "--causal", "--json", "--only", "finite")
    assert done.code == 0
    (report,) = json.loads(done.out)
    assert [f["status"] for f in report["findings"]] == ["proved"]


@pytest.mark.parametrize(("file", "says"), [("loops", "did not end within 3 seconds"), ("leaves", "exit code 0")])
def test_a_module_that_does_not_end_breaks_one_claim(file: str, says: str, folder: Path) -> None:
    done = h2h("audit", f"{folder}/{file}.py:Model", "--causal", "--timeout", "3", "--json")
    assert done.code == 1
    (finding,) = done.json[0]["findings"]
    assert (finding["check"], finding["status"]) == ("ends", "broken")
    assert says in finding["evidence"]


def test_a_folder_of_submissions_becomes_a_table(folder: Path) -> None:
    options = ("--causal", "--timeout", "5", "--only", "finite", "--only", "future-tokens", "--jobs", "1")
    done = h2h("audit", f"{folder}", "--each", "Model", *options, "--csv", f"{folder}/audit.csv")
    assert done.code == 1
    rows = {row["submission"]: row for row in csv.DictReader(io.StringIO((folder / "audit.csv").read_text()))}
    assert rows.keys() == BODIES.keys()
    assert rows["sound.py"]["ok"] == "yes"
    assert rows["leaky.py"]["future-tokens"] == "broken"
    assert rows["loops.py"]["ends"] == rows["leaves.py"]["ends"] == "broken"
    assert "SyntaxError" in rows["syntax.py"]["error"]
    assert "leaky.py" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("FOLDER/sound.py:Model", "--skip", "cach"), "did you mean cache?"),
        (("FOLDER/sound.py:Model", "--only", "cache", "--skip", "cache"), "--skip leaves no check to run"),
        (("FOLDER", "--each", "Model()"), "give FILE.py:CLASS"),
        (("FOLDER/none", "--each", "Model"), "needs a folder of submissions"),
        (("FOLDER/sound.py:Model", "--csv", "x.csv"), "--csv needs --each"),
        (("FOLDER/sound.py:Model", "--reference", "nowhere"), "give file.py:Class"),
        (("--all", "--timeout", "9"), "--timeout needs a name"),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], says: str, folder: Path) -> None:
    done = h2h("audit", *(word.replace("FOLDER", str(folder)) for word in arguments))
    assert done.code == 2
    assert says in done.err
    assert done.err.splitlines()[-1].startswith("h2h: ")
    assert "Traceback" not in done.err


def test_a_file_name_that_is_no_text_does_not_stop_the_table(folder: Path) -> None:
    class_of = folder / "class"
    class_of.mkdir()
    try:
        (class_of / os.fsdecode(b"M\xfcller.py")).write_text((folder / "sound.py").read_text())
    except OSError:
        pytest.skip("this file system has names in UTF-8 only")
    done = h2h("audit", f"{class_of}", "--each", "Model", "--only", "finite", "--csv", f"{folder}/audit.csv")
    assert done.code == 1
    assert "M\\udcfcller.py,no" in (folder / "audit.csv").read_text()
