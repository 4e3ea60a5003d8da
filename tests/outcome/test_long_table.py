"""The long table has the store's values, and the scripts beside it reproduce the verdicts without headtohead."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headtohead import InputError
from headtohead.errors import Unavailable
from headtohead.outcome.long_table import COLUMNS, NEW_RUN, PERTURBED, script_files
from headtohead.outcome.outcome import ArmVerdict, Outcome, RunRow, load_outcome, not_by_survivors
from headtohead.run.store import Record
from headtohead.run.studies import ArmRecord, StudyRecord, TableRecord
from headtohead.stats import Design, Verdict, compare_all, sequential_design
from helpers.stores import stored

R = shutil.which("Rscript")
LANGUAGES = [
    "py",
    pytest.param(
        "R", marks=pytest.mark.skipif(R is None, reason="Rscript is not installed: apt-get install r-base-core")
    ),
]
LINE = re.compile(r"^  (\S.*?) +(\d+) +(\S+) +(\S+) +(\S+)  (\w+) +(?:as headtohead|headtohead: \w+)$")


def run_script(language: str, *folders: Path, script: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script of the first folder, or another one, from the root folder. Python ignores PYTHONPATH."""
    program = [sys.executable, "-I", "-W", "error"] if language == "py" else [str(R)]
    file = script or folders[0] / f"verdicts.{language}"
    others = map(str, folders[1:] and folders)
    return subprocess.run([*program, str(file), *others], cwd="/", capture_output=True, text=True, timeout=600)


def printed(out: str) -> list[dict[str, Any]]:
    names = ("arm", "pairs", "difference", "low", "high", "verdict")
    found = [dict(zip(names, line.groups(), strict=True)) for line in map(LINE.match, out.splitlines()) if line]
    number = {"pairs": int, "difference": float, "low": float, "high": float}
    return [{name: number.get(name, str)(text) for name, text in row.items()} for row in found]


def assert_reproduced(row: dict[str, Any], v: Verdict) -> None:
    assert row["verdict"] == v.verdict
    assert row["pairs"] == v.pairs
    if v.pairs:
        assert row["difference"] == pytest.approx(v.difference, abs=1e-5)
    if not v.descriptive:
        close = {"abs": 2e-5 + 5e-4 * abs(v.high - v.low) if math.isfinite(v.high - v.low) else 2e-5}
        assert (row["low"], row["high"]) == (pytest.approx(v.low, **close), pytest.approx(v.high, **close))


# -- the long table ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["lm", "classifier"])
def test_every_value_is_that_of_the_store(home: Path, task: str):
    outcome = stored(home, seeds=3, task=task, lost={("Rope", 1): "diverged", ("Alibi", 2): "failed"})
    found = outcome.long(items=True)
    assert tuple(found.columns) == COLUMNS
    expected = []
    arms = {arm.name: arm.runs for arm in outcome.record.tables[0].arms} | {NEW_RUN: outcome.record.again}
    for arm, runs in arms.items():
        for seed, run in runs.items():
            folder = home / "runs" / run
            lines = (folder / "metrics.jsonl").read_text().splitlines() if (folder / "metrics.jsonl").exists() else []
            for line in map(json.loads, lines):
                for name in set(line) - {"step"}:
                    expected.append((arm, seed, run, "training", line["step"], None, name, line[name]))
            if not (folder / "result.json").exists():
                continue
            for name, value in json.loads((folder / "result.json").read_text())["values"].items():
                if not isinstance(value, list):
                    expected.append((arm, seed, run, "result", 500, None, name, value))
            with np.load(folder / "items.npz") as items:
                own = {name: items[name] for name in ("test/loss", "test/tokens") if name in items}
                if task == "classifier":
                    own["test/correct"] = items["test/label"] == items["test/predicted"]
            for name, values in own.items():
                expected += [(arm, seed, run, "item", 500, n, name, float(v)) for n, v in enumerate(values)]
    got = [
        (a, s, r, src, st, None if pd.isna(i) else int(i), m, v)
        for _, a, s, r, src, st, i, m, v in found.itertuples(index=False, name=None)
    ]
    key = lambda row: tuple(map(str, row))
    assert sorted(got, key=key) == sorted(expected, key=key)
    assert set(found["table"]) == {""}
    assert "item" not in set(outcome.long()["source"])


def test_noise_floors_are_arms_of_their_own(home: Path):
    first = stored(home, seeds=2)
    outcome = stored(home, seeds=2, chaos={str(seed): run for seed, run in first.record.again.items()})
    arms = outcome.long().groupby("arm")["run"].unique()
    assert set(arms[NEW_RUN]) == set(arms[PERTURBED]) == set(outcome.record.again.values())


def test_several_test_sets_have_a_value_together(home: Path):
    outcome = stored(home, seeds=2, again=False)
    for run in outcome.record.runs:
        path = home / "runs" / run / "result.json"
        result = json.loads(path.read_text())
        loss = result["values"].pop("test/loss")
        result["values"] = {"a/loss": loss, "a/tokens": 10, "b/loss": loss + 1, "b/tokens": 30}
        result["data"] = {"sets": {"a": {}, "b": {}}, "tests": ["a", "b"]}
        path.write_text(json.dumps(result))
    outcome = load_outcome(outcome.folder)
    found = outcome.long().query("source == 'result'").pivot(index="run", columns="metric", values="value")
    assert np.allclose(found["test/loss"], found["a/loss"] + 0.75)
    assert found["test/loss"].to_dict() == {row.run: row.value for row in outcome.all_rows}


def test_a_study_without_runs_has_an_empty_table(home: Path, tmp_path: Path):
    arms = ("Learned", "Rope", "Alibi")
    outcome = stored(home, seeds=6, again=False, lost={(arm, seed): "missing" for arm in arms for seed in range(6)})
    assert outcome.long().empty
    assert tuple(outcome.long().columns) == COLUMNS
    outcome.export(tmp_path / "out")
    done = run_script("py", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [row["pairs"] for row in printed(done.stdout)] == [0, 0]


# -- the files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_files_have_the_long_table_and_the_runs(home: Path, tmp_path: Path, format: Any):
    outcome = stored(
        home, {"Rope, theta=100": -0.3, "NA": 0.1}, seeds=3, lost={("NA", 1): "collapsed"}, task="classifier"
    )
    paths = outcome.export(tmp_path / "new" / "out", format, items=True)
    assert sorted(paths) == sorted((tmp_path / "new" / "out").iterdir())
    table = paths[0]
    kinds = {"item": "Int64"}
    read = (
        pd.read_parquet(table)
        if format == "parquet"
        else pd.read_csv(table, keep_default_na=False, na_values={"item": [""]}, dtype=kinds)
    )
    pd.testing.assert_frame_equal(read, outcome.long(items=True), check_dtype=False)
    runs = pd.read_csv(tmp_path / "new" / "out" / "runs.csv", keep_default_na=False)
    assert list(runs["arm"].unique()) == ["Learned", "Rope, theta=100", "NA", NEW_RUN]
    assert [(r.run, r.status) for r in runs.itertuples()] == [(r.run, r.status) for r in outcome.all_rows]
    final = read[(read["source"] == "result") & (read["metric"] == outcome.metric)].set_index("run")["value"]
    complete = runs[runs["status"] == "complete"]
    assert [float(value) for value in complete["value"]] == list(final[complete["run"]])
    assert set(runs["value"][runs["status"] != "complete"]) == {""}


@pytest.mark.parametrize(
    ("format", "where", "says"),
    [
        ("xlsx", "out", "the format of a table is csv or parquet, not 'xlsx'"),
        ("csv", "full", "exists and is not empty: give a new folder"),
        ("csv", "full/file", "is a file: give a new folder"),
        ("csv", "full/file/out", "cannot write"),
        ("csv", "/proc/out", "cannot write /proc/out: No such file or directory; give a folder that you can write to"),
    ],
)
def test_what_cannot_be_written_is_one_line(home: Path, tmp_path: Path, format: Any, where: str, says: str):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    outcome = stored(home, seeds=2)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as error:
        outcome.export(tmp_path / where, format)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_parquet_without_pyarrow_is_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match=r"needs the extra parquet: pip install 'headtohead\[parquet\]'"):
        stored(home, seeds=2).export(tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()


def test_damaged_items_are_one_line(home: Path, tmp_path: Path):
    outcome = stored(home, seeds=2)
    (Record.at(home, outcome.record.runs[0]).folder / "items.npz").write_bytes(b"PK no zip")
    with pytest.raises(InputError, match=r"items\.npz cannot be read"):
        outcome.export(tmp_path / "out", items=True)
    assert outcome.export(tmp_path / "out")


# -- verdicts, by the scripts ------------------------------------------------------------------------------------------


def design(*analyses: int, **more: Any) -> dict[str, Any]:
    return {"analyses": list(analyses), **more}


def tuned(home: Path) -> Outcome:
    """A study with two tables, whose arms have the same names and other runs."""
    own, shared = stored(home, name="own", seeds=8), stored(home, {"Rope": 0.3, "Alibi": 0.01}, name="shared", seeds=8)
    written = json.loads((own.folder / "study.json").read_text())
    others = json.loads((shared.folder / "study.json").read_text())["tables"][0]["arms"]
    written["tables"] = [
        {"title": "own best", "arms": written["tables"][0]["arms"]},
        {"title": "shared", "arms": others},
    ]
    written["margin"] = "0.35%"
    (own.folder / "study.json").write_text(json.dumps(written))
    return load_outcome(own.folder)


EFFECTS = {"big": -0.3, "none": 0.0, "small": 0.012, "worse": 0.2}
CASES: dict[str, tuple[Any, set[str]]] = {
    "fixed": (lambda home: stored(home, EFFECTS, seeds=8), {"better", "unresolved", "worse"}),
    "accuracy": (lambda home: stored(home, {"a": 0.05, "b": -0.05}, task="classifier", seeds=8), {"better", "worse"}),
    "few pairs": (lambda home: stored(home, EFFECTS, seeds=5), {"unresolved"}),
    "sequential": (
        lambda home: stored(home, EFFECTS, seeds=10, noise=0.02, design=design(6, 8, 10, 14)),
        {"better", "unresolved", "worse"},
    ),
    "subgroup": (
        lambda home: stored(home, EFFECTS, seeds=17, noise=0.02, design=design(6, 10, 17)),
        {"better", "unresolved", "worse"},
    ),
    "margin": (
        lambda home: stored(home, EFFECTS, seeds=10, margin=0.03, design=design(6, 10)),
        {"better", "equivalent", "worse"},
    ),
    "lost": (
        lambda home: stored(
            home,
            EFFECTS,
            seeds=10,
            margin=0.05,
            lost={("big", 1): "diverged", ("worse", 2): "diverged", ("none", 0): "diverged", ("small", 3): "failed"},
        ),
        {"unresolved", "worse", "equivalent"},
    ),
    "lost by the control": (
        lambda home: stored(home, EFFECTS, seeds=10, margin=0.05, lost={("Learned", 4): "diverged"}),
        {"better", "unresolved"},
    ),
    "later": (
        lambda home: stored(home, EFFECTS, seeds=12, design=design(6, 12), later=["worse", "none"]),
        {"better", "unresolved", "worse"},
    ),
    "no reserve": (
        lambda home: stored(home, EFFECTS, seeds=8, design=design(8, reserve=0.0)),
        {"better", "unresolved", "worse"},
    ),
    "t": (
        lambda home: stored(home, EFFECTS, seeds=10, margin=0.03, design=design(4, 6, 10, rule="t")),
        {"better", "equivalent", "worse"},
    ),
    "tuned": (tuned, {"better", "worse", "equivalent"}),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path, list[ArmVerdict]]]:
    """Every case with the folder it was exported to and its verdicts."""
    base, found = tmp_path_factory.mktemp("a folder"), []
    for case, (make, _) in CASES.items():
        outcome = make(base / "stores" / case)
        outcome.export(base / case)
        found.append((case, base / case, [row for title in outcome.titles for row in outcome.table(title)]))
    return found


def test_cases_have_the_verdicts_they_are_for(exported: list[tuple[str, Path, list[ArmVerdict]]]):
    found = {case: {row.verdict.verdict for row in rows} for case, _, rows in exported}
    assert found == {case: words for case, (_, words) in CASES.items()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripts_reproduce_the_verdicts(exported: list[tuple[str, Path, list[ArmVerdict]]], language: str):
    done = run_script(language, *(folder for _, folder, _ in exported))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all verdicts are headtohead's\n")
    found = iter(printed(done.stdout))
    for case, _, rows in exported:
        for expected in rows:
            row = next(found)
            assert row["arm"] == expected.arm, case
            assert_reproduced(row, expected.verdict)
    assert next(found, None) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_script_judges_the_study_of_its_folder(exported: list[tuple[str, Path, list[ArmVerdict]]], language: str):
    _, folder, rows = exported[0]
    done = run_script(language, folder)
    assert done.returncode == 0, done.stderr
    assert [row["arm"] for row in printed(done.stdout)] == [row.arm for row in rows]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_verdict_that_differs_is_shown(home: Path, tmp_path: Path, language: str):
    stored(home, seeds=8).export(tmp_path / "out")
    path = tmp_path / "out" / "verdicts.csv"
    path.write_text(path.read_text().replace("better", "worse"))
    done = run_script(language, tmp_path / "out")
    assert done.returncode == 1
    assert "better      headtohead: worse\n" in done.stdout
    assert done.stdout.endswith("1 verdicts differ from headtohead's\n")


# -- random studies ----------------------------------------------------------------------------------------------------

STUDIES = 200


def random_study(number: int, folder: Path) -> dict[str, Verdict]:
    """Write the files of an invented study, and return headtohead's verdicts: few and many pairs, ties, equal arms,
    lost runs, arms added later, margins, both rules."""
    draw = np.random.default_rng(number)
    pairs = int(draw.choice([5, 6, 7, 8, 9, 10, 11])) if number % 40 else int(draw.integers(14, 19))
    arms = int(draw.integers(1, 5))
    planned = [
        Design((pairs,)),
        Design((pairs,), reserve=0.0),
        Design((40,), reserve=0.9, alpha=0.3),  # only the anytime test, which needs few pairs then
        sequential_design(20),
        Design((4, 6, 7, 9, 10)),
        Design((2, max(3, pairs - 1)), reserve=0.3),
        Design((6, 8, 10), rule="t") if number % 5 == 0 else sequential_design(8),
    ][int(draw.integers(7))]
    base = draw.normal(size=pairs)
    sizes = draw.choice([0.0, 0.3, 1.0, 2.0, 5.0], size=arms) * draw.choice([-1, 1], size=arms)
    noise = draw.choice([draw.normal(size=(arms, pairs)), draw.standard_t(2, size=(arms, pairs))])
    values = np.vstack([base, base + sizes[:, None] + noise])
    kind = draw.choice(["as drawn", "ties", "one arm equal", "one arm constant"], p=[0.5, 0.3, 0.1, 0.1])
    if kind == "ties":
        values = values.round(int(draw.integers(2)))
    elif kind != "as drawn":
        values[1] = base + (kind == "one arm constant") * 0.5
    values = values * float(draw.choice([1, 0.01])) + float(draw.choice([0, 3]))
    status = np.where(
        draw.random(values.shape) < draw.choice([0, 0.05]), draw.choice(["diverged", "failed"]), "complete"
    )
    status[-1] = "failed" if arms > 1 and draw.random() < 0.1 else status[-1]  # an arm without a pair
    values = np.where(status == "complete", values, math.nan)
    names = ["control", *(f"arm {a}" for a in range(arms))]
    rows = {
        name: [RunRow(name, s, f"{a}-{s}", str(status[a, s]), "", float(values[a, s])) for s in range(pairs)]
        for a, name in enumerate(names)
    }
    later = tuple(name for name in names[1:] if draw.random() < 0.15)
    margin = (
        float(draw.choice([0.3, 1.0, 3.0]) * max(1e-3, np.nanstd(values[1] - values[0]))) if draw.random() < 0.5 else 0
    )
    better = "lower" if draw.random() < 0.5 else "higher"
    shared: Any = {"margin": margin or None, "better": better}
    judged = compare_all(
        values[0], dict(zip(names[1:], values[1:], strict=True)), **shared, design=planned, later=later
    )
    judged = {name: not_by_survivors(verdict, rows["control"], rows[name]) for name, verdict in judged.items()}
    record = StudyRecord(
        id="",
        name=str(number),
        question="",
        task="lm",
        corpus="",
        metric="test/loss",
        **shared,
        vary=(),
        seeds=tuple(range(pairs)),
        tables=(TableRecord("", tuple(ArmRecord(name, {}, {}, {}) for name in names)),),
        again={},
        design=planned,
        later=later,
    )
    folder.mkdir(parents=True)
    files = script_files(record, [("", name, row) for name in rows for row in rows[name]], {"": judged})
    for name, text in files.items():
        (folder / name).write_text(text)
    return judged


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, dict[str, Verdict]]]:
    base = tmp_path_factory.mktemp("invented")
    return [(base / str(number), random_study(number, base / str(number))) for number in range(STUDIES)]


def test_invented_studies_have_every_kind_of_verdict(invented: list[tuple[Path, dict[str, Verdict]]]):
    verdicts = [v for _, judged in invented for v in judged.values()]
    words = [v.verdict for v in verdicts]
    assert {word: words.count(word) > 20 for word in set(words)} == dict.fromkeys(
        ("better", "worse", "equivalent", "unresolved"), True
    )
    assert sum(not v.planned for v in verdicts) > 5  # decided by the anytime test
    assert sum(v.analysis > 1 and v.verdict != "unresolved" for v in verdicts) > 5
    assert sum((folder / "signs.csv").exists() for folder, _ in invented) > 3
    assert sum((folder / "limits.csv").exists() for folder, _ in invented) > 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripts_judge_invented_studies_alike(invented: list[tuple[Path, dict[str, Verdict]]], language: str):
    done = run_script(language, *(folder for folder, _ in invented))
    assert done.returncode == 0, [line for line in done.stdout.splitlines() if "headtohead: " in line] or done.stderr
    expected = [(arm, v) for _, judged in invented for arm, v in judged.items()]
    found = printed(done.stdout)
    assert [row["arm"] for row in found] == [arm for arm, _ in expected]
    for row, (_, verdict) in zip(found, expected, strict=True):
        assert_reproduced(row, verdict)
