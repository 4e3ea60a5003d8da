"""Stores that somebody else wrote: whatever their JSON names, reading them runs no code."""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.spec import trust
from headtohead.spec.statements import digest
from headtohead.spec.userfiles import copy_name
from helpers.corpora import write_text
from helpers.hostile import Attempt, Lab, Trick, drawn, knobs_at, places, replaced, tricks, write_copies
from helpers.runs import resealed, without_checksums
from helpers.studies import carried, study

NORMAL, SLOW = 70, 2000  # cases of code in JSON
LISTS: list[list[str]] = [
    ["list", "runs"],
    ["list", "runs", "--json"],
    ["list", "runs", "--study", "tiny"],
    ["list", "runs", "--where", "model.position=Evil"],
    ["list", "studies"],
    ["list", "recipes"],
    ["list", "settings", "RUN"],
    ["table", "RUN"],
    ["table", "tiny"],
    ["curves", "RUN"],
    ["trust", "RUN"],
    ["trust", "tiny", "--json"],
    ["trust", "--list"],
]
MODELS: list[list[str]] = [
    ["score", "RUN", "we the people"],
    ["classify", "RUN", "we"],
    ["generate", "RUN", "we", "--tokens", "2"],
    ["attend", "RUN", "we the people"],
    ["attend", "tiny/Learned@0", "we the people", "--compare", "RUN"],
    ["attend", "RUN", "--evolution"],
    ["heads", "RUN", "--items", "2"],
    ["export", "RUN", "exported"],
    ["train", "--resume", "RUN"],
    ["list", "parameters", "RUN"],
]
STUDY: list[list[str]] = [["report", "tiny", "--quick", "--again"], ["report", "tiny", "--again"]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a tiny study, as it should be."""
    folder = tmp_path_factory.mktemp("sound")
    text = write_text(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        carried(study(text, seeds=2), folder / "home")
    return folder


class Target:
    """A copy of the store, one run and one study of which are made hostile."""

    def __init__(self, sound: Path, lab: Lab) -> None:
        self.sound, self.lab = sound, lab
        self.home = lab.folder / "cwd" / "home"
        shutil.copytree(sound / "home", self.home)
        record = json.loads((self.home / "studies" / "tiny" / "study.json").read_text())
        self.run: str = record["tables"][0]["arms"][1]["runs"]["0"]
        self.folder = without_checksums(self.home / "runs" / self.run)  # as an older version wrote it

    def restore(self, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.home / name, ignore_errors=True)
            shutil.copytree(self.sound / "home" / name, self.home / name)
        without_checksums(self.folder)
        shutil.rmtree(self.lab.folder / "cwd" / "exported", ignore_errors=True)

    def typed(self, command: list[str]) -> list[str]:
        return [self.run if word == "RUN" else word for word in command]

    def json_of(self, file: Path) -> Any:
        return json.loads(file.read_text())


@pytest.fixture
def target(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Any) -> Target:
    lab = counted(Lab(tmp_path))
    (tmp_path / "cwd").mkdir()
    found = Target(sound, lab)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HEADTOHEAD_HOME", str(found.home))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(sound / "cache"))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    return found


def code_in_json(target: Target, attempt: Attempt, count: int, seed: int) -> None:
    """Code at every place of run.json and study.json, named in every way; a few random commands read each case."""
    rng, lab = random.Random(seed), target.lab
    run_json, study_json = target.folder / "run.json", target.home / "studies" / "tiny" / "study.json"
    sound_run, sound_study = target.json_of(run_json), target.json_of(study_json)
    del sound_study["checksum"]
    where = list(places(sound_run))
    assert len(where) > 60
    ways = tricks(lab)
    for number, (trick, place) in enumerate(zip(drawn(rng, ways, count), drawn(rng, where, count), strict=True)):
        if number < len(ways):
            place = ("arm", "model", "position")  # each way once where it is most likely to work
        part = json.loads(json.dumps(trick.part).replace("home/runs/RUN", f"home/runs/{target.run}"))
        knobs = knobs_at(sound_run, place)
        part = {**(knobs or {}), **part}  # a spec of the user's own has the knobs of the one that it replaces
        what = f"seed {seed}, case {number}: {trick.name} at {'.'.join(map(str, place)) or 'the top'}"
        run_json.write_text(json.dumps(replaced(sound_run, place, part)))
        arms = sound_study["tables"][0]["arms"]
        in_study = place[0] == "arm" and rng.random() < 0.5 if place else False
        if in_study:
            arm = replaced(arms[1]["spec"], place[1:], part) if place[1:] else part
            study_json.write_text(json.dumps(replaced(sound_study, ("tables", 0, "arms", 1, "spec"), arm)))
        write_copies(trick, target.folder)
        if number % 2 and not trick.links:
            resealed(target.folder)  # the attacker has written checksums that match
        for command in rng.sample(MODELS, 2):
            attempt(lab, what, *target.typed(command), codes={2, 3})
        if knobs is not None:  # a knob with a wrong value is another matter
            for command in (rng.choice(LISTS), *([rng.choice(STUDY)] if number % 30 == 0 else [])):
                attempt(lab, what, *target.typed(command))
        without_checksums(target.folder)
        if in_study:
            study_json.write_text(json.dumps(sound_study))
        shutil.rmtree(lab.folder / "cwd" / "exported", ignore_errors=True)
    assert trust.approvals() == {}, "reading approves nothing"


def test_code_in_json_never_runs(target: Target, attempt: Attempt) -> None:
    code_in_json(target, attempt, NORMAL, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_code_in_json_never_runs_many(target: Target, attempt: Attempt, seed: int) -> None:
    code_in_json(target, attempt, SLOW, seed)


def test_every_command_reads_a_hostile_run(target: Target, attempt: Attempt) -> None:
    """One plain case, every command."""
    run_json = target.folder / "run.json"
    (trick, *_) = tricks(target.lab)
    run_json.write_text(json.dumps(replaced(target.json_of(run_json), ("arm", "model", "position"), trick.part)))
    for command in (*LISTS, *MODELS, *STUDY):
        code = attempt(target.lab, trick.name, *target.typed(command))
        if command in MODELS:
            assert code == 3, command
        elif command[0] in ("list", "report"):
            assert code == 0, command


# -- approved code, and what an attacker makes of it -------------------------------------------------------------------


def test_the_rest_of_a_file_is_not_approved_with_its_class(target: Target, attempt: Attempt) -> None:
    """The class of the hostile file has the digest of an approved one; only the rest of the file differs."""
    lab = target.lab
    innocent = 'from headtohead import Rope\n\n\nclass Evil(Rope):\n    """Fine."""\n'
    hostile = innocent + lab.payload
    assert digest(innocent, "Evil") == digest(hostile, "Evil")
    trust.approve(innocent.encode(), "evil.py", lab.folder / "mine")
    (lab.folder / "cwd" / "evil.py").write_text(hostile)
    run_json = target.folder / "run.json"
    part = {"kind": "Evil", "file": "evil.py", "source": digest(innocent, "Evil"), "theta": 1e4, "fraction": 1.0}
    run_json.write_text(json.dumps(replaced(target.json_of(run_json), ("arm", "model", "position"), part)))
    variants: list[tuple[dict[str, bytes], int]] = [
        ({}, 3),
        ({copy_name(hostile.encode()): hostile.encode()}, 3),
        ({copy_name(innocent.encode()): hostile.encode()}, 3),
        ({copy_name(innocent.encode()): innocent.encode()}, 0),  # the approved copy is loaded, not the file
    ]
    for copies, expected in variants:
        write_copies(Trick("rest of the file", part, copies), target.folder)
        code = attempt(lab, f"rest of the file {sorted(copies)}", *target.typed(MODELS[0]))
        assert code == expected


def test_modules_beside_a_hostile_path_are_not_imported(target: Target, attempt: Attempt) -> None:
    """The approved file imports a module; JSON says that the file is in a folder that has a hostile one."""
    lab = target.lab
    text = 'import beside_it\nfrom headtohead import Rope\n\n\nclass Evil(Rope):\n    """Fine."""\n'
    part = {"kind": "Evil", "source": digest(text, "Evil"), "theta": 1e4, "fraction": 1.0}
    hostile = lab.folder / "hostile"
    for folder in (hostile, lab.folder / "cwd", target.folder / "code", target.folder, target.home):
        folder.mkdir(exist_ok=True)
        (folder / "beside_it.py").write_text(lab.payload)
        (folder / "evil.py").write_text(text)
    trust.approve(text.encode(), "evil.py")
    run_json = target.folder / "run.json"
    sound = target.json_of(run_json)
    copy = copy_name(text.encode())
    for file in (str(hostile / "evil.py"), "evil.py", "home/evil.py", None, f"home/runs/{target.run}/code/{copy}"):
        run_json.write_text(json.dumps(replaced(sound, ("arm", "model", "position"), {**part, "file": file})))
        for copies in ({}, {copy: text.encode()}):
            for name, content in copies.items():
                (target.folder / "code" / name).write_bytes(content)
            attempt(lab, f"module beside {file}", *target.typed(MODELS[0]), codes={2})


# -- other files of the store ------------------------------------------------------------------------------------------


def hostile_files(lab: Lab, part: Any) -> list[tuple[str, bytes]]:
    """Files of a store, below it, with pickles or code in them."""
    arrays = io.BytesIO()
    np.savez(arrays, **{"test/loss": np.array([lab.trap], dtype=object)}, allow_pickle=True)
    pickled = lab.pickled()
    lock = {"format": 1, "plan": {"study": part, "control": part}, "hash": "0"}
    search = {"format": 1, "id": "x", "arm": part, "over": {"model.position": [part]}, "trials": [{"settings": part}]}
    rows = json.dumps([["check", part, "proved", part, ""]])
    return [
        ("runs/RUN/items.npz", arrays.getvalue()),
        ("runs/RUN/items.npz", pickled),
        ("runs/RUN/model.safetensors", pickled),
        ("runs/RUN/checkpoint.safetensors", pickled),
        ("runs/RUN/tokenizer.json", json.dumps(part).encode()),
        ("runs/RUN/tokenizer.json", json.dumps({"kind": "Byte", "model": part}).encode()),
        ("runs/RUN/measures.json", json.dumps({"evil": part}).encode()),
        ("runs/RUN/clusters.json", json.dumps({"test": part}).encode()),
        ("runs/RUN/metrics.jsonl", (json.dumps({"step": 0, "train/loss": part}) + "\n").encode()),
        ("studies/tiny/plan.json", json.dumps(part).encode()),
        ("studies/tiny/lock.json", json.dumps(lock).encode()),
        ("searches/x/search.json", json.dumps(search).encode()),
        ("audits/x.json", rows.encode()),
    ]


def test_pickles_and_code_in_other_files_never_run(target: Target, attempt: Attempt) -> None:
    lab = target.lab
    (trick, *_) = tricks(lab)
    for name, content in hostile_files(lab, trick.part):
        path = target.home / name.replace("RUN", target.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        for command in (LISTS[0], LISTS[4], MODELS[0], *([STUDY[0]] if "studies" in name or "items" in name else [])):
            attempt(lab, name, *target.typed(command))
        target.restore("runs", "studies")


# -- recipes -----------------------------------------------------------------------------------------------------------


def test_listing_recipes_runs_none(target: Target, attempt: Attempt) -> None:
    """Files in ./recipes, and files that are named like commands, recipes and modules of the package."""
    import os

    lab = target.lab
    names = ["demo", "mine", "published/window", "published/documents", "published/evil", "torch", "typer", "json"]
    for place in (lab.folder / "cwd", lab.folder / "cwd" / "recipes"):
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / f"{name}.py").write_text(lab.payload + "from headtohead import Study\nx = Study(**globals())\n")
    recipes = lab.folder / "cwd" / "recipes"
    os.mkfifo(recipes / "pipe.py")
    (recipes / "endless.py").symlink_to("/dev/zero")
    (recipes / "nested.py").write_text("(" * 10_000)
    (recipes / "long.py").write_text("x = " + "+".join("1" * 20_000))
    for command in (
        ["list", "recipes"],
        ["list", "recipes", "--json"],
        ["list", "runs"],
        ["doctor"],
        ["list", "parts"],
    ):
        assert attempt(lab, "recipes", *command) in (0, 1)
    assert attempt(lab, "recipes", "reproduce", "000", "--stored") == 3
    assert attempt(lab, "recipes", "reproduce", "000", "--forecast-only") == 3
