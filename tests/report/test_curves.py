"""Learning curves: the numbers are those of metrics.jsonl, and the picture can be read in grey and without guessing."""

from __future__ import annotations

import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headtohead import Arm, InputError
from headtohead.report import curves
from headtohead.report.named_runs import find_groups
from headtohead.run.store import Record
from helpers.runs import without_checksums
from helpers.stores import Shelf, stored


def logged(record: Record, key: str) -> dict[int, float]:
    return {line["step"]: line[key] for line in record.metrics if key in line}


def test_curve_values_are_those_of_metrics_jsonl(shelf: Shelf):
    found = curves.read([shelf.lm])
    assert (found.metric, found.axis, found.unit) == ("loss", "step", "nats per token")
    assert found.sets == ["train", "validation", "test"]
    for curve in found.curves:
        assert dict(zip(curve.steps, curve.values[0], strict=True)) == logged(shelf.lm, f"{curve.set}/loss")
    bytes_ = curves.read([shelf.lm], metric="bits_per_byte", sets=["test"])
    assert bytes_.curves[0].mean.tolist() == list(logged(shelf.lm, "test/bits_per_byte").values())


def test_batch_losses_are_means_between_evaluations(shelf: Shelf):
    (loss,) = curves.read([shelf.lm], sets=["batches"]).curves
    (perplexity,) = curves.read([shelf.lm], metric="perplexity", sets=["batches"]).curves
    assert dict(zip(loss.steps, loss.mean, strict=True)) == logged(shelf.lm, "train/batch_loss")
    assert perplexity.mean == pytest.approx(np.exp(loss.mean))
    with pytest.raises(InputError, match="batches have no accuracy: give --metric loss"):
        curves.read([shelf.classifier], sets=["batches"])


def test_few_batch_losses_are_joined_with_the_next(tmp_path: Path):
    steps = {10: 2.0, 20: 4.0, 22: 9.0, 30: 5.0, 40: 6.0, 41: 1.0}
    lines = [{"step": step, "train/batch_loss": loss, "lr": 0.1} for step, loss in steps.items()]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = curves.points(Record(tmp_path), "loss")["batches"]
    assert found == {10: 2.0, 20: 4.0, 30: pytest.approx((2 * 9 + 8 * 5) / 10), 40: 6.0, 41: 1.0}
    assert curves.mean_loss(curves.batch_losses(Record(tmp_path))[:3]) == pytest.approx((20 + 40 + 18) / 22)


def test_a_classifier_has_accuracy_over_epochs(shelf: Shelf):
    found = curves.read([shelf.classifier])
    assert (found.metric, found.axis, found.scale) == ("accuracy", "epoch", 100)
    assert found.x(found.curves[0]) == [0, 1, 2, 3]
    assert curves.read([shelf.classifier], axis="steps").x(found.curves[0]) == found.curves[0].steps


def test_seeds_become_a_mean(shelf: Shelf):
    (group,) = find_groups([shelf.lm.id], shelf.home, all_seeds=True)
    (curve,) = curves.read([group], sets=["test"]).curves
    values = [list(logged(record, "test/loss").values()) for record in group.records]
    assert curve.values.tolist() == values
    assert curve.mean == pytest.approx(np.mean(values, axis=0))


def test_the_name_test_means_all_test_sets(shelf: Shelf, tmp_path: Path):
    copy = without_checksums(Path(shutil.copytree(shelf.lm.folder, tmp_path / shelf.lm.id)))
    for name in ("metrics.jsonl", "result.json"):
        text = (
            (copy / name)
            .read_text()
            .replace('"test/', '"obama/')
            .replace('"tests": [\n      "test"', '"tests": ["obama"')
        )
        (copy / name).write_text(text)
    assert curves.read([Record(copy)], sets=["test", "train"]).sets == ["train", "obama"]


def test_absent_test_curves_name_the_setting(shelf: Shelf):
    said = "has no test curve: .* train with --set evaluate.watch_test=true"
    with pytest.raises(InputError, match=said):
        curves.read([shelf.unwatched], sets=["test"])
    found = curves.read([shelf.unwatched])
    assert found.sets == ["train", "validation"]
    assert any("--set evaluate.watch_test=true" in note for note in found.notes)
    assert not any("watch_test" in note for note in curves.read([shelf.lm]).notes)


def test_unknown_sets_and_metrics_are_one_line(shelf: Shelf):
    with pytest.raises(InputError, match=r"evaluated no set 'tset': did you mean test\?"):
        curves.read([shelf.lm], sets=["tset"])
    with pytest.raises(InputError, match="language models have no accuracy: known: bits_per_byte"):
        curves.read([shelf.lm], metric="accuracy")
    with pytest.raises(InputError, match="give runs of one kind"):
        curves.read([shelf.lm, shelf.classifier])
    with pytest.raises(InputError, match="choose step or epoch"):
        curves.read([shelf.lm], axis="hours")
    with pytest.raises(InputError, match="no run was given"):
        curves.read([])


def test_an_unfinished_run_has_curves_and_a_note(shelf: Shelf, tmp_path: Path):
    copy = Record(Path(shutil.copytree(shelf.lm.folder, tmp_path / shelf.lm.id)))
    (copy.folder / "result.json").unlink()
    lines = (copy.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy.folder / "metrics.jsonl").write_text("".join(lines[:25]) + lines[25][:9])
    found = curves.read([copy], sets=["test"])
    assert found.curves[0].steps == [0, 10, 20]
    assert found.notes[0] == f"run {copy.id[:8]}: stopped at step 24"
    (copy.folder / "metrics.jsonl").write_text("")
    with pytest.raises(InputError, match="has no loss yet"):
        curves.read([copy])


def test_curves_json_holds_every_number(shelf: Shelf):
    said = json.loads(json.dumps(curves.read([shelf.lm, shelf.rope]).to_json()))
    assert said["metric"] == "loss"
    assert {(line["label"], line["set"]) for line in said["curves"]} == {
        (f"{arm}, seed 0", name) for arm in ("Learned", "Rope") for name in ("train", "validation", "test")
    }
    first = said["curves"][0]
    assert first["runs"] == [shelf.lm.id]
    assert first["mean"] == first["values"][0] == list(logged(shelf.lm, "train/loss").values())


def test_the_summary_has_first_best_last_and_end(shelf: Shelf):
    text = curves.summary(curves.read([shelf.unwatched])).text(80)
    assert shelf.unwatched.result is not None
    values, loss = shelf.unwatched.result.values, list(logged(shelf.unwatched, "validation/loss").values())
    cells = next(line.split() for line in text.splitlines() if line.startswith("validation"))
    best = min(range(len(loss)), key=loss.__getitem__)
    steps = list(logged(shelf.unwatched, "validation/loss"))
    assert cells[1:] == [
        *(f"{loss[0]:.4f}", f"{loss[best]:.4f}", f"{steps[best]}", f"{loss[-1]:.4f}"),
        f"{values['validation/loss']:.4f}",
    ]
    assert f"{values['test/loss']:.4f}" in text  # measured at the end, though there is no curve
    assert max(map(len, text.splitlines())) <= 80


# -- the picture -------------------------------------------------------------------------------------------------------


def visible(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_visible()]


def drawn_lines(figure: Any) -> list[Any]:
    return [line for axes in visible(figure) for line in axes.lines]


def test_one_run_is_one_panel_with_labelled_axes(shelf: Shelf):
    figure = curves.plot([shelf.lm])
    (axes,) = visible(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training step", "loss (nats per token)")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "validation", "test"]
    assert figure.get_suptitle().startswith("lm on mine.txt, seed 0 (run ")
    percent = curves.plot([shelf.classifier]).axes[0]
    assert (percent.get_xlabel(), percent.get_ylabel()) == ("epoch", "accuracy (%)")
    assert 20 < percent.get_ylim()[1] <= 110


def test_several_runs_get_a_panel_for_each_set(shelf: Shelf):
    figure = curves.plot([shelf.lm, shelf.rope])
    assert [axes.get_title(loc="left") for axes in visible(figure)] == ["train", "validation", "test"]
    assert [len(axes.lines) for axes in visible(figure)] == [2, 2, 2]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Learned, seed 0", "Rope, seed 0"]
    assert len({axes.get_ylim() for axes in visible(figure)}) == 1, "one scale, so that sets compare"


def test_lines_differ_without_colour(home: Path):
    outcome = stored(home, {f"arm {n}": 0.1 * n for n in range(1, 8)})
    figure = curves.plot(find_groups(["stored"], home), sets=["validation"])
    lines = drawn_lines(figure)
    assert len(lines) == len(outcome.rows) == 8
    looks = {(line.get_marker(), str(line._unscaled_dash_pattern)) for line in lines}
    assert len(looks) == len(lines)


def test_the_legend_covers_no_line(shelf: Shelf):
    for runs in ([shelf.lm], [shelf.lm, shelf.rope]):
        figure = curves.plot(runs)
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        assert not any(box.overlaps(axes.get_window_extent()) for axes in visible(figure))


def test_seeds_are_a_line_and_a_band(shelf: Shelf):
    figure = curves.plot(find_groups(["tiny/Rope"], shelf.home), sets=["validation"])
    (axes,) = visible(figure)
    assert len(axes.lines) == len(axes.collections) == 1
    assert figure.get_suptitle().endswith("Rope, mean and range of 2 seeds")


def test_an_untrained_loss_far_above_is_not_drawn(home: Path):
    stored(home, {})
    (group,) = find_groups(["stored/Learned"], home)
    for record in group.records:
        lines = [json.loads(line) for line in (record.folder / "metrics.jsonl").read_text().splitlines()]
        lines[0]["validation/loss"] = 900.0
        (record.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = curves.read([group], sets=["validation"])
    (line,) = drawn_lines(curves.draw([found]))
    (whole,) = drawn_lines(curves.draw([found], log=True))
    assert line.get_xdata()[0] > 0
    assert whole.get_xdata()[0] == 0
    assert curves.hidden(found) == ["the untrained model (step 0) lies far above and is not drawn: --log shows it"]


def test_a_log_scale_has_plain_numbers(shelf: Shelf):
    figure = curves.plot([shelf.lm], metric="perplexity", log=True)
    (axes,) = visible(figure)
    figure.draw_without_rendering()
    assert axes.get_yscale() == "log"
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert ticks
    assert all(math.isfinite(float(tick.replace(",", ""))) for tick in ticks)


def test_weights_kept_before_the_end_are_marked(shelf: Shelf, tmp_path: Path):
    copy = Record(without_checksums(Path(shutil.copytree(shelf.classifier.folder, tmp_path / shelf.classifier.id))))
    said = json.loads((copy.folder / "result.json").read_text())
    (copy.folder / "result.json").write_text(json.dumps(said | {"weights_of": said["steps"] // 3}))
    figure = curves.plot([copy])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["train", "validation", "test", "weights kept"]
    assert visible(figure)[0].lines[-1].get_xdata()[0] == 1  # the first of three epochs
    assert "weights kept" not in str(curves.plot([shelf.classifier]).legends[0].get_texts())


def test_files_are_the_same_bytes_every_time(shelf: Shelf):
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}
    for kind, start in starts.items():
        data = curves.render(curves.plot([shelf.lm]), kind)
        assert data.startswith(start)
        assert data == curves.render(curves.plot([shelf.lm]), kind)
    with Image.open(io.BytesIO(curves.render(curves.plot([shelf.lm])))) as image:
        assert image.width >= 1200
    with pytest.raises(InputError, match="png, svg or pdf, not 'gif'"):
        curves.render(curves.plot([shelf.lm]), "gif")


def test_overfitting_is_reported_from_the_curves(tmp_path):
    folder = tmp_path / "runs" / "0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"seed": 3, "arm": Arm.of("classifier").to_json()}), encoding="utf-8")
    data = {"sets": {"train": {"texts": 160}}, "tests": ["test"]}
    result = {"status": "complete", "weights_of": 20, "steps": 40, "values": {}, "data": data}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")

    def write(held, own):
        lines = (
            {"step": 10 * n, "validation/loss": h, "train/loss": o, "validation/accuracy": 0.5}
            for n, (h, o) in enumerate(zip(held, own, strict=True))
        )
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return Record(folder)

    rising = write([0.7, 0.5, 0.4, 0.5, 0.6], [0.7, 0.5, 0.3, 0.2, 0.1])
    assert "best at step 20 (0.4000) and 0.6000" in curves.overfits(rising)
    assert curves.overfits(write([0.7, 0.5, 0.4, 0.39], [0.7, 0.5, 0.3, 0.2])) == "", "still falling"
    assert curves.overfits(write([0.7, 0.5, 0.6], [0.7, 0.5, 0.6])) == "", "both rise: something else is wrong"
    assert curves.overfits(write([0.7, 0.5, 0.505], [0.7, 0.5, 0.3])) == "", "within what looks differ by"
    assert curves.picture(rising)[:4] == b"\x89PNG"
