"""The forest figure: names, and arms without pairs."""

from __future__ import annotations

import re

from headtohead.figures.style import svg
from headtohead.outcome.outcome import Verdicts
from headtohead.report.forest import drawing
from helpers.verdicts import judged


def forest(verdicts: Verdicts) -> str:
    return svg(drawing(verdicts, {}))


def drawn(svg: str) -> list[str]:
    return [re.sub(r"\s+", " ", t).strip() for t in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_long_names_leave_room_for_the_forest():
    figure = forest(judged("L" * 300, "中文 🦄", "Rope"))  # warnings are errors here
    assert "L" * 40 not in figure
    assert any("…" in label for label in drawn(figure))
    assert "中文 🦄" in drawn(figure)


def test_arms_without_pairs_give_the_reason_in_the_forest():
    assert drawn(forest(judged("Rope", "diverged far"))).count("diverged") == 1
    assert drawn(forest(judged("diverged", "diverged too"))).count("diverged") == 3  # one of them a name
    assert "no pairs" not in forest(judged("Rope"))
