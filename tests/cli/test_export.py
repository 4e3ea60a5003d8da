"""`h2h export` with tables of a study. Models are exported in tests/export/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from helpers.stores import stored
from helpers.terminal import Type


def test_a_study_is_exported_and_checked(home: Path, type_in: Type):
    outcome = stored(home, seeds=6)
    done = type_in("export", "latest", "--csv")
    assert done.code == 0, done.err
    assert done.out.startswith(
        "wrote stored-export: long.csv, runs.csv, design.csv, verdicts.csv, verdicts.py, verdicts.R"
    )
    assert len(pd.read_csv("stored-export/long.csv")) == len(outcome.long())
    command = done.out.partition("check the verdicts: python ")[2].split()[0]
    checked = subprocess.run([sys.executable, command], capture_output=True, text=True, timeout=60, check=True)
    assert checked.stdout.count("as headtohead") == 2
    told = type_in("export", "stored", "tables/mine", "--parquet", "--items", "--json").json
    assert told["study"] == "stored"
    assert sorted(told["files"]) == sorted(os.path.join("tables/mine", name) for name in os.listdir("tables/mine"))
    assert len(pd.read_parquet("tables/mine/long.parquet")) == len(outcome.long(items=True))


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["nothing", "--csv"], "no study 'nothing' in ", 2),
        (
            ["RUN", "--csv"],
            "is a run, and --csv exports a study: give its name (h2h list studies), or leave out --csv",
            2,
        ),
        (["stored/Rope@1", "--parquet"], "stored/Rope@1 is a run, and --parquet exports a study", 2),
        (
            ["stored", "--csv", "--parquet"],
            "--csv and --parquet are two formats of the same table: give one of them",
            2,
        ),
        (["stored", "--csv", "--step", "3"], "a study is exported without models: leave out --step", 2),
        (["stored", "--items"], "--items belongs to the table of a study: add --csv or --parquet", 2),
        (["latest"], "give a new folder for the model: h2h export latest FOLDER", 2),
        (["nothing.py", "--csv"], "nothing.py", 2),
        (["stored", ".", "--csv"], ". exists and is not empty: give a new folder, or empty this one", 2),
        (["stored", "/proc/tables", "--csv"], "cannot write /proc/tables: No such file or directory; give a folder", 3),
    ],
)
def test_what_cannot_be_exported_is_one_line(home: Path, type_in: Type, arguments: list[str], says: str, code: int):
    outcome = stored(home, seeds=2)
    before = sorted(Path().iterdir())
    done = type_in("export", *(outcome.record.runs[0][:7] if word == "RUN" else word for word in arguments))
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done
    assert says in done.err
    assert sorted(Path().iterdir()) == before


def test_no_studies_is_one_line(type_in: Type):
    done = type_in("export", "latest", "--csv")
    assert done.code == 2
    assert "there are no studies in" in done.err


def test_parquet_without_pyarrow_is_one_line(home: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch):
    stored(home, seeds=2)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = type_in("export", "stored", "--parquet")
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "a parquet file needs the extra parquet: pip install 'headtohead[parquet]'" in done.err
