"""A store with every kind of file that a store and its caches have, made once for all cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headtohead.auditor.stored import audit_once
from headtohead.run.derived import derived
from headtohead.run.locks import EXCLUSIONS, LockedPlan, write_lock
from headtohead.run.store import write_json
from headtohead.run.studies import read_study, write_study
from headtohead.search import Search
from headtohead.study.execution import folder_of
from helpers.corpora import write_table, write_text
from helpers.runs import run_on
from helpers.searches import arm, searched
from helpers.stores import trained
from helpers.studies import carried, study

OWN = """
from headtohead.parts.positions import NoPosition
class Own(NoPosition):
    "A part of the user's."
"""


@dataclass(frozen=True)
class Everything:
    home: Path
    cache: Path
    study: Path  # its folder
    search: Path
    text: Path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("everything")
    home, text, table = folder / "home", write_text(folder), write_table(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        patch.setenv("HEADTOHEAD_HOME", str(home))
        patch.chdir(folder)
        vary = {"model.position": ["Learned", "Rope"]}
        made = study(text, "evaluate.snapshots=2", seeds=2, again=True, vary=vary)
        carried(made, home)
        where = folder_of(made, home)
        record = read_study(where)
        plan = LockedPlan(
            *("Does it matter?", "test/loss", None, record.tables[0].control.spec, {}, [2], "flips", 0.05, [0, 1], {}),
            *(EXCLUSIONS, {}),
        )
        write_study(where, dataclasses.replace(record, locked=plan.hash))
        write_lock(where, plan, "2026-11-18T10:00:00+00:00")
        write_json(where / "plan.json", {"runs": 6, "seconds": 3.5})
        search = Search(arm(text), {"train.optimizer.lr": "1e-3,1e-2"})
        searched(search, home)
        trained(home, "classifier", table, "train.epochs=1", "train.batch=8")
        audit_once(run_on(text).arm.model, "control", causal=True, home=home)
        derived("example", "0" * 64, lambda: {"a": [1, 2.5, "x"]})
        (folder / "own.py").write_text(OWN)
        trained(home, "lm", text, "train.steps=2", f"model.position={folder / 'own.py'}:Own")
        yield Everything(home, folder / "cache", where, home / "searches" / search.id, text)
