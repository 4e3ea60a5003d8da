"""A store for the page Inside: studies of language models and of classifiers, single runs, and runs that are broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headtohead import Arm, Files
from headtohead.run.store import Record
from helpers.corpora import write_table, write_text
from helpers.runs import SMALL, run_on, trained_record
from helpers.studies import carried, study
from helpers.web import Served, served

TWO = ("model.layers=2", "model.heads=2", "evaluate.snapshots=3")


@dataclass(frozen=True)
class Insides:
    home: Path
    lm: str  # a study: the arms Learned and Rope, seeds 0 and 1
    classifier: str  # a study with the same arms and seed 0
    long: Record  # a single run with a block of 256
    mixed: Record  # a single run with linear attention in its first layer
    bad: dict[str, Record]  # single runs, by what is wrong with them


@pytest.fixture(scope="session")
def insides(tmp_path_factory: pytest.TempPathFactory) -> Insides:
    """Train the runs once for all tests."""
    folder = tmp_path_factory.mktemp("insides")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        return _made(folder)


@pytest.fixture(scope="module")
def server(insides: Insides) -> Iterator[Served]:
    """A read-only server of that store; commands of this process read the same store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(insides.home.parent / "cache"))
        patch.setenv("HEADTOHEAD_HOME", str(insides.home))
        with served(insides.home, read_only=True) as found:
            yield found


def _made(folder: Path) -> Insides:
    home, text, table = folder / "home", write_text(folder), write_table(folder)
    vary = {"model.position": ["Learned", "Rope"]}
    carried(study(text, *TWO, seeds=2, vary=vary, name="pair", question="Does <b>Rope</b> matter?"), home)
    classifier = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, *TWO, "train.steps=6"])
    carried(study(text, control=classifier, seeds=2, vary=vary, name="moods"), home)
    long = trained_record(run_on(text, *TWO, "model.block=256", "train.steps=2", "evaluate.windows=2"), home)
    mixer = "model.mixer=LinearAttention + Attention"
    mixed = trained_record(run_on(text, *TWO, mixer, "train.steps=2", "evaluate.windows=2"), home)
    bad = {}
    for seed, what in enumerate(("no weights", "damaged", "unfinished", "no vocabulary", "no spec"), 1):
        bad[what] = trained_record(run_on(text, "train.steps=1", "evaluate.windows=2", seed=seed), home)
    (bad["no weights"].folder / "model.safetensors").unlink()
    (bad["damaged"].folder / "model.safetensors").write_bytes(b"not weights")
    (bad["unfinished"].folder / "result.json").unlink()
    (bad["no vocabulary"].folder / "tokenizer.json").unlink()
    (bad["no spec"].folder / "run.json").write_text(json.dumps({"arm": 3}))
    return Insides(home, "pair", "moods", long, mixed, bad)
