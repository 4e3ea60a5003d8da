"""Damage to every kind of file of a store and of its caches. Each case is noticed and named, or changes nothing.

A case is noticed if a reader names it, or `h2h verify` does. It is harmless if all readers return what they returned
before. The long form (`--slow`) has 2,000 cases.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrupt.conftest import Everything
from headtohead import Files
from headtohead.data.encoded import encode_sentences, encode_texts
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Byte
from headtohead.display.run_list import run_rows
from headtohead.errors import InputError
from headtohead.outcome.outcome import load_outcome
from headtohead.run import store
from headtohead.run.derived import derived
from headtohead.run.load import load_trained, snapshot_steps
from headtohead.run.searches import read_search
from headtohead.run.verify import verify
from helpers.damage import DAMAGES, OFTEN, Case, damaged

NAMED = ("damaged", "cannot be read", "checksum", "not trained yet", "stopped", "no study", "unreadable", "is missing")
NAMED += ("is not complete", "its file is gone")  # its result was deleted, so that it is trained again
FEW, MANY = 200, 2000


def run_folders(home: Path) -> list[Path]:
    return sorted(path for path in (home / "runs").iterdir() if (path / "result.json").is_file())


def files_by_kind(all: Everything) -> dict[str, list[Path]]:
    """Every file of the store and of the caches that decides something, by its name without numbers."""
    found: dict[str, list[Path]] = {}
    for path in sorted(p for base in (all.home, all.cache) for p in base.rglob("*") if p.is_file()):
        if path.name in ("LOCK", "grid.png", "grid.svg") or "vega" in path.parts:
            continue
        place = path.relative_to(all.home if path.is_relative_to(all.home) else all.cache)
        kind = {"snapshots": "snapshot", "code": "code"}.get(path.parent.name, path.name)
        kind = place.parts[0] if place.parts[0] in ("audits", "derived", "wheels") else kind
        found.setdefault(f"{place.parts[0]}/{kind}", []).append(path)
    return found


def draw_case(kinds: dict[str, list[Path]], all: Everything, draw: random.Random) -> Case:
    if draw.random() < 0.08:  # two runs, or the same file of two runs
        a, b = draw.sample(run_folders(all.home), 2)
        name = draw.choice(["", "result.json", "run.json", "times.json", "items.npz", "model.safetensors", "env.json"])
        return Case(a / name if name else a, "swap", b / name if name else b)
    return Case(draw.choice(kinds[draw.choice(sorted(kinds))]), draw.choice(OFTEN))


# -- readers -----------------------------------------------------------------------------------------------------------


def digest(*arrays: Any) -> str:
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()


def verdicts(all: Everything) -> str:
    outcome = load_outcome(all.study)
    return json.dumps([store.plain(outcome.verdicts.to_json()), outcome.warnings], default=str)


def weights(folder: Path) -> str:
    record = store.Record(folder)
    steps = [None, *snapshot_steps(record)]
    found = [load_trained(record, step) for step in steps[:2]]
    return digest(*(w.numpy() for t in found for w in t.model.state_dict().values())) + str(found[0].vocabulary.state())


def details(folder: Path) -> str:
    record = store.Record(folder)
    result = record.require_result().to_json()
    said = [result, record.spec, record.metrics, record.times.to_json(), record.environment.to_json()]
    items = [values for name in sorted(record.item_sets()) for values in record.items(name).values()]
    return json.dumps(said) + digest(*items)


def tokens(all: Everything) -> str:
    texts = encode_texts(DataSpec(corpus=Files(path=str(all.text))), Byte())
    table = encode_sentences(DataSpec(corpus=Files(path=str(all.text.with_name("mine.csv")))), Byte())
    held = [s.tokens for s in (texts.train, *texts.held.values())]
    items = [a for s in (table.train, *table.held.values()) for a in (s.items.tokens, s.items.offsets, s.items.labels)]
    facts = [texts.facts(), table.facts(), texts.vocabulary.state(), table.vocabulary.state()]
    return digest(*held, *items) + json.dumps(facts)


def readers(all: Everything, case: Case) -> Iterator[tuple[str, Callable[[], str]]]:
    if case.path.is_relative_to(all.cache):
        yield "tokens", lambda: tokens(all)
        yield "derived", lambda: json.dumps(derived("example", "0" * 64, lambda: {"a": [1, 2.5, "x"]}))
        return
    yield "verdicts", lambda: verdicts(all)
    yield "list", lambda: json.dumps(run_rows(all.home))
    yield "search", lambda: json.dumps(read_search(all.search).to_json())
    for path in (case.path, case.other):
        if path is not None and (all.home / "runs") in path.parents:
            folder = all.home / "runs" / path.relative_to(all.home / "runs").parts[0]
            yield f"weights {folder.name}", lambda folder=folder: weights(folder)
            yield f"details {folder.name}", lambda folder=folder: details(folder)


def read(reader: Callable[[], str]) -> str:
    """What a reader returns, or the one line that it raises. Any other exception fails the test."""
    try:
        return reader()
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return f"InputError: {error}"


def judge(all: Everything, case: Case, draw: random.Random, before: dict[str, str]) -> str:
    """How a case ended: named by a reader, named by verify, or harmless. Fails if neither."""
    for name, reader in readers(all, case):
        if name not in before:
            before[name] = read(reader)
            assert not before[name].startswith("InputError"), before[name]
    with damaged(case, draw, all.home.parent):
        what = f"{case.damage} of {case.path}"
        checked = verify(home=all.home)
        found = {name: read(reader) for name, reader in readers(all, case)}
        changed = [name for name in found if found[name] != before[name]]
        for name in changed:
            assert any(word in found[name] for word in NAMED), f"{what}: {name} changed silently:\n{found[name][:2000]}"
            assert not name.startswith(("weights", "details")) or found[name].startswith("InputError"), what
    if changed:
        return "named by a reader"
    return "harmless" if checked.is_sound else "named by verify, results unchanged"


def run_cases(all: Everything, count: int, seed: int) -> Counter[str]:
    kinds, draw, before = files_by_kind(all), random.Random(seed), {}
    found: Counter[str] = Counter()
    for _ in range(count):
        case = draw_case(kinds, all, draw)
        found[judge(all, case, draw, before)] += 1
    assert verify(home=all.home).is_sound
    return found


# -- tests -------------------------------------------------------------------------------------------------------------


def test_the_store_has_every_kind_of_file(everything: Everything) -> None:
    kinds = set(files_by_kind(everything))
    of_runs = ["run.json", "env.json", "metrics.jsonl", "times.json", "tokenizer.json", "items.npz", "result.json"]
    of_runs += ["model.safetensors", "snapshot", "code"]
    assert {f"runs/{name}" for name in of_runs} <= kinds
    assert {"studies/study.json", "studies/locked.json", "studies/plan.json", "searches/search.json"} <= kinds
    assert {"audits/audits", "derived/derived", "tokens/train.bin", "tokens/facts.json", "tokens/train.npz"} <= kinds


def test_damage_is_named_or_harmless(everything: Everything, counts: Counter[str]) -> None:
    counts.update(run_cases(everything, FEW, seed=0))


@pytest.mark.slow
def test_damage_is_named_or_harmless_in_many_cases(everything: Everything, counts: Counter[str]) -> None:
    counts.update(run_cases(everything, MANY, seed=1))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_are_named(everything: Everything, damage: str) -> None:
    """Zeros may replace zeros; every other damage to weights is named."""
    path = run_folders(everything.home)[0] / "model.safetensors"
    ended = judge(everything, Case(path, damage), random.Random(3), {})
    assert ended == "named by a reader" or damage == "zero_a_block"


def test_swapped_runs_are_named(everything: Everything) -> None:
    a, b = run_folders(everything.home)[:2]
    with damaged(Case(a, "swap", b), random.Random(0), everything.home.parent):
        problems = {problem.name: problem.problem for problem in verify(home=everything.home).problems}
    assert problems == {a.name: f"result.json is of run {b.name}", b.name: f"result.json is of run {a.name}"}


def test_an_edited_loss_is_named(everything: Everything) -> None:
    path = run_folders(everything.home)[0] / "result.json"
    text = path.read_text()
    data = json.loads(text)
    data["values"]["test/loss"] = 1.0
    path.write_text(json.dumps(data))
    assert "result.json does not match its checksum" in store.Record(path.parent).damage
    for key in ("checksum", "id", "files"):  # as an older version wrote it: nothing but its items contradicts it
        del data[key]
    path.write_text(json.dumps(data))
    assert store.Record(path.parent).damage == ""
    assert "its test/loss is 1, but the mean of its items is" in verify(home=everything.home).problems[0].problem
    path.write_text(text)
