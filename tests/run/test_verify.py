"""The whole store is checked: what is damaged is named with its remedy, set aside, and made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headtohead
from headtohead import InputError
from headtohead.run.store import Damaged, write_json
from headtohead.run.studies import read_study, write_study
from headtohead.study.execution import folder_of
from helpers.runs import results, run_on, trained_record
from helpers.studies import carried, study
from helpers.terminal import Type


def test_a_sound_store_has_no_problem(text: Path, home: Path, type_in: Type) -> None:
    carried(study(text, seeds=2, vary={"model.position": ["Learned", "Rope"]}), home)
    done = type_in("verify")
    assert (done.code, done.err) == (0, "")
    assert done.out == "checked 4 runs, 1 study file, 1 cache; damaged: 0\n"
    assert type_in("verify", "--json").json["sound"]
    assert headtohead.verify(["tiny"]).checked == {"study": 1, "run": 4}
    assert headtohead.verify(["tiny/Rope@1"]).checked == {"run": 1}


@pytest.mark.usefixtures("home")
def test_an_unknown_name_is_one_line(type_in: Type) -> None:
    assert type_in("verify").out == "checked nothing: the store is empty; damaged: 0\n"
    done = type_in("verify", "nosuch")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_a_damaged_run_is_repaired_to_the_same_bits(text: Path, home: Path, type_in: Type) -> None:
    record = trained_record(run_on(text, "train.steps=4"), home)
    wanted = results(record.folder)
    os.truncate(record.folder / "model.safetensors", 100)
    done = type_in("verify", record.id[:6])
    assert done.code == 1
    assert f"run {record.id}: model.safetensors has 100 bytes" in done.out
    assert f"h2h verify {record.id} --repair sets it aside and trains it again" in done.out
    done = type_in("verify", "--repair", "--json")
    assert (done.code, done.json["sound"]) == (0, True)
    assert done.json["problems"][0]["repaired"] == f"kept as {record.id}.damaged-1, and trained again"
    assert results(record.folder) == wanted
    assert len(list((home / "runs" / f"{record.id}.damaged-1").iterdir())) >= 8
    assert type_in("verify").code == 0
    assert [row["run"] for row in type_in("list", "runs", "--json").json] == [record.id]


def test_a_run_without_its_spec_is_set_aside(text: Path, home: Path, type_in: Type) -> None:
    record = trained_record(run_on(text, "train.steps=2"), home)
    (record.folder / "run.json").write_text("{")
    done = type_in("verify", "--repair")
    assert done.code == 0
    assert f"kept as {record.id}.damaged-1; train it again with the command that made it" in done.out
    with pytest.raises(InputError, match="there are no runs"):
        headtohead.find_run(record.id)


def test_swapped_run_folders_are_named(text: Path, home: Path) -> None:
    a, b = (trained_record(run_on(text, "train.steps=2", seed=seed), home).folder for seed in (0, 1))
    shutil.move(a, home / "between")
    shutil.move(b, a)
    shutil.move(home / "between", b)
    assert {p.name for p in headtohead.verify().problems} == {a.name, b.name}


def test_a_damaged_study_is_kept_before_it_is_written(text: Path, home: Path, capsys) -> None:
    made = study(text, seeds=2, vary={"model.position": ["Learned", "Rope"]})
    carried(made, home)
    folder = folder_of(made, home)
    record, path = read_study(folder), folder / "study.json"
    edited = path.read_text().replace('"test/loss"', '"test/perplexity"')
    path.write_text(edited)
    assert "does not match its checksum" in headtohead.verify(["tiny"]).problems[0].problem
    with pytest.raises(Damaged, match="set it aside and run the study again"):
        read_study(folder)
    write_study(folder, record)
    assert (folder / "study.json.damaged-1").read_text() == edited
    assert "study.json is damaged: it is kept as study.json.damaged-1" in capsys.readouterr().err
    assert headtohead.verify().is_sound


def test_a_run_that_cannot_be_trained_again_stays(text: Path, home: Path) -> None:
    record = trained_record(run_on(text), home)
    (record.folder / "model.safetensors").write_bytes(b"torn")
    text.unlink()
    code = "import sys; from headtohead.cli import main; sys.argv = ['h2h', 'verify', '--repair']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)  # with no text in memory
    assert done.returncode == 1
    assert "it could not be repaired: no file " in done.stdout
    assert [path.name for path in (home / "runs").iterdir()] == [record.id]


def test_a_damaged_study_is_set_aside_by_repair(text: Path, home: Path, type_in: Type) -> None:
    made = study(text, seeds=2, vary={"model.position": ["Learned", "Rope"]})
    carried(made, home)
    (folder_of(made, home) / "study.json").write_text("{")
    assert type_in("report", "tiny").code == 2
    done = type_in("verify", "--repair")
    assert "repaired: kept as study.json.damaged-1" in done.out
    carried(made, home)
    assert type_in("verify").code == 0


def test_a_record_is_written_with_its_checksum(tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", {"b": 1, "a": float("inf")})
    assert list(json.loads((tmp_path / "plan.json").read_text())) == ["b", "a", "checksum"]


@pytest.mark.parametrize("name", ["train.bin", "facts.json", "checksums.json"])
def test_a_damaged_cache_is_made_again(name: str, text: Path, home: Path, tmp_path: Path, type_in: Type) -> None:
    first = trained_record(run_on(text, "train.steps=2"), home)
    wanted = results(first.folder)
    path = next(tmp_path.glob(f"cache/tokens/*/{name}"))
    path.write_bytes(path.read_bytes()[:-2] + b"xx")
    done = type_in("verify")
    assert (done.code, "it is made again when it is needed" in done.out) == (1, True)
    shutil.rmtree(home)
    assert results(trained_record(run_on(text, "train.steps=2"), home).folder) == wanted
    assert type_in("verify").code == 0


def test_a_cache_of_an_older_version_is_made_again(text: Path, home: Path, tmp_path: Path, capsys) -> None:
    trained_record(run_on(text, "train.steps=2"), home)
    next(tmp_path.glob("cache/tokens/*/checksums.json")).unlink()
    trained_record(run_on(text, "train.steps=3"), home)
    assert "has no checksums: made again" in capsys.readouterr().err
    assert headtohead.verify().is_sound
