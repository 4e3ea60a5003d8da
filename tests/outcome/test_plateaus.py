"""Plateaus: exit steps that are known, warnings where differences depend on them, and none for ordinary curves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.plateaus import (
    REMEDY,
    compare_exits,
    convex_hull,
    exit_step,
    find_plateaus,
    losses_of,
    plateau_warnings,
    plateaus_of,
    smoothed,
    warning_text,
)
from headtohead.outcome.wording import lines_under
from headtohead.run.store import Record
from helpers.stores import stored
from helpers.studies import carried, study

STEPS = np.arange(5, 501, 5) - 2.0  # the middles of a hundred records of five batches
SEEDS = range(6)


def with_plateau(exit: float, noise: float = 0.0, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    """A fast first fall, a plateau at 5.3, and a drop of 1.2 whose middle is at step `exit`."""
    first = 2.2 * np.exp(-STEPS / 8)
    drop = 1.2 / (1 + np.exp(-(STEPS - exit) / 8))
    late = 0.3 * (1 - np.exp(-np.maximum(STEPS - exit, 0) / 150))
    return 5.3 + shift + first - drop - late + np.random.default_rng(seed).normal(scale=noise, size=len(STEPS))


def ordinary(kind: str, quality: float, draw: np.random.Generator, noise: float) -> np.ndarray:
    """A curve that falls ever more slowly, or starts slowly with the rate, as a warm-up has it."""
    share = STEPS / 500
    warm = np.where(share < 0.3, share**2 / 0.6, 0.15 + (share - 0.3) * (1 - 0.5 * (share - 0.3) / 0.7)) * 500
    clean = {
        "power law": 4 * (1 + STEPS / 10) ** -0.5,
        "exponential": 3.5 * np.exp(-STEPS / 60) + 0.5 * np.exp(-STEPS / 250),
        "warm-up": 4 * (1 + warm / 10) ** -0.5,
        "annealed": 4 * (1 + STEPS / 10) ** -0.5 - 0.15 * np.clip((share - 0.7) / 0.3, 0, 1),
    }[kind]
    return 4 + quality + clean + draw.normal(scale=noise, size=len(STEPS))


# -- one run -----------------------------------------------------------------------------------------------------------


def test_the_average_is_that_of_nested_loops():
    losses = np.random.default_rng(0).normal(size=100)
    curve, records = smoothed(STEPS, losses)
    calm = [losses[0], *(sorted(losses[i - 1 : i + 2])[1] for i in range(1, 99)), losses[99]]
    for i in range(100):
        wide = 0
        while i + wide + 1 < 100 and STEPS[i + wide + 1] <= 1.1 * STEPS[i]:
            wide += 1
        wide = min(max(wide, 2), i, 99 - i)
        window = [calm[j] for j in range(i - wide, i + wide + 1)]
        assert records[i] == len(window)
        assert curve[i] == pytest.approx(sum(window) / len(window))


def test_a_line_stays_a_line_and_a_spike_goes():
    line = 5 - STEPS / 100
    assert smoothed(STEPS, line)[0] == pytest.approx(line)
    spiky = line.copy()
    spiky[30] += 9
    assert smoothed(STEPS, spiky)[0] == pytest.approx(line, abs=0.03)  # the median is a neighbour's loss


def test_the_hull_is_the_lowest_chord():
    draw = np.random.default_rng(1)
    for _ in range(20):
        x, y = np.sort(draw.uniform(0, 10, size=15)), draw.normal(size=15)
        corners = convex_hull(x, y)
        hull = np.interp(x, x[corners], y[corners])
        for i in range(15):
            chords = [
                y[a] if a == b else y[a] + (y[b] - y[a]) * (x[i] - x[a]) / (x[b] - x[a])
                for a in range(i + 1)
                for b in range(i, 15)
            ]
            assert hull[i] == pytest.approx(min(chords))


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("exit", [80.0, 150.0, 320.0])
def test_a_plateau_is_found_where_it_is(exit: float, noise: float):
    plateau = plateaus_of(STEPS, with_plateau(exit, noise))[-1]
    assert 15 < plateau.start < 60
    assert exit - 50 < plateau.end < exit
    assert exit < plateau.after < exit + 130
    assert not plateau.from_start
    found = exit_step(STEPS, with_plateau(exit, noise), 40, 0.6)
    assert found == pytest.approx(exit, abs=6 + 0.03 * exit)  # smoothing over a tenth of the step moves it


def test_the_exit_is_interpolated_between_records():
    line = 5 - STEPS / 100
    assert exit_step(STEPS, line, 100, 0.5) == pytest.approx(150)  # the records are at 148 and 153
    assert exit_step(STEPS, line, 101, 0.5) == pytest.approx(151)
    assert exit_step(STEPS, line, 100, 4.5) == math.inf
    risen = np.interp(STEPS, [0, 100, 200, 300, 500], [4.0, 5.0, 5.0, 4.0, 3.9])
    assert exit_step(STEPS, risen, 150, 0.5) == pytest.approx(250, abs=1)  # lower losses before the start do not count


def test_a_slow_start_is_marked():
    (found,) = plateaus_of(STEPS, 4 + 3 / (1 + np.exp((STEPS - 100) / 15)))
    assert found.from_start
    assert 60 < found.end < 100


@pytest.mark.parametrize("kind", ["power law", "exponential", "annealed"])
def test_a_curve_that_falls_ever_more_slowly_has_no_plateau(kind: str):
    assert plateaus_of(STEPS, ordinary(kind, 0, np.random.default_rng(0), 0.0)) == []


def test_a_low_last_record_makes_no_plateau():
    """The last points of a smoothed curve rest on few records."""
    draw = np.random.default_rng(6)
    found = 0
    for _ in range(40):
        losses = 5.6 + 2 * np.exp(-STEPS / 100) + draw.normal(scale=0.04, size=len(STEPS))
        losses[-1] -= 0.1
        found += bool(plateaus_of(STEPS, losses))
    assert found <= 2


def test_few_or_infinite_losses_have_no_plateau():
    assert plateaus_of(STEPS[:19], with_plateau(40)[:19]) == []
    broken = with_plateau(150)
    broken[50] = math.nan
    assert plateaus_of(STEPS, broken) == []


def test_losses_are_read_from_lines():
    lines: list[dict[str, object]] = [{"step": 0, "validation/loss": 9.0}]
    lines += [{"step": 5 * n, "train/batch_loss": 6.0 - n / 10} for n in range(1, 30)]
    lines[10]["train/batch_loss"] = None  # not finite
    lines += [{"step": 150, "train/batch_loss": 1.0, "validation/loss": 2.0}, {"step": 151, "status": "diverged"}]
    steps, losses = losses_of(lines)
    assert len(steps) == 29
    assert steps[:2].tolist() == [3.0, 8.0]
    assert (steps[-1], losses[-1]) == (148.0, 1.0)
    evaluated = [{"step": 10 * n, "validation/loss": float(n)} for n in range(25)]
    assert losses_of(evaluated)[0][1] == 10
    assert len(losses_of([])[0]) == 0


# -- a table -----------------------------------------------------------------------------------------------------------


def table(control: list[float], arm: list[float], per_step: float, noise: float = 0.03, of_value: float = 0.002):
    """Curves and final values: a value grows by `per_step` for each step that its run leaves later."""
    draw = np.random.default_rng(7)
    curves, values = {}, {}
    for number, (name, exits) in enumerate({"Learned": control, "Rope": arm}.items()):
        made = [with_plateau(e, noise, seed=100 * number + s) for s, e in enumerate(exits)]
        curves[name] = {s: (STEPS, y) for s, y in enumerate(made)}
        values[name] = {s: 4 + per_step * e + of_value * draw.normal() for s, e in enumerate(exits)}
    return curves, values


LATE, EARLY = [180, 420, 260, 300, 230, 390], [120, 150, 135, 128, 144, 139]


def test_known_exits_explain_the_differences():
    found = compare_exits(*table(LATE, EARLY, 0.002))
    assert found is not None
    assert list(found.exits["Learned"].values()) == pytest.approx(LATE, abs=20)
    assert list(found.exits["Rope"].values()) == pytest.approx(EARLY, abs=12)
    assert found.correlations["Learned"] > 0.97
    exits = {arm: np.array(list(of_arm.values())) for arm, of_arm in found.exits.items()}
    _, values = table(LATE, EARLY, 0.002)
    e, d = exits["Rope"] - exits["Learned"], [values["Rope"][s] - values["Learned"][s] for s in SEEDS]
    fitted = np.polyval(np.polyfit(e, d, 1), e)  # the regression itself
    assert found.shares["Rope"] == pytest.approx(np.var(fitted) / np.var(d))
    assert found.shares["Rope"] > 0.95
    assert found.blamed == ("Rope",)
    text = warning_text(found, {"train": {"clip": None, "schedule": {"kind": "Constant"}}})
    assert "(Learned: 1" in text
    assert f"{100 * found.shares['Rope']:.0f} % of the variance of the differences goes with this" in text
    assert "The effect is likely about how early training gets going, not the final quality" in text
    assert REMEDY in text
    set_already = warning_text(found, {"train": {"clip": 1.0, "schedule": {"kind": "WarmupCosine"}}})
    assert REMEDY not in set_already
    assert "longer warm-up" in set_already
    json.dumps(found.to_json(), allow_nan=False)


def test_a_run_that_never_leaves_counts_as_the_last():
    curves, values = table(LATE, EARLY, 0.002)
    stays = 5.3 + 2.2 * np.exp(-STEPS / 8) - STEPS / 5000 + np.random.default_rng(3).normal(scale=0.03, size=len(STEPS))
    curves["Learned"][1], values["Learned"][1] = (STEPS, stays), 5.2
    found = compare_exits(curves, values)
    assert found is not None
    assert found.exits["Learned"][1] == math.inf
    assert "1 of 6 never" in warning_text(found, {})
    assert found.to_json()["exits"]["Learned"]["1"] is None


def test_a_higher_metric_turns_the_direction():
    curves, values = table(LATE, LATE[::-1], 0.002)  # neither arm leaves later on average
    worse_when_later = {arm: {s: -v for s, v in of_arm.items()} for arm, of_arm in values.items()}
    found = compare_exits(curves, worse_when_later, lower_is_better=False)
    assert found is not None
    assert found.blamed == ("Rope",)
    found = compare_exits(curves, worse_when_later, lower_is_better=True)  # as if a late exit were good
    assert found is not None
    assert found.blamed == ()


def test_arms_that_leave_apart_are_named_without_a_share():
    same = [300.0, 303.0, 298.0, 301.0, 299.0, 302.0]
    curves, values = table(same, EARLY, 0.0, of_value=0.01)
    values["Learned"] = {s: v + 0.2 for s, v in values["Learned"].items()}
    found = compare_exits(curves, values)
    assert found is not None
    assert found.blamed == ("Rope",)
    assert "% of the variance" not in warning_text(found, {})
    assert "Part of the effect may be how early training gets going" in warning_text(found, {})
    accuracies = {arm: {s: 5 - v for s, v in of_arm.items()} for arm, of_arm in values.items()}
    assert compare_exits(curves, accuracies, lower_is_better=False).blamed == ("Rope",)  # type: ignore[union-attr]
    values["Learned"] = {s: v - 0.4 for s, v in values["Learned"].items()}  # the late arm is better
    found = compare_exits(curves, values)
    assert found is not None
    assert found.blamed == ()


def test_arms_that_start_at_other_paces_are_not_blamed():
    """As arms with other rates do in a warm-up."""
    draw = np.random.default_rng(2)
    curves, values = {}, {}
    for arm, middle in {"fast": 80, "slow": 130}.items():
        clean = 4 + 3 / (1 + np.exp((STEPS - middle) / 15))
        curves[arm] = {s: (STEPS, clean + draw.normal(scale=0.02, size=len(STEPS))) for s in SEEDS}
        values[arm] = {s: 4 + middle / 1000 + 0.01 * draw.normal() for s in SEEDS}
    found = compare_exits(curves, values)
    assert found is not None
    assert found.from_start
    assert min(found.exits["slow"].values()) > max(found.exits["fast"].values()) + 40
    assert found.blamed == ()


def test_a_plateau_counts_before_a_slow_start():
    """A slow start is in every run; the plateau after it is what seeds differ by."""
    curves, values = table(LATE, EARLY, 0.002)
    slow = 2.2 / (1 + np.exp((STEPS - 40) / 6)) - 2.2 * np.exp(-STEPS / 8)  # instead of the fast first fall
    curves = {arm: {s: (x, y + slow) for s, (x, y) in of_arm.items()} for arm, of_arm in curves.items()}
    assert any(p.from_start for p in plateaus_of(*curves["Learned"][0]))
    found = compare_exits(curves, values)
    assert found is not None
    assert not found.from_start
    assert found.blamed == ("Rope",)


def test_one_plateau_of_six_runs_is_not_enough():
    draw = np.random.default_rng(4)
    curves = {arm: {s: (STEPS, ordinary("power law", 0, draw, 0.01)) for s in SEEDS} for arm in ("a", "b")}
    values = {arm: {s: draw.normal() for s in SEEDS} for arm in ("a", "b")}
    assert compare_exits(curves, values) is None
    curves["a"][0] = STEPS, with_plateau(200, 0.01)
    assert compare_exits(curves, values) is None
    curves["a"][1] = STEPS, with_plateau(200, 0.01, 1)
    assert compare_exits(curves, values) is not None  # two strong ones are


def test_a_hump_is_no_plateau():
    hump = 4 + 2 * np.exp(-STEPS / 20) + 0.5 * np.exp(-(((STEPS - 300) / 60) ** 2))
    assert plateaus_of(STEPS, hump) == []


def test_arms_with_other_tokens_are_not_compared(home: Path):
    outcome = stored(home, {"Rope": -0.3}, again=False, vary=["tokenizer"], metric="test/loss")
    write_curves(home, outcome, {"Learned": [200.0 + 30 * s for s in SEEDS], "Rope": [150.0] * 6})
    assert find_plateaus(outcome, "") is None


def test_arms_that_leave_nearly_together_are_not_blamed():
    same = [300.0, 301.0, 299.0, 300.5, 299.5, 300.0]
    curves, values = table(same, [e - 15 for e in same], 0.0, noise=0.005, of_value=0.01)
    values["Learned"] = {s: v + 0.2 for s, v in values["Learned"].items()}
    found = compare_exits(curves, values)
    assert found is not None
    assert all(found.exits["Rope"][s] < found.exits["Learned"][s] for s in SEEDS)
    assert found.blamed == ()


def test_exits_that_explain_nothing_are_not_blamed():
    same = [200.0, 204.0, 198.0, 201.0, 199.0, 202.0]
    found = compare_exits(*table(same, [s + 1 for s in same], 0.002))
    assert found is not None
    assert found.blamed == ()


def test_a_loss_that_is_lower_throughout_does_not_leave_earlier():
    shifts = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    curves = {
        arm: {s: (STEPS, with_plateau(200, 0.01, s + 50 * n, shift * n)) for s, shift in enumerate(shifts)}
        for n, arm in enumerate(("a", "b"))
    }
    values = {arm: {s: 4 + shift * n for s, shift in enumerate(shifts)} for n, arm in enumerate(("a", "b"))}
    found = compare_exits(curves, values)
    assert found is not None
    assert np.ptp(list(found.exits["b"].values())) < 5
    assert found.blamed == ()


@pytest.mark.parametrize("kind", ["power law", "exponential", "warm-up", "annealed"])
def test_ordinary_curves_give_no_warnings(kind: str):
    """100 tables of 12 runs: at most one false warning for each kind of curve (measured: 0.1 % over 9,000 tables)."""
    draw = np.random.default_rng(5)
    warned = 0
    for _ in range(100):
        curves: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {"a": {}, "b": {}}
        values: dict[str, dict[int, float]] = {"a": {}, "b": {}}
        effect, noise = 0.1 * draw.normal(), draw.choice([0.01, 0.05, 0.15])
        for s in SEEDS:
            batches = draw.normal(scale=noise, size=len(STEPS))  # the arms of a seed share their batches
            for arm in curves:
                values[arm][s] = 0.03 * draw.normal() + (effect if arm == "b" else 0)
                curves[arm][s] = STEPS, ordinary(kind, values[arm][s], draw, 0.3 * noise) + batches
        found = compare_exits(curves, values)
        warned += found is not None and bool(found.blamed)
    assert warned <= 1


# -- trained runs ------------------------------------------------------------------------------------------------------

# Losses of 24 trained language models: Bpe(512), four layers, 300 steps at 0.003, sotu, six seeds of learned positions
# and of RoPE; at a constant rate without clipping, and with a warm-up of 30 %, a cosine and clipping at 1
TRAINED = json.loads(Path(__file__).with_name("plateau_curves.json").read_text(encoding="utf-8"))


def trained_table(how: str):
    steps = np.arange(3, 301, 3) - 1.0
    runs = TRAINED[how]
    curves = {
        arm: {int(seed): (steps, np.array(run["train/batch_loss"])) for seed, run in of_arm.items()}
        for arm, of_arm in runs.items()
    }
    return curves, {arm: {int(s): run["test/loss"] for s, run in of_arm.items()} for arm, of_arm in runs.items()}


def test_trained_runs_at_a_constant_rate_are_warned_of():
    found = compare_exits(*trained_table("constant rate"))
    assert found is not None
    assert found.blamed == ("Rope",)
    assert found.correlations["Learned"] > 0.95
    assert found.shares["Rope"] > 0.95
    assert found.exits["Learned"][5] == math.inf  # its final loss is 5.16, where the others have 4.09 to 4.24
    assert max(found.exits["Rope"].values()) < min(found.exits["Learned"].values())


def test_trained_stable_runs_give_no_warning():
    found = compare_exits(*trained_table("stable"))
    assert found is None or found.blamed == ()


def test_a_tiny_trained_study_gives_no_warning(text: Path, home: Path):
    made = study(text, "train.steps=40", "evaluate.every=40", seeds=4, vary={"model.position": ["Learned", "Rope"]})
    carried(made, home)
    outcome = made.outcome(home)
    steps, losses = losses_of(Record.at(outcome.home, outcome.rows["", "Rope"][0].run).metrics)
    assert steps.tolist() == list(range(1, 41))  # a loss of every batch
    assert np.isfinite(losses).all()
    assert plateau_warnings(outcome, "") == []


# -- a study of the store ----------------------------------------------------------------------------------------------


def write_curves(home: Path, outcome, exits: dict[str, list[float]]) -> None:
    for (_, arm), rows in outcome.rows.items():
        for row in rows:
            losses = with_plateau(exits[arm][row.seed], 0.02, seed=row.seed)
            lines = [{"step": 5 * n + 5, "train/batch_loss": float(loss), "lr": 0.001} for n, loss in enumerate(losses)]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (home / "runs" / row.run / "metrics.jsonl").write_text(text)


def test_the_table_the_report_and_the_json_show_the_warning(home: Path):
    outcome = stored(home, {"Rope": -0.3}, noise=0.0, again=False)
    exits = {"Learned": [200.0 + 30 * s for s in SEEDS], "Rope": [150.0] * 6}
    write_curves(home, outcome, exits)
    (note,) = (verdicts := load_outcome(outcome.folder).verdicts).notes
    assert note.startswith("runs leave a plateau of the training loss at different steps (Learned: ")
    assert f"warning: {note}" in lines_under(verdicts)
    assert verdicts.to_json()["notes"] == (note,)
    write_curves(home, outcome, {"Learned": [150.0] * 6, "Rope": [150.0] * 6})
    again = load_outcome(outcome.folder)
    assert again.verdicts.notes == ()
    assert find_plateaus(again, "") is not None


def test_a_damaged_file_of_metrics_is_left_out(home: Path):
    outcome = stored(home, {"Rope": -0.3}, again=False)
    write_curves(home, outcome, {"Learned": [200.0 + 30 * s for s in SEEDS], "Rope": [150.0] * 6})
    row = outcome.rows["", "Learned"][0]
    (home / "runs" / row.run / "metrics.jsonl").write_text("{torn\n")
    found = find_plateaus(outcome, "")
    assert found is not None
    assert 0 not in found.exits["Learned"]
    assert len(found.exits["Rope"]) == 6
