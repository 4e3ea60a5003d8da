"""Every command and option with malformed values, files, recipes, settings and stores: no traceback, no hang, and an
exit code that the documentation knows. The draws are seeded, so a failure comes again.

    ./run test tests/fuzz            500 invocations
    ./run test --slow tests/fuzz     at least 10,000
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from helpers.fuzzing import (
    TEXTS,
    Campaign,
    commands,
    damaged,
    draw_command,
    replaced,
    run,
    without_long_training,
    write_files,
)
from helpers.stores import Shelf, stored

SIZES = {"commands": 250, "settings": 70, "files": 70, "recipes": 50, "stores": 60}
PARTS = 21  # of 500 invocations; the first is the normal form, all of them the slow one
KNOWN = commands()
TINY = ["--set", "train.steps=1", "--set", "model.layers=1", "--set", "model.width=8", "--set", "model.block=8"]


@pytest.fixture
def folder(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(shelf.home))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(shelf.folder / "cache"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    for name in ("mine.txt", "mine.csv"):
        (tmp_path / name).write_bytes((shelf.folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    without_long_training(monkeypatch)
    if not (shelf.home / "studies" / "stored").exists():
        stored(shelf.home)
    return tmp_path


def settings_and_values(draw: random.Random) -> str:
    from headtohead.display.catalogue import catalogue

    names = [s.name for s in catalogue().settings]
    return f"{draw.choice([*names, *names, *TEXTS])}={draw.choice(TEXTS)}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, PARTS))])
def test_malformed_input_is_one_line(part: int, folder: Path, shelf: Shelf, counts: Counter[str]) -> None:
    files = write_files(folder)
    campaign = Campaign()
    for n in numbers("commands", part):
        draw = random.Random(f"commands {n}")
        values = [*TEXTS, *TEXTS, *draw.sample(files, 20), shelf.lm.id, shelf.classifier.id, "stored/Rope@1"]
        words = draw_command(draw, KNOWN, n, values)
        campaign.try_("command lines", safe(words))
    for n in numbers("settings", part):
        draw = random.Random(f"settings {n}")
        given = [x for _ in range(draw.choice([1, 1, 2])) for x in ("--set", settings_and_values(draw))]
        start = ["list", "parameters"] if n % 3 else ["train", "lm", "--data", "mine.txt", *TINY]
        campaign.try_("settings", [*start, *given])
    for n in numbers("files", part):
        draw = random.Random(f"files {n}")
        name = files[n % len(files)] if n % 2 else draw.choice(files)
        start = draw.choice(
            [
                ["compare"],
                ["train", "classifier", *TINY, "--data"],
                ["train", "lm", *TINY, "--data"],
                ["train", "lm", *TINY, "--test", name, "--data"],
            ]
        )
        campaign.try_("data files", [*start, name])
    for n in numbers("recipes", part):
        draw = random.Random(f"recipes {n}")
        recipes = [f for f in files if f.endswith((".py", ".json"))]
        start = draw.choice(
            [["run"], ["plan"], ["report"], ["audit"], ["list", "parts"], ["list", "settings"], ["curves"]]
        )
        more = draw.choice([[], ["--json"], ["--seeds", draw.choice(TEXTS)]] if start[0] in ("run", "plan") else [[]])
        campaign.try_("recipes", [*start, draw.choice(recipes) + draw.choice(["", "", ":Part"]), *more])
    campaign_of_stores(campaign, shelf, numbers("stores", part))
    counts.update(campaign.kinds)
    assert not campaign.problems, "\n\n".join([campaign.report(), *campaign.problems[:20]])


def numbers(kind: str, part: int) -> range:
    return range(part * SIZES[kind], (part + 1) * SIZES[kind])


def safe(words: list[str]) -> list[str]:
    """A command line that reads neither the default corpus nor the published studies, which takes long."""
    if words[0] in ("demo", "reproduce"):
        return [*words, "--jobs", "nothing"]
    if words[0] in ("train", "search") and "--data" not in words:
        return [*words, "--data", "mine.txt", *TINY]
    if words[0] in ("run", "plan") and "--data" not in words and len(words) > 1 and words[1] in ("lm", "classifier"):
        return [*words, "--data", "mine.txt", *TINY]
    return words


def campaign_of_stores(campaign: Campaign, shelf: Shelf, numbers: range) -> None:
    """Damage one file of the store, and ask for what it is about."""
    study, run = shelf.home / "studies" / "stored", shelf.lm.folder
    files = [
        *(study / "study.json", next((shelf.home / "runs").glob("*/run.json"))),
        *(
            run / name
            for name in ("run.json", "result.json", "times.json", "env.json", "metrics.jsonl", "tokenizer.json")
        ),
        *(run / name for name in ("items.npz", "model.safetensors")),
    ]
    for n in numbers:
        draw = random.Random(f"stores {n}")
        file = files[n % len(files)]
        reading = [["list", "runs"], ["list", "runs", "--json"], ["list", "studies"], ["list", "settings", "latest"]]
        of_study = [
            ["report", "stored", "--quick"],
            ["table", "stored"],
            ["curves", "stored"],
            ["export", "stored", "--csv"],
        ]
        of_run = [
            ["score", run.name, "the people"],
            ["table", run.name],
            ["curves", run.name],
            ["list", "parameters", run.name],
        ]
        asked = draw.choice([*reading, *(of_study * 2 if file.parent == study else of_run * 2)])
        with replaced(file, damaged(draw, file.read_bytes())):
            campaign.try_("stores", asked, about=f"damaged {file.name}")


def test_every_command_and_option_is_drawn() -> None:
    drawn: set[tuple[tuple[str, ...], str]] = set()
    for n in range(PARTS * SIZES["commands"]):
        words = draw_command(random.Random(f"commands {n}"), KNOWN, n, TEXTS)
        command = KNOWN[n % len(KNOWN)]
        drawn |= {(command.words, name) for name, _ in command.options if name in words}
    wanted = {(c.words, name) for c in KNOWN for name, _ in c.options}
    assert drawn == wanted


def test_the_suite_notices_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign()
    monkeypatch.setattr("headtohead.cli.doctor.console", None)
    campaign.try_("broken", ["doctor"])
    assert "TypeError" in campaign.problems[0]


def test_the_suite_notices_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtohead.cli.doctor.print_json", lambda _: time.sleep(60))
    assert "Hang" in run(["doctor", "--json"], seconds=1.0).problem()
