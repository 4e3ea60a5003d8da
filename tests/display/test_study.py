"""A study on the terminal: verdicts, the board of its runs, and warnings."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from headtohead.display.study import Board, analysis_lines, show, study_screen
from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import Verdicts
from headtohead.outcome.wording import analysis_text, interval_text, lines_under, share_text, word
from headtohead.report.page import p_text, parameters_text, r_text, verdict_table
from headtohead.run.events import Analysed, Cell, Note, Stage
from helpers.stores import stored
from helpers.studies import carried, study
from helpers.verdicts import judged

WARNINGS = [
    "67.2% of the test set's texts are in the training data too",
    "[b]Sinusoidal: position vectors are 35 × as large as token vectors (rms 0.707 and 0.0204), so it hardly sees",
    "Learned: the first loss is 9.9",
]


def test_warnings_fit_a_terminal_of_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    with study_screen("test/loss", console) as screen:
        screen.hear(Stage("runs", [Cell("Learned", 0, "Learned-0", "Learned")], warnings=WARNINGS[:1]))
        for line in WARNINGS:
            screen.hear(Note(f"warning: {line}"))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert max(len(line) for line in text.splitlines()) <= 80
    words = " ".join(text.split())
    assert all(words.count(f"warning: {line}") == 1 for line in WARNINGS)


def shown(verdicts: Verdicts, width: int) -> str:
    out = io.StringIO()
    show(verdicts, Console(file=out, width=width, highlight=False))
    return out.getvalue()


ODD = ["Is [/b] a", "[bold]x[/bold]", ":smile: [link=x]", "[red]", "C:\\[/]"]


@pytest.mark.parametrize("width", [40, 90, 200])
def test_brackets_and_colons_in_names_are_printed(width: int):
    said = shown(judged(*ODD, question="Is [/b] or [bold] :smile: better?"), width)
    assert "Is [/b] or [bold] :smile: better?" in said
    for name in ODD:
        assert name in said


def test_a_failure_message_with_brackets_is_printed(text: Path, home: Path):
    from headtohead.display.study import study_screen
    from headtohead.run.events import Failed

    out = io.StringIO()
    cells = [carried(study(text, seeds=2), home)[0].cells[0]]
    with study_screen("test/loss", Console(file=out)) as screen:
        screen.hear(Stage("runs", cells))
        screen.hear(Failed(cells[0].id, "no [/b] :smile:"))
    assert "Learned, seed 0 failed: no [/b] :smile:" in out.getvalue()


@pytest.mark.parametrize("metric", ["test/loss", "validation/bits_per_byte"])
@pytest.mark.parametrize("width", [20, 30, 40, 60, 72, 80, 100, 132, 200])
def test_no_number_and_no_verdict_is_cut(width: int, metric: str):
    verdicts = judged("Rope", "L" * 300, "diverged", metric=metric, pairs=5 if width % 20 else 6)
    said = shown(verdicts, width)
    table = said[: said.index("scope: ")].splitlines()[:-1]
    assert all(len(line) <= width for line in table if "pairs" not in line)
    for row in list(verdicts)[:2]:
        v = row.verdict
        whole = [text_of(metric, row.mean), text_of(metric, v.difference, signed=True), f"{v.agree}/{v.pairs}"]
        whole += [p_text(row), r_text(row), parameters_text(row), *share_text(row.extra_time).split()]
        for figure in [*whole, *interval_text(metric, v.low, v.high).split(), *word(row).split()]:
            assert re.search(rf"(?<!\S){re.escape(figure)}(?!\S)", said), (figure, said)
    assert said.count("L") - said.count("Learned") - said.count("FLOPs") >= 300


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_number_of_the_board_is_cut(width: int, text: Path, home: Path):
    made = study(text, seeds=6, vary={"model.position": ["Learned", "Rope"]})
    board = Board("test/loss")
    for event in carried(made, home):
        board.hear(event)
    out = io.StringIO()
    Console(file=out, width=width).print(board)
    for figure in made.outcome(home).results()["test/loss"]:
        assert re.search(rf"(?<!\S){figure:.4f}(?!\S)", out.getvalue()), out.getvalue()
    assert "…" not in out.getvalue()


def test_signs_and_small_p_look_the_same_on_screen_and_page():
    many = judged("Rope", pairs=16)
    row = many["Rope"]
    assert row.verdict.p < 0.001
    assert row.verdict.correlation < 0
    for said in (shown(many, 200), verdict_table(many)):
        assert "<0.001" in said.replace("&lt;", "<")
        assert "0.000" not in said
        assert f"−{-row.verdict.correlation:.2f}" in said
        assert "-" not in re.sub(r"[<]/?[^<]*>", "", said)


# -- sequential studies ------------------------------------------------------------------------------------------------

DESIGN = {"analyses": [6, 8, 10, 14, 20], "reserve": 0.1, "rule": "flips", "alpha": 0.05}


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_figure_of_a_sequential_table_is_cut(home: Path, width: int):
    effects = {"Rope": -0.3, "a longer name of an arm": 0.002}
    verdicts = stored(home, effects, design=DESIGN, published=-0.2, margin=0.001).verdicts
    text = shown(verdicts, width)
    together = "".join(text.split())
    assert "…\n" not in text
    for row in verdicts:
        v = row.verdict
        for figure in (
            text_of("test/loss", v.difference, signed=True),
            interval_text("test/loss", v.low, v.high),
            interval_text("test/loss", v.alone_low, v.alone_high),
            text_of("test/loss", v.estimate, signed=True),
            p_text(row),
            analysis_text(row),
            v.verdict,
        ):
            assert "".join(figure.split()) in together
    for line in lines_under(verdicts):
        assert line in text
    table = text.partition("the control against itself")[0]
    assert max(map(len, table.splitlines())) <= width


def test_an_analysis_says_what_is_decided_and_what_is_open():
    event = Analysed(
        number=2,
        of=5,
        pairs=8,
        spent=0.0182,
        decided={"Rope": "better", "Alibi": "better", "None": "worse"},
        open=("Sinusoidal",),
        stopped={"Odd": "too many of its runs diverged, collapsed or failed"},
        next_pairs=10,
        seconds_left=90.0,
        folder="",
    )
    assert analysis_lines(event) == [
        "analysis 2 of 5, 8 pairs, 1.8 % error spent: better: Rope, Alibi; worse: None; open: Sinusoidal; unresolved: "
        "Odd (too many of its runs diverged, collapsed or failed)",
        "next analysis after 10 pairs; all analyses take at most 90 s more",
    ]
    assert analysis_lines(dataclasses.replace(event, of=1)) == []
    (last,) = analysis_lines(dataclasses.replace(event, number=0, next_pairs=None, seconds_left=None))
    assert last.startswith("analysis outside the plan, 8 pairs")
