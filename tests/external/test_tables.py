from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from headtohead.errors import InputError
from headtohead.external.comparison import compare_sources
from helpers.external import curve, final, table_lines

TEXT = "\n".join(table_lines())


@pytest.fixture
def expected(inside: Path) -> object:
    (inside / "plain.csv").write_text(TEXT)
    return compare_sources(["plain.csv"]).verdicts


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("t.tsv", TEXT.replace(",", "\t").encode()),
        ("t.csv", TEXT.replace(",", ";").encode()),
        ("bom.csv", b"\xef\xbb\xbf" + TEXT.encode()),
        ("utf16.csv", TEXT.encode("utf-16")),
        ("windows.csv", TEXT.replace("\n", "\r\n").encode()),
        ("mac.csv", TEXT.replace("\n", "\r").encode()),
        ("blank.csv", TEXT.replace("\n", "\n\n").encode()),
        ("spaces.csv", TEXT.replace(",", ", ").encode()),
        ("quoted.csv", TEXT.replace("rope", '"rope"').encode()),
        ("no_ending", TEXT.encode()),
        ("log.log", TEXT.encode()),
        ("capitals.csv", TEXT.replace("arm,seed", "Arm,Seed").encode()),
    ],
)
def test_forms_of_a_table_give_the_same_verdict(inside: Path, expected: object, name: str, raw: bytes) -> None:
    (inside / name).write_bytes(raw)
    assert compare_sources([name]).verdicts == expected


def rows() -> list[dict[str, object]]:
    cells = [line.split(",") for line in table_lines()[1:]]
    return [{"arm": arm, "seed": int(seed), "eval": {"loss": float(loss)}} for arm, seed, loss in cells]


def test_json_lines_lists_and_frames(inside: Path, expected: object) -> None:
    (inside / "t.jsonl").write_text("\n".join(map(json.dumps, rows())))
    (inside / "t.json").write_text(json.dumps(rows(), indent=1))
    assert compare_sources(["t.jsonl"], metric="eval.loss").verdicts == expected
    assert compare_sources(["t.json"]).verdicts == expected
    frame = pd.read_csv("plain.csv")
    assert compare_sources([frame], metric="loss").verdicts == expected


def test_one_column_per_arm(inside: Path, expected: object) -> None:
    lines = ["seed,baseline,rope", *(f"{s},{final('baseline', s):.9f},{final('rope', s):.9f}" for s in range(6))]
    (inside / "wide.csv").write_text("\n".join(lines))
    assert compare_sources(["wide.csv"], better="lower").verdicts == expected
    with pytest.raises(InputError, match="--better"):
        compare_sources(["wide.csv"])


def test_rows_that_are_steps(inside: Path, expected: object) -> None:
    """In one table, and in a file for each run; evaluations are logged at some steps only."""
    lines = ["arm,seed,step,loss"]
    for arm in ("baseline", "rope"):
        for seed in range(6):
            own = [f"{step},{value:.9f}" for step, value in curve(arm, seed)] + ["31,"]
            lines += [f"{arm},{seed},{line}" for line in own]
            points = [{"step": step, "loss": round(value, 9)} for step, value in curve(arm, seed)]
            text = "\n".join(map(json.dumps, [*points, {"step": 31, "train": 1.0}]))
            (inside / f"{arm}-seed{seed}.jsonl").write_text(text)
    (inside / "steps.csv").write_text("\n".join(lines))
    assert compare_sources(["steps.csv"]).verdicts == expected
    files = compare_sources(["*.jsonl"], metric="loss")
    assert files.verdicts == expected
    at = compare_sources(["steps.csv"], step=10).means
    assert at == pytest.approx(compare_sources(["*.jsonl"], metric="loss", step=10).means)
    assert at["rope"] == pytest.approx(files.means["rope"] + 0.5)


def test_a_file_for_each_arm(inside: Path, expected: object) -> None:
    for arm in ("baseline", "rope"):
        own = [line.partition(",")[2] for line in table_lines([arm])]
        (inside / f"{arm}.csv").write_text("\n".join(["seed,loss", *own[1:]]))
    assert compare_sources(["baseline.csv", "rope.csv"], metric="loss").verdicts == expected
    assert compare_sources(["baseline.csv"], [["rope.csv"]], metric="loss").verdicts == expected


def test_names_of_runs_in_a_column(inside: Path, expected: object) -> None:
    text = TEXT.replace("arm,seed,loss", "Name,State,loss").replace(",", "-seed", 0)
    lines = [
        "Name,State,loss",
        *(line.replace(",", "-seed", 1).replace(",", ",finished,") for line in text.split("\n")[1:]),
    ]
    (inside / "runs.csv").write_text("\n".join(lines))
    assert compare_sources(["runs.csv"]).verdicts == expected


def test_rows_without_seeds_are_unpaired(inside: Path) -> None:
    (inside / "t.csv").write_text(
        "\n".join(
            line.replace(",seed", "", 1) if n == 0 else ",".join(line.split(",")[::2])
            for n, line in enumerate(table_lines())
        )
    )
    found = compare_sources(["t.csv"])
    assert found.design == "unpaired"
    assert "each row counts as a run of its own" in " ".join(str(found).split())


def test_missing_values_are_named(inside: Path) -> None:
    lines = table_lines(seeds=range(8))
    lines[3] = "baseline,2,nan"
    lines[12] = "rope,3,"
    (inside / "t.csv").write_text("\n".join(lines))
    found = compare_sources(["t.csv"])
    assert found.verdicts["rope"].pairs == 6  # type: ignore[union-attr]
    assert [name.partition(" (")[0] for name in found.missing] == ["baseline, seed 2", "rope, seed 3"]
    assert "missing: rope, seed 3 (t.csv, line 13): no value" in str(found)
    assert "rope, seed 2: not paired" in str(found)
    assert not math.isnan(found.means["rope"])
