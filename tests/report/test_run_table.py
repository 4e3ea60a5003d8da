"""Tables of runs: every cell is a number of the store, rows are chosen as asked, and formats hold the same."""

from __future__ import annotations

import csv
import io
import json
import statistics

import pytest

from headtohead import InputError
from headtohead.report import run_table
from headtohead.report.named_runs import find_groups
from headtohead.run.results import Times
from helpers.stores import Shelf


def rows(text: str) -> dict[str, list[str]]:
    """A table's lines by their first cell, without the title."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:] if line.split()}


def test_one_run_has_a_row_for_each_evaluation(shelf: Shelf):
    found = run_table.read([shelf.lm], metrics=["perplexity"])
    text = found.write("text")
    head = text.splitlines()[1].split()
    assert head == ["step", "batch", "loss", "train", "validation", "test", "seconds"]
    shown = rows(text)
    assert list(shown) == ["0", "10", "20", "30", "40", "end"]
    seconds = shelf.lm.times.seconds_at
    for line in shelf.lm.metrics:
        if "test/loss" in line:
            step = str(line["step"])
            since = [
                b["train/batch_loss"] for b in shelf.lm.metrics if line["step"] - 10 < b["step"] <= line["step"] > 0
            ]
            batch = f"{statistics.fmean(since):.4f}" if since else "–"
            wanted = [f"{line[f'{name}/perplexity']:.2f}" for name in ("train", "validation", "test")]
            assert shown[step] == [batch, *wanted, f"{seconds[step]:.1f}"]
    exact = [row.values[run_table.SECONDS] for row in found.runs[0].rows]
    assert exact == [[at] for at in seconds.values()]
    assert shelf.lm.result is not None
    ends = [f"{shelf.lm.result.values[f'{name}/perplexity']:.2f}" for name in ("train", "validation", "test")]
    assert shown["end"] == ["–", *ends, "–"]


def test_every_chooses_rows_and_keeps_the_last(shelf: Shelf):
    assert [row.step for row in run_table.read([shelf.lm], every=20).runs[0].rows] == [0, 20, 40]
    assert [row.step for row in run_table.read([shelf.lm], every=30).runs[0].rows] == [0, 30, 40]
    assert [row.step for row in run_table.read([shelf.lm], every=40).runs[0].rows] == [0, 40]
    epochs = run_table.read([shelf.classifier], every=2).runs[0].rows
    assert [row.epoch for row in epochs] == [0, 2, 3]
    with pytest.raises(InputError, match=r"evaluations are 10 steps apart .* or train with --set evaluate.every=7"):
        run_table.read([shelf.lm], every=7)


def test_accuracies_are_percent_and_several_metrics_fit(shelf: Shelf):
    found = run_table.read([shelf.classifier], metrics=["accuracy", "loss"])
    first, (table,) = shelf.classifier.metrics[0], found.tables()
    names = ("train", "validation", "test")
    assert table.rows[0][2:5] == [f"{100 * first[f'{name}/accuracy']:.2f}" for name in names]
    assert table.rows[0][5:8] == [f"{first[f'{name}/loss']:.4f}" for name in names]
    assert table.title.startswith("accuracy (%), loss (nats per text): classifier on mine.csv, seed 0 (run ")
    assert max(map(len, found.write("text").splitlines())) <= 80


def test_a_test_set_read_once_is_in_the_last_row(shelf: Shelf):
    found = run_table.read([shelf.unwatched])
    shown = rows(found.write("text"))
    assert shown["20"][3] == "–"
    assert shelf.unwatched.result is not None
    assert shown["end"][3] == f"{shelf.unwatched.result.values['test/loss']:.4f}"
    assert any("watch_test" in note for note in found.notes)
    with pytest.raises(InputError, match="watch_test=true"):
        run_table.read([shelf.unwatched], sets=["test"])


def test_runs_stand_side_by_side_in_a_table_per_set(shelf: Shelf):
    tables = run_table.read([shelf.lm, shelf.rope], metrics=["perplexity"]).tables()
    assert [table.title.partition(":")[0] for table in tables] == [
        "batch loss (nats per token)",
        *(f"{name} perplexity (per token)" for name in ("train", "validation", "test")),
        "training time (s)",
    ]
    test = tables[3]
    assert list(test.head) == ["step", "Learned, seed 0", "Rope, seed 0"]
    last = [f"{record.metrics[-1]['test/perplexity']:.2f}" for record in (shelf.lm, shelf.rope)]
    assert [row[1:] for row in test.rows if row[0] == "40"] == [last]
    (only,) = run_table.read([shelf.lm, shelf.rope], sets=["test"]).tables()
    assert only.title.startswith("test loss (nats per token)")


def test_seeds_are_mean_and_standard_deviation(shelf: Shelf):
    (group,) = find_groups([shelf.lm.id], shelf.home, all_seeds=True)
    found = run_table.read([group], sets=["test"])
    values = [record.metrics[-1]["test/loss"] for record in group.records]
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    assert found.tables()[0].rows[4][1] == f"{mean:.4f} ± {sd:.4f}"
    said = found.to_json()["runs"][0]["rows"][-1]
    assert (said["test/loss"], said["test/loss sd"]) == (pytest.approx(mean), pytest.approx(sd))
    head, *_, last = csv.reader(io.StringIO(found.csv()))
    assert head == ["step", "epoch", "test/loss", "test/loss sd", "seconds", "seconds sd"]
    assert [float(cell) for cell in last[2:4]] == [pytest.approx(mean), pytest.approx(sd)]


def test_csv_of_several_runs_has_one_head(shelf: Shelf):
    found = run_table.read([shelf.lm, shelf.rope], metrics=["perplexity"], sets=["train", "test"])
    head, *lines = csv.reader(io.StringIO(found.write("csv")))
    names = [f"{arm}, seed 0: {name}/perplexity" for arm in ("Learned", "Rope") for name in ("train", "test")]
    assert head == ["step", "epoch", *names]
    assert [line[0] for line in lines] == ["0", "10", "20", "30", "40"]
    assert float(lines[-1][-1]) == shelf.rope.metrics[-1]["test/perplexity"]


def test_formats_hold_the_same_cells(shelf: Shelf):
    found = run_table.read([shelf.classifier])
    (table,) = found.tables()
    markdown = found.write("markdown").splitlines()
    assert [cell.strip() for cell in markdown[4].split("|")[1:-1]] == list(table.rows[0])
    latex = found.write("latex")
    assert r"\begin{tabular}{rrrrrr}" in latex
    assert " & ".join(table.rows[1]) + r" \\" in latex
    assert r"accuracy (\%)" in latex


def test_json_has_rows_and_the_end(shelf: Shelf):
    said = json.loads(json.dumps(run_table.read([shelf.lm]).to_json()))
    (run,) = said["runs"]
    assert [row["step"] for row in run["rows"]] == [0, 10, 20, 30, 40]
    assert shelf.lm.result is not None
    assert run["end"]["test/loss"] == shelf.lm.result.values["test/loss"]
    assert said["columns"][0] == "train/batch_loss"


def test_runs_without_times_by_step_use_the_mean():
    class Old:
        times = Times(seconds=4.0, step_ms=100.0)

    assert run_table._seconds(Old(), 40) == 4.0  # type: ignore[arg-type]
