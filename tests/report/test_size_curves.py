"""Results against the size of test sets: means, intervals and verdicts are those of the runs' values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

from headtohead import InputError, compare_all, size_curve
from headtohead.report import curves, size_curves
from headtohead.report.named_runs import RunGroup
from headtohead.run.store import Record

SIZES = (2, 4, 8, 16)
SEEDS = 7
GUESS = 1 / 64


def record(folder: Path, seed: int, accuracies: dict[float, float], ended: str = "complete") -> Record:
    """A run with these accuracies by number of pairs, as the store has it."""
    folder.mkdir(parents=True)
    values = {f"pairs_{size:g}/{figure}": a for size, a in accuracies.items() for figure in ("accuracy", "exact_match")}
    arm = {"task": "lm", "data": {"corpus": {"kind": "Mqar"}}, "train": {}, "evaluate": {}}
    result = {
        "status": ended,
        "steps": 5,
        "values": values | {"test/accuracy": 0.5, "length_3.5/accuracy": 0.25},
        "data": {
            "sets": {},
            "tests": ["test", *(f"pairs_{s:g}" for s in accuracies), "length_3.5"],
            "guess": {"accuracy": GUESS},
        },
    }
    for name, data in (("run", {"arm": arm, "seed": seed}), ("result", result)):
        (folder / f"{name}.json").write_text(json.dumps(data))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 0, "validation/accuracy": 0.1}) + "\n")
    return Record(folder)


@pytest.fixture
def values() -> dict[str, np.ndarray]:
    """Accuracies (seeds, sizes) of two arms: the first solves up to eight pairs, the other up to two."""
    draw = np.random.default_rng(0)
    means = {"wide": [0.99, 0.98, 0.97, 0.5], "narrow": [0.98, 0.7, 0.4, 0.2]}
    return {name: np.array(mean) + draw.uniform(-0.01, 0.01, (SEEDS, len(SIZES))) for name, mean in means.items()}


@pytest.fixture
def groups(values: dict[str, np.ndarray], tmp_path: Path) -> list[RunGroup]:
    def group(name: str) -> RunGroup:
        rows = [dict(zip(SIZES, row.tolist(), strict=True)) for row in values[name]]
        return RunGroup(name, tuple(record(tmp_path / name / str(seed), seed, row) for seed, row in enumerate(rows)))

    return [group("wide"), group("narrow")]


def test_points_are_means_over_seeds_with_t_intervals(groups: list[RunGroup], values: dict[str, np.ndarray]) -> None:
    found = size_curves.read(groups, "pairs")
    assert (found.metric, found.over, found.guess) == ("accuracy", "pairs", GUESS)
    for curve in found.lines:
        for n, point in enumerate(curve.points):
            own = values[curve.label][:, n]
            assert point.size == SIZES[n]
            assert point.values == tuple(own)
            assert point.mean == pytest.approx(own.mean())
            low, high = reference.t.interval(0.95, SEEDS - 1, own.mean(), reference.sem(own))
            assert (point.low, point.high) == pytest.approx((low, min(1.0, high)))


def test_verdicts_are_corrected_for_all_arms_and_sizes(groups: list[RunGroup], values: dict[str, np.ndarray]) -> None:
    first, other = size_curves.read(groups, "pairs").lines
    assert {point.against_first for point in first.points} == {""}
    differences = {str(n): (values["narrow"] - values["wide"])[:, n].tolist() for n in range(len(SIZES))}
    judged = compare_all([0.0] * SEEDS, differences, better="higher")
    assert [p.against_first for p in other.points] == [judged[str(n)].verdict for n in range(len(SIZES))]
    assert [p.against_first for p in other.points][1:] == ["worse"] * 3


def test_solved_sizes_need_their_whole_interval(groups: list[RunGroup]) -> None:
    found = size_curves.read(groups, "pairs")
    assert [curve.solved_up_to() for curve in found.lines] == [8, 2]
    assert found.notes()[0] == "wide: at least 90% up to pairs=8"
    assert "narrow: at least 90% up to pairs=2; against wide: " in found.notes()[1]
    assert "worse at 2, 4, 8, 16" in found.notes()[1]


def test_seeds_are_paired_by_number_and_unfinished_runs_left_out(groups: list[RunGroup], tmp_path: Path) -> None:
    lost = record(tmp_path / "lost", 99, dict.fromkeys(SIZES, 0.0), ended="diverged")
    fewer = RunGroup("narrow", (*reversed(groups[1].records[1:]), lost))
    whole = size_curves.read(groups, "pairs").lines[1]
    (_, other) = size_curves.read([groups[0], fewer], "pairs").lines
    assert other.seeds == (1, 2, 3, 4, 5, 6)
    assert [p.values for p in other.points] == [p.values[1:] for p in whole.points]
    assert {p.against_first for p in other.points} <= {"worse", "unresolved"}


def test_few_seeds_decide_nothing(groups: list[RunGroup]) -> None:
    few = [RunGroup(group.label, group.records[:3]) for group in groups]
    assert {p.against_first for p in size_curves.read(few, "pairs").lines[1].points} == {"unresolved (3 pairs)"}
    one = [RunGroup(group.label, group.records[:1]) for group in groups]
    found = size_curves.read(one, "pairs")
    assert "(one seed has no interval)" in found.notes()[0]
    assert found.plot() is not None


def test_table_json_and_picture_show_the_same(groups: list[RunGroup], values: dict[str, np.ndarray]) -> None:
    found = size_curves.read(groups, "pairs")
    text = found.text(100)
    assert f"{100 * values['narrow'][:, 2].mean():.2f}" in text
    said: dict[str, Any] = found.to_json()
    assert [p["size"] for p in said["curves"][0]["points"]] == list(SIZES)
    assert said["curves"][1]["points"][0]["against_first"]
    axes = found.plot().axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "4", "8", "16"]
    drawn = [line for line in axes.lines if line.get_marker() not in ("None", "", "_", "|", None)]
    assert drawn[0].get_ydata() == pytest.approx(100 * values["wide"].mean(axis=0))
    assert curves.render(found.plot(), "svg") == curves.render(found.plot(), "svg")


def test_several_kinds_of_sizes_have_to_be_chosen(groups: list[RunGroup]) -> None:
    with pytest.raises(InputError, match="by pairs and by length: give --over pairs"):
        size_curves.read(groups)
    assert size_curves.read(groups, "length").lines[0].points[0].size == 3.5
    with pytest.raises(InputError, match="no test sets by paris: did you mean pairs"):
        size_curves.read(groups, "paris")


def test_runs_without_such_sets_are_refused(tmp_path: Path) -> None:
    plain = RunGroup("plain", (record(tmp_path / "plain", 0, {}),))
    path = plain.records[0].folder / "result.json"
    data = json.loads(path.read_text())
    data["data"]["tests"] = ["test"]
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="no test sets of several sizes"):
        size_curves.read([RunGroup("plain", (Record(plain.records[0].folder),))])


def test_runs_are_found_by_name(home: Path) -> None:
    with pytest.raises(InputError):
        size_curve("nothing", over="pairs", home=home)
