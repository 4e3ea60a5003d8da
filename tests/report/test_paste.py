"""Tables to paste and the methods paragraph: every figure of the verdicts is in them, and nothing breaks out."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from headtohead.outcome.metrics import text_of
from headtohead.outcome.wording import interval_text, p_text
from headtohead.report.paste import cells, latex, markdown, methods
from headtohead.run.studies import TuningRecord
from helpers.stores import stored

ODD = {r"a_b & 50% $x$ #1 {y} \z ~ ^": -0.3, "<b>|pipe| `x`": 0.1, "Ünïcode 中文": 0.0}


def test_tables_hold_every_arm_and_number(home: Path):
    verdicts = stored(home).verdicts
    head, control, *rows = cells(verdicts)
    assert control[0] == "Learned (control)"
    assert len(rows) == 2
    for row, told in zip(verdicts, rows, strict=True):
        v = row.verdict
        assert len(told) == len(head)
        assert told[2] == text_of("test/loss", v.difference, signed=True)
        assert told[3] == interval_text("test/loss", v.low, v.high)
        assert told[4:7] == [p_text(row), v.verdict, "6"]


def test_markdown_rows_have_one_cell_per_column(home: Path):
    lines = markdown(stored(home, ODD).verdicts).splitlines()
    assert len(lines) == 3 + len(ODD)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {11}
    assert r"\<b>\|pipe\| \`x\`" in lines[4]


def test_latex_escapes_special_characters(home: Path):
    text = latex(stored(home, ODD, question="100% & more_").verdicts)
    assert r"a\_b \& 50\% \$x\$ \#1 \{y\} \textbackslash{}z \textasciitilde{} \textasciicircum{}" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {9}
    assert r"100\% \& more\_" in text
    assert "−" not in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_the_methods_paragraph_describes_this_study(home: Path):
    outcome = stored(home)
    text = methods(outcome, outcome.verdicts)
    for fact in (
        "2 variants",
        "language model",
        "model.position",
        "sotu",
        "6 seeds",
        "exact",
        "all 2 arms",
        "differed",
    ):
        assert fact in text
    assert "equivalent" not in text  # no margin was given
    alone = stored(home, {"Rope": 0.0}, margin=0.5, seeds=20, again=False, name="alone", lost={("Rope", 0): "diverged"})
    text = methods(alone, alone.verdicts)
    assert "1 variant of" in text
    assert "within ± 0.5000 nats" in text
    assert "an exact sign-flip test over a subgroup of" in text
    assert "simultaneous" not in text
    assert "differed from itself" not in text
    assert "One run has no value" in text


def test_methods_of_tuned_arms_state_their_settings(home: Path):
    outcome = stored(home, {"Rope": -0.3})
    (table,) = outcome.record.tables
    tables = tuple(dataclasses.replace(table, title=title) for title in ("own best", "shared"))
    tuning = (TuningRecord("Rope", "", (), {"train.optimizer.lr": 0.01}, ()),)
    outcome = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, tables=tables, tuning=tuning))
    table.control.spec["evaluate"] = {"keep": "best"}
    own, shared = (methods(outcome, outcome.table(title)) for title in ("own best", "shared"))
    assert "differs from it in model.position, each at settings chosen for it, on" in own
    assert "For every arm train.optimizer.lr was chosen" in own
    assert "differs from it in model.position alone, on" in shared
    assert "For the control, and so for all arms, train.optimizer.lr was chosen" in shared
    assert "of the weights that did best on the validation set" in own


def test_methods_name_the_corpus_once_and_the_correction(home: Path):
    lost = {("Alibi", seed): "failed" for seed in range(3)}
    outcome = stored(home, {"Rope": -0.3, "Alibi": 0.1, "None": 0.2}, lost=lost)
    text = methods(outcome, outcome.verdicts)
    assert text.count("sotu") == 1
    assert "simultaneous for the 2 arms with 6 pairs or more by" in text


def test_differences_of_accuracies_are_points(home: Path):
    head, control, row = cells(stored(home, {"Rope": 0.1}, task="classifier").verdicts)
    assert head[2] == "difference, points"
    assert "%" in control[1]
    assert "%" not in row[2] + row[3]


def test_methods_claim_no_shared_order_where_batches_differ(home: Path):
    outcome = stored(home, {"Rope": -0.3}, vary=["train.batch"])
    assert "batches come in the same order" not in methods(outcome, outcome.verdicts)
