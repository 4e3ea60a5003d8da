"""The picture of a search says what search.json says. Letters of an SVG are letters here, so they can be read."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from headtohead.report.grid import image
from headtohead.run.searches import SearchRecord, TrialRecord

LR = "train.optimizer.lr"
RANGE = {"low": 2e-5, "high": 3e-3, "log": True}


def said(over: dict[str, Any], figures: list[float | None], metric: str = "validation/accuracy") -> SearchRecord:
    """A search whose trials have these figures, in the order of the grid."""
    values = [v if isinstance(v, list) else [v["low"], v["high"]] for v in over.values()]
    points = [dict(zip(over, point, strict=True)) for point in itertools.product(*values)]
    trials = tuple(
        TrialRecord(n, point, f"run{n}", "diverged" if value is None else "complete", value)
        for n, (point, value) in enumerate(zip(points, figures, strict=False))
    )
    best = (max if "accuracy" in metric else min)(v for v in figures if v is not None)
    return SearchRecord(
        format=1,
        id="0" * 16,
        task="classifier",
        corpus="sotu",
        arm={},
        over=over,
        sampler="grid",
        together=None,
        seed=0,
        device="cpu",
        threads=1,
        metric=metric,
        better="higher" if "accuracy" in metric else "lower",
        trials=trials,
        chosen=figures.index(best),
        tied=0,
        edges=[],
        test={},
        warnings=[],
    )


def words(drawn: bytes) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn.decode())


def test_a_search_of_one_setting_is_a_line() -> None:
    found = words(image(said({LR: [1e-4, 1e-3, 1e-2]}, [0.5, 0.75, None]), "svg"))
    assert {"0.0001", "0.001", "0.01", LR, "75.0", "chosen", "diverged or failed"} <= set(found)
    assert "classifier on sotu: 3 trials, 1 of them diverged or failed, seed 0" in found
    assert "validation/accuracy in %, higher is better" in found


def test_a_search_of_two_settings_is_a_map_with_numbers() -> None:
    over = {"train.batch": [8, 16], LR: [1e-4, 1e-3, 1e-2]}
    found = words(image(said(over, [2.5, 2.25, 2.75, 2.0, None], "validation/loss"), "svg"))
    assert [w for w in found if re.fullmatch(r"\d\.\d{3}", w)][-4:] == ["2.500", "2.250", "2.750", "2.000"]
    assert found.count("diverged") == 1  # and the last cell, which was not tried, is empty
    assert "validation/loss in nats, lower is better" in found
    assert {"8", "16", "train.batch", LR, "chosen"} <= set(found)


def test_a_third_setting_gives_a_map_per_value() -> None:
    over = {"train.batch": [8, 16], LR: [1e-4, 1e-3], "train.epochs": [1, 2, 3, 4]}
    found = words(image(said(over, [n / 20 for n in range(16)]), "svg"))
    assert [w for w in found if w.startswith("train.epochs =")] == [f"train.epochs = {n}" for n in (1, 2, 3, 4)]
    cells = [w for w in found if re.fullmatch(r"\d+\.\d", w)]
    assert {f"{100 * n / 20:.1f}" for n in range(16)} <= set(cells)


@pytest.mark.parametrize(
    "over",
    [
        {LR: RANGE},
        {LR: RANGE, "train.batch": [8, 16]},
        {LR: [1e-4, 1e-3], "train.batch": [8, 16], "model.heads": [1, 2], "model.position": ["Learned", "Rope"]},
    ],
)
def test_ranges_or_many_settings_give_a_panel_each(over: dict[str, Any]) -> None:
    found = words(image(said(over, [0.5, 0.75, None, 0.25]), "svg"))
    assert set(over) <= set(found)
    assert ({"2e-05", "0.001", "0.003"} if over[LR] is RANGE else {"0.0001", "0.001"}) <= set(found)


@pytest.mark.parametrize("figures", [[0.5] * 6, [None] * 5 + [0.5], [0.0, 0.9, 0.9, 0.9, 0.9, 0.91]])
def test_odd_values_are_drawn(figures: list[float | None]) -> None:
    assert image(said({"train.batch": [8, 16], LR: [1e-4, 1e-3, 1e-2]}, figures), "png").startswith(b"\x89PNG")


def test_dollar_signs_and_long_names_are_drawn() -> None:
    names = ["$x$", "Disentangled(span=8, shared=True)", "Disentangled(span=9, shared=True)", "人工智能"]
    search = said({"model.position": names, "train.batch": [8, 16]}, [0.5] * 8)
    assert image(search, "png")
    assert "$x$" in words(image(search, "svg"))


def test_a_large_grid_has_a_frame_and_no_numbers() -> None:
    over = {"train.batch": list(range(1, 31)), LR: [n / 1000 for n in range(1, 31)]}
    found = words(image(said(over, [n / 900 for n in range(900)]), "svg"))
    assert len(found) < 60
    assert "chosen" in found
