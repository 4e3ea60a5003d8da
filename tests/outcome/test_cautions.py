"""Warnings come when they should, and seldom on normal noise."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headtohead.outcome.cautions import at_edge, cautions, disagreeing, far_off, skewed
from headtohead.outcome.outcome import RunRow, load_outcome
from headtohead.run.studies import TuningRecord
from helpers.stores import stored

STUDIES = 2000


def rows(arm: str, values: Sequence[float], **others: Sequence[float]) -> list[RunRow]:
    """Complete runs of an arm; `others` are further figures of the test set."""
    return [
        RunRow(
            arm,
            seed,
            f"run{seed}",
            "complete",
            "",
            float(value),
            values={f"test/{k}": v[seed] for k, v in others.items()},
        )
        for seed, value in enumerate(values)
    ]


def warned(values: Sequence[float], metric: str = "test/loss") -> list[str]:
    return list(skewed(metric, "Rope", dict(enumerate(values))))


def two_sentences(line: str) -> bool:
    return len(re.findall(r"\.(?:\s|$)", line)) <= 2 and line.endswith(".")


# -- skewed differences ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 7, 8, 10, 20, 40])
def test_normal_differences_are_seldom_called_skewed(n: int):
    make = np.random.default_rng(n)
    alarms = [bool(warned(make.normal(0.1, 1, size=n))) for _ in range(STUDIES)]
    assert np.mean(alarms) <= 0.05


def test_one_pair_far_off_is_named_with_mean_and_median():
    d = [-0.01, -0.02, -0.015, -0.9, -0.012, -0.018]
    without = [np.mean(np.delete(d, i)) for i in range(6)]
    (line,) = warned(d)
    numbers = [f"{x:+.4f}".replace("-", "−") for x in (np.mean(d), np.median(d), min(without), max(without))]
    assert line == (
        "Rope: the differences are skewed: mean {}, median {}, mean without one pair {} to {}. Compare the runs of "
        "seed 3 with the others before you use the mean."
    ).format(*numbers)


@pytest.mark.parametrize("shift", [0.0, -5.0, 100.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_outlier_on_either_side_is_found_wherever_the_mean_lies(shift: float, sign: int):
    d = np.random.default_rng(0).normal(size=10)
    assert not warned(d + shift)
    d[4] += sign * 12
    (line,) = warned(d + shift)
    assert "seed 4 " in line


def test_a_long_tail_without_a_single_outlier_is_skewed():
    d = np.r_[np.full(26, 0.0) + np.linspace(0, 0.1, 26), 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7]
    (line,) = warned(d)
    assert line.endswith("Report the median beside the mean.")
    assert two_sentences(line)


def test_skewed_differences_are_often_called_skewed():
    make = np.random.default_rng(1)
    share = np.mean([bool(warned(make.lognormal(sigma=1.5, size=10))) for _ in range(300)])
    assert share > 0.4


def test_few_or_equal_differences_are_not_judged():
    assert not warned([0, 0, 0, 0, 9])
    assert not warned([0.5] * 8)
    assert not warned([0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.3])
    assert not warned([])
    assert warned([0.5] * 7 + [0.6]), "one pair makes all the difference"


# -- runs far off ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 7, 8, 10, 12, 20])
def test_normal_values_are_seldom_called_far_worse(n: int):
    make = np.random.default_rng(n)
    alarms = [bool(list(far_off("test/loss", rows("Rope", make.normal(4, 0.1, size=n))))) for _ in range(STUDIES)]
    assert np.mean(alarms) <= 0.02


def test_a_half_failed_run_is_named_with_its_seed_and_value():
    values = [3.01, 3.02, 3.0, 4.5, 2.99, 3.03]
    (line,) = far_off("test/loss", rows("Learned", values))
    assert line.startswith("Learned: 4.5000 (seed 3) is far worse than the arm's median 3.0150: the training may have")
    assert two_sentences(line)
    (line,) = far_off("test/loss", rows("Learned", [*values, 3.04, 4.6]))
    assert "4.5000 (seed 3), 4.6000 (seed 7) are far worse" in line


def test_only_the_bad_side_counts():
    values = [3.01, 3.02, 3.0, 1.5, 2.99, 3.03]
    assert not list(far_off("test/loss", rows("Learned", values)))
    (line,) = far_off("test/accuracy", rows("Learned", [0.81, 0.82, 0.8, 0.4, 0.79, 0.83]))
    assert "40.00 % (seed 3)" in line
    assert not list(far_off("test/accuracy", rows("Learned", [0.21, 0.22, 0.2, 0.6, 0.19, 0.23])))


def test_runs_without_a_value_and_equal_runs_are_not_judged():
    assert not list(far_off("test/loss", rows("Learned", [3.0] * 7 + [9.0]))), "no deviation to compare with"
    assert not list(far_off("test/loss", rows("Learned", [3.0, 3.1, 2.9, 9.0, float("nan"), float("nan")])))


# -- loss and accuracy -------------------------------------------------------------------------------------------------

NOISE = np.array([0.01, -0.008, 0.005, 0.0, -0.01, 0.004, 0.002, -0.003])


def pair(metric: str, accuracy: float, loss: float, spread: float = 1.0) -> list[str]:
    """The warnings if the arm's accuracy and loss differ from the control's by these amounts."""
    figures = {"accuracy": 0.8 + 0 * NOISE, "loss": 0.5 + 0 * NOISE}
    other = {"accuracy": 0.8 + accuracy + NOISE * spread, "loss": 0.5 + loss + NOISE[::-1] * spread}
    own = metric.partition("/")[2]
    control, variant = rows("Learned", figures[own], **figures), rows("Rope", other[own], **other)
    return list(disagreeing(metric, "Rope", list(zip(control, variant, strict=True))))


def test_accuracy_and_loss_that_point_apart_are_shown_together():
    (line,) = pair("test/accuracy", 0.02, 0.1)
    assert line == (
        "Rope: accuracy is better (+2.00 points) and loss is worse (+0.1000, p = 0.008) in the same runs. Report both: "
        "loss also counts how confident wrong answers are."
    )
    (line,) = pair("test/accuracy", -0.02, -0.1)
    assert "accuracy is worse (−2.00 points) and loss is better (−0.1000, " in line
    (line,) = pair("test/loss", 0.1, 0.02)
    assert line.startswith("Rope: loss is worse (+0.0200) and accuracy is better (+10.00 points, p = 0.008)")


@pytest.mark.parametrize(("accuracy", "loss"), [(0.02, -0.1), (-0.02, 0.1)])
@pytest.mark.parametrize("metric", ["test/accuracy", "test/loss"])
def test_accuracy_and_loss_that_agree_give_no_warning(metric: str, accuracy: float, loss: float):
    assert pair(metric, accuracy, loss) == []


def test_noise_of_the_other_figure_gives_no_warning():
    assert pair("test/accuracy", 0.02, 0.001, spread=5) == []


def test_runs_without_the_other_figure_give_no_warning():
    both = list(zip(rows("a", [0.8] * 8), rows("b", [0.9] * 8), strict=True))
    assert list(disagreeing("test/accuracy", "b", both)) == []
    assert list(disagreeing("test/perplexity", "b", both)) == []


# -- the edge of a grid, and all together ------------------------------------------------------------------------------


def test_each_setting_at_the_edge_of_its_grid_is_named():
    tuned = TuningRecord(
        "Rope", "validation/loss", (), {"train.optimizer.lr": 0.01, "train.batch": 8}, ("train.batch",)
    )
    assert list(at_edge([tuned])) == [
        "Rope was best at train.batch = 8, the edge of the grid: a better value may lie beyond. Add values there."
    ]


def test_control_and_arms_are_all_examined():
    control = rows("Learned", [3.01, 3.02, 3.0, 4.5, 2.99, 3.03])
    rope = rows("Rope", [2.9, 2.91, 2.92, 2.93, 2.89, 2.88])
    tuned = TuningRecord("Rope", "validation/loss", (), {"train.batch": 8}, ("train.batch",))
    found = list(cautions("test/loss", "lm", [tuned], control, {"Rope": rope}))
    assert [line.split(":")[0] for line in found] == [
        "Learned",
        "Rope",
        "Rope was best at train.batch = 8, the edge of the grid",
    ]
    calm = rows("Learned", [3.01, 3.02, 3.0, 2.98, 2.99, 3.03])
    assert list(cautions("test/loss", "lm", [], calm, {"Rope": rope})) == []
    assert all(map(two_sentences, found))


def test_pairs_are_matched_by_seed():
    """Paired by place, the rotated runs would differ by 1, 2, 4 … 32 and −63, which is skewed."""
    control = rows("Learned", [2.0**n for n in range(7)])
    rope = rows("Rope", [2.0**n + 0.1 * (n % 2) for n in range(7)])
    assert list(cautions("test/loss", "lm", [], control, {"Rope": [*rope[1:], rope[0]]})) == []
    assert warned([*(2.0**n for n in range(6)), -63.0])


def test_a_study_shows_its_warnings(home: Path):
    made = stored(home, {"Rope": -0.01, "Alibi": -0.02}, seeds=8, noise=0.005)
    assert made.verdicts.notes == ()
    path = home / "runs" / made.rows["", "Rope"][5].run / "result.json"
    result = json.loads(path.read_text())
    result["values"]["test/loss"] += 2.0
    path.write_text(json.dumps(result))
    notes = load_outcome(made.folder).verdicts.notes
    assert [note.split(":")[0] for note in notes] == ["Rope", "Rope"]
    assert "(seed 5) is far worse" in notes[0]
    assert "the differences are skewed" in notes[1]
    assert "warning: Rope: the differences are skewed" in str(load_outcome(made.folder).verdicts).replace("\n", " ")
