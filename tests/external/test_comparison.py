from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.errors import InputError
from headtohead.external.comparison import Comparison, compare_sources
from headtohead.stats import Verdict, compare_all
from headtohead.stats.unpaired import UnpairedVerdict, compare_unpaired
from helpers.external import final, table_lines


def write(path: Path, rows: list[tuple[str, object, float]]) -> str:
    path.write_text("\n".join(["arm,seed,loss", *(f"{arm},{seed},{value!r}" for arm, seed, value in rows)]))
    return str(path)


def runs(arm: str, seeds: range, shift: float = 0.0) -> list[tuple[str, object, float]]:
    return [(arm, seed, final("baseline", seed) + shift + 0.01 * math.sin(seed + len(arm))) for seed in seeds]


def test_pairs_are_judged_by_the_paired_rule(inside: Path) -> None:
    rows = [*runs("base", range(8)), *reversed(runs("new", range(8), -0.2)), *runs("odd", range(2, 8))]
    found = compare_sources([write(inside / "t.csv", rows)], margin="1%")
    values = {arm: [value for a, _, value in sorted(rows, key=lambda r: r[1]) if a == arm] for arm in ("base", "new")}
    odd = [math.nan, math.nan, *(value for arm, _, value in rows if arm == "odd")]
    margin = 0.01 * sum(values["base"]) / 8
    assert found.verdicts == compare_all(values["base"], {"new": values["new"], "odd": odd}, margin)
    assert isinstance(found.verdicts["new"], Verdict)
    assert "base, seed 0, 1: not paired, because odd has no value for it" in " ".join(str(found).split())


def test_runs_with_other_seeds_are_judged_by_the_unpaired_rule(inside: Path) -> None:
    rows = [*runs("base", range(6)), *runs("new", range(100, 105), -0.5)]
    found = compare_sources([write(inside / "t.csv", rows)])
    columns = [[value for a, _, value in rows if a == arm] for arm in ("base", "new")]
    assert found.verdicts == compare_unpaired(columns[0], {"new": columns[1]})
    assert isinstance(found.verdicts["new"], UnpairedVerdict)


def test_five_pairs_are_too_few_and_small_arms_do_no_harm(inside: Path) -> None:
    five = compare_sources([write(inside / "a.csv", [*runs("base", range(5)), *runs("new", range(5))])])
    assert five.design == "unpaired"
    rows = [*runs("base", range(6)), *runs("new", range(6)), *runs("small", range(3))]
    found = compare_sources([write(inside / "b.csv", rows)])
    assert found.design == "paired"
    assert found.verdicts["small"].descriptive
    rows = [*runs("base", range(6)), *runs("new", range(6)), *runs("other", range(50, 56))]
    assert compare_sources([write(inside / "c.csv", rows)]).design == "unpaired"


def test_repeats_are_averaged_on_request_only(inside: Path) -> None:
    rows = [*runs("base", range(6)), *runs("new", range(6), -0.2), *runs("new", range(6), -0.3)]
    path = write(inside / "t.csv", rows)
    with pytest.raises(InputError, match="new has 2 values for seed 0"):
        compare_sources([path])
    found = compare_sources([path], average_repeats=True)
    assert (found.design, found.verdicts["new"].pairs) == ("paired", 6)  # type: ignore[union-attr]
    assert found.means["new"] == pytest.approx(sum(v for *_, v in rows[6:]) / 12)


def test_python_and_json_say_the_same(inside: Path) -> None:
    path = inside / "t.csv"
    path.write_text("\n".join(table_lines()))
    found = h2h.compare(path, metric="loss")
    assert isinstance(found, Comparison)
    said = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert said["verdicts"]["rope"]["verdict"] == found.verdicts["rope"].verdict == "better"
    assert (said["control"], said["design"], len(said["values"])) == ("baseline", "paired", 12)
    frame = found.frame()
    assert list(frame["arm"]) == ["baseline", "rope"]
    assert list(frame["verdict"]) == ["control", "better"]
    assert " ".join(str(found).split()).startswith(f"read: {path} (table) metric: loss, lower is better")


def test_descriptive_results_are_valid_json(inside: Path) -> None:
    path = write(inside / "t.csv", [("a", 1, 2.0), ("b", 1, 3.0)])
    said = json.loads(json.dumps(compare_sources([path]).to_json(), allow_nan=False))
    assert said["verdicts"]["b"]["low"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"take": "middle"}, "last, first or best"),
        ({"take": "best", "step": 3}, "exclude"),
        ({"margin": "x"}, "percentage"),
        ({"control": "x"}, "no arm 'x'"),
        ({"better": "more"}, "lower or higher"),
        ({"seed_pattern": "x"}, "no group"),
    ],
)
def test_wrong_options(inside: Path, options: dict, says: str) -> None:
    (inside / "t.csv").write_text("\n".join(table_lines()))
    with pytest.raises(InputError, match=says):
        compare_sources(["t.csv"], **options)


def test_arrays_are_sent_to_stats() -> None:
    with pytest.raises(InputError, match=r"stats\.compare"):
        h2h.compare([1.0, 2.0], [3.0, 4.0])  # type: ignore[arg-type]
