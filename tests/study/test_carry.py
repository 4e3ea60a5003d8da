"""Carrying studies out: everything trained once, nothing lost, nothing left out in silence."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from headtohead import InputError
from headtohead.carry import Carried, Stage, carry_out, folder_of
from headtohead.outcome import load_outcome
from headtohead.runs import Failed, Finished, Options, Started
from headtohead.stats import compare_all
from headtohead.store import Record
from runs.small import results

from .small import carried, study

SLOW = """
import time
from headtohead.parts.positions import NoPosition, PositionHooks
from headtohead import knob

class Sleepy(NoPosition):
    seconds: float = knob(default=0.01, help="of every forward pass")
    def build(self, dims):
        made = PositionHooks()
        made.embed = lambda x, i: (time.sleep(self.seconds), x)[1]
        return made

class Broken(NoPosition):
    def build(self, dims):
        raise RuntimeError("the floor gave way")

class Deadly(NoPosition):
    def build(self, dims):
        import os, signal, multiprocessing
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return PositionHooks()

class DeadlyOnce(NoPosition):
    # kills its worker in the twelfth pass with gradients (the first is before training), once: it leaves a mark
    mark: str = knob(default="", help="a file: the worker was killed")
    def build(self, dims):
        import os, pathlib, signal, torch
        made, seen, mark = PositionHooks(), [], pathlib.Path(self.mark)
        def embed(x, i):
            seen.append(i) if torch.is_grad_enabled() else None
            if len(seen) == 12 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return x
        made.embed = embed
        return made
"""


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_every_arm_is_trained_with_every_seed(text: Path, home: Path):
    made = study(text, seeds=3, again=True)
    events = carried(made, home)
    cells = of(Stage, events)[0].cells
    assert [(c.arm, c.seed) for c in cells] == [
        (arm, seed) for arm in ("Learned", "Rope", "NoPosition", "control again") for seed in range(3)
    ]
    assert len({c.id for c in cells}) == 12
    assert len(of(Finished, events)) == 12
    frame = made.results(home)
    assert set(frame["status"]) == {"complete"}
    specs = {c.id: json.loads((home / "runs" / c.id / "run.json").read_text()) for c in cells}
    for c in cells:
        assert specs[c.id]["seed"] == c.seed
        assert specs[c.id]["arm"]["train"]["order"] == (1 if c.arm == "control again" else 0)


def test_verdicts_are_those_of_the_values_in_the_store(text: Path, home: Path):
    made = study(text, seeds=6)
    carried(made, home)
    frame = made.results(home)
    values = {arm: rows.sort_values("seed")["test/loss"].to_numpy() for arm, rows in frame.groupby("arm")}
    by_hand = compare_all(values["Learned"], {k: values[k] for k in ("Rope", "NoPosition")})
    verdicts = made.verdicts(home)
    assert [row.arm for row in verdicts] == ["Rope", "NoPosition"]
    for row in verdicts:
        assert row.verdict == by_hand[row.arm]
        assert row.mean == pytest.approx(values[row.arm].mean())
        assert row.extra_parameters == -16 * 16  # no table of positions
        assert row.extra_flops == 0
    assert verdicts.control_mean == pytest.approx(values["Learned"].mean())
    assert "seeds 0–5" in verdicts.scope
    json.dumps(verdicts.to_json(), default=str)
    html = verdicts._repr_html_()
    assert "Learned" in html
    assert "unresolved" in html or "better" in html or "worse" in html


def test_a_pool_and_a_single_process_give_the_same_bits(text: Path, home: Path, tmp_path: Path):
    made = study(text, "model.dropout=0.1", seeds=2)
    carried(made, home)
    carried(made, tmp_path / "other", jobs=2)
    runs = sorted(p.name for p in (home / "runs").iterdir())
    assert runs == sorted(p.name for p in (tmp_path / "other" / "runs").iterdir())
    for run in runs:
        assert results(home / "runs" / run) == results(tmp_path / "other" / "runs" / run)


def test_what_is_in_the_store_is_not_trained_again(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    again = carried(study(text, seeds=2), home, jobs=2)
    assert not of(Started, again)
    assert all(event.already for event in of(Finished, again))
    more = carried(study(text, seeds=3), home)
    assert len(of(Started, more)) == 3
    other = carried(study(text, seeds=3, name="other", vary={"model.position": ["Rope", "Alibi"]}), home)
    assert len(of(Started, other)) == 3  # only Alibi's: the control and Rope are shared


def test_an_arm_that_was_taken_out_still_counts(text: Path, home: Path):
    whole = study(text, seeds=6)
    carried(whole, home)
    before = whole.verdicts(home)
    fewer = study(text, seeds=6, vary={"model.position": ["Learned", "Rope"]})
    carried(fewer, home)
    after = fewer.verdicts(home)
    assert [(row.arm, row.dropped) for row in after] == [("Rope", False), ("NoPosition", True)]
    assert after["Rope"].verdict == before["Rope"].verdict
    carried(whole, home)
    assert not any(row.dropped for row in whole.verdicts(home))


def test_another_study_of_the_same_name_gets_a_folder_of_its_own(text: Path, home: Path):
    one, two = study(text, seeds=2), study(text, seeds=2, metric="validation/loss")
    carried(one, home)
    carried(two, home)
    assert folder_of(one, home) != folder_of(two, home)
    assert two.verdicts(home).metric == "validation/loss"
    assert one.verdicts(home).metric == "test/loss"


def test_a_diverged_run_is_shown_and_its_pair_left_out_by_name(text: Path, home: Path):
    made = study(text, seeds=2, vary={"train.optimizer.lr": [1e30]})
    carried(made, home)
    row = made.verdicts(home)["lr=1e+30"]
    assert row.verdict.pairs == 0
    assert row.verdict.verdict == "unresolved"
    assert len(row.excluded) == 2
    assert row.excluded[0][:2] == (0, "lr=1e+30")
    assert row.excluded[0].why.startswith("diverged at step")
    assert list(made.results(home)["status"]) == ["complete", "complete", "diverged", "diverged"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_does_not_stop_the_others(jobs: int, text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, seeds=2, vary={"model.position": [f"{parts}:Broken()", "Rope"]})
    events = carried(made, home, jobs=jobs)
    assert {event.reason for event in of(Failed, events)} == {"RuntimeError: the floor gave way"}
    assert of(Carried, events)
    verdicts = made.verdicts(home)
    assert verdicts["Rope"].verdict.pairs == 2
    assert "the floor gave way" in verdicts["Broken"].excluded[0].why
    assert list(made.results(home)["status"]).count("failed") == 2


def test_a_worker_that_dies_again_and_again_is_given_up(text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    made = study(text, seeds=2, vary={"model.position": [f"{parts}:Deadly()"]})
    events = carried(made, home, jobs=2)
    assert len(of(Failed, events)) == 2
    assert all("died 3 times" in event.reason for event in of(Failed, events))
    assert len(of(Finished, events)) == 2


def test_a_killed_worker_is_replaced_and_its_run_goes_on(text: Path, home: Path, tmp_path: Path):
    parts, mark = tmp_path / "parts.py", tmp_path / "killed"
    parts.write_text(SLOW)
    made = study(text, "train.steps=30", seeds=2, vary={"model.position": [f"{parts}:DeadlyOnce(mark='{mark}')"]})
    events = carried(made, home, jobs=2, options=Options(save_every=0))
    assert mark.exists()
    resumed = [event for event in of(Started, events) if event.done]
    assert [event.done for event in resumed] == [10], "it went on from its checkpoint"
    assert set(made.results(home)["status"]) == {"complete"}
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


def test_two_processes_on_one_store_never_train_one_run_twice(text: Path, home: Path, tmp_path: Path):
    parts = tmp_path / "parts.py"
    parts.write_text(SLOW)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    made = study(text, "train.steps=20", seeds=3, vary={"model.position": [f"{parts}:Sleepy(seconds=0.01)"]})

    def one() -> None:
        begun = [event.id for event in carry_out(made, home, jobs=1) if isinstance(event, Started)]
        queue.put(begun)

    both = [context.Process(target=one) for _ in range(2)]
    for process in both:
        process.start()
    begun = [queue.get(timeout=120) for _ in both]
    for process in both:
        process.join()
    assert sorted(begun[0] + begun[1]) == sorted({*begun[0], *begun[1]})
    assert len(begun[0] + begun[1]) == 6
    assert all(begun)  # they shared the work
    assert set(made.results(home)["status"]) == {"complete"}


def test_the_noise_floor_is_the_control_against_itself(text: Path, home: Path):
    made = study(text, seeds=6, again=True)
    carried(made, home)
    verdicts = made.verdicts(home)
    assert verdicts.noise is not None
    frame = made.results(home).set_index(["arm", "seed"])["test/loss"]
    d = [frame["control again", s] - frame["Learned", s] for s in range(6)]
    assert verdicts.noise.verdict.difference == pytest.approx(np.mean(d))
    assert verdicts.noise.verdict.sd > 0
    assert "noise floor" in verdicts._repr_html_()


def test_a_real_a_a_study_of_twelve_pairs_finds_nothing(text: Path, home: Path):
    short = ["train.steps=40", "evaluate.every=40"]
    made = study(text, *short, seeds=12, vary={"train.order": [1]}, margin="50%")
    carried(made, home, jobs=2)
    row = made.verdicts(home)["order=1"]
    assert row.verdict.pairs == 12
    assert row.verdict.sd > 0
    assert row.verdict.verdict == "equivalent"
    strict = study(text, *short, seeds=12, vary={"train.order": [1]})
    carried(strict, home)
    assert strict.verdicts(home)["order=1"].verdict.verdict == "unresolved"


def test_arms_are_tuned_on_seeds_of_their_own_by_the_validation_set(text: Path, home: Path):
    made = study(
        text,
        "train.steps=12",
        seeds=2,
        vary={"model.position": ["Rope"]},
        tune={"train.optimizer.lr": [1e-5, 1e-2, 1e30]},
        tuning_seeds=2,
    )
    events = carried(made, home)
    tuning, then = of(Stage, events)
    assert tuning.title == "tuning"
    assert {c.seed for c in tuning.cells} == {1_000_000, 1_000_001}
    assert {c.seed for c in then.cells} == {0, 1}
    assert len(tuning.cells) == 2 * 3 * 2
    for stage, tested in ((tuning, False), (then, True)):
        known = (Record(home / "runs" / cell.id).result["values"] for cell in stage.cells)
        assert {any(name.startswith("test/") for name in values) for values in known if values} == {tested}
    outcome = load_outcome(folder_of(made, home))
    assert outcome.titles == ["own best", "shared"]
    for told in outcome.said["tuning"]:
        assert told["metric"] == "validation/loss"
        assert told["best"] == {"train.optimizer.lr": 1e-2}
        assert told["grid"][2]["value"] is None  # it diverged there
        values = [g["value"] for g in told["grid"][:2]]
        assert values[1] < values[0]
        assert told["edge"] == []
    assert outcome.verdicts("shared")["Rope"].verdict == outcome.verdicts("own best")["Rope"].verdict
    for arm in outcome.said["tables"][0]["arms"]:
        assert arm["spec"]["train"]["optimizer"]["lr"] == 1e-2


def test_a_best_value_on_the_edge_of_the_grid_is_warned_of(text: Path, home: Path):
    made = study(
        text, "train.steps=12", seeds=2, vary={"model.position": ["Rope"]}, tune={"train.optimizer.lr": [1e-2, 1e-5]}
    )
    carried(made, home)
    notes = made.verdicts(home).notes
    assert len(notes) == 2
    assert notes[0] == (
        "Learned was best at train.optimizer.lr = 0.01, the edge of the grid: a better value may lie beyond"
    )


def test_a_set_that_the_data_has_not_is_said_before_anything_is_trained(text: Path, home: Path):
    with pytest.raises(InputError, match=r"no set 'obama'.*known: test, train, validation"):
        carried(study(text, metric="obama/loss"), home)
    assert not (home / "runs").exists()


def test_a_study_that_was_not_run_says_so(text: Path, home: Path):
    with pytest.raises(InputError, match="has not been run here yet"):
        study(text).verdicts(home)


def test_a_study_of_a_newer_version_is_not_guessed_at(text: Path, home: Path):
    made = study(text, seeds=2)
    carried(made, home)
    path = folder_of(made, home) / "study.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(InputError, match="newer version of headtohead"):
        made.verdicts(home)
    path.write_text("{")
    with pytest.raises(InputError, match="torn or not ours"):
        made.verdicts(home)


def test_fewer_than_six_pairs_are_only_described(text: Path, home: Path):
    made = study(text, "train.steps=30", seeds=5, vary={"train.optimizer.lr": [1e-6]})
    carried(made, home)
    row = made.verdicts(home)["lr=1e-06"]
    assert row.verdict.low > 0  # clearly worse, and yet
    assert (row.verdict.verdict, row.verdict.descriptive) == ("unresolved", True)
    more = study(text, "train.steps=30", seeds=6, vary={"train.optimizer.lr": [1e-6]})
    carried(more, home)
    assert more.verdicts(home)["lr=1e-06"].verdict.verdict == "worse"


def test_tokenizers_are_compared_by_bits_per_byte(text: Path, home: Path):
    made = study(text, seeds=2, vary={"tokenizer": ["Byte", "Character"]})
    carried(made, home)
    verdicts = made.verdicts(home)
    assert verdicts.metric == "test/bits_per_byte"
    run = made.results(home).iloc[0]["run"]
    values = Record(home / "runs" / run).result["values"]
    assert made.results(home).iloc[0]["test/bits_per_byte"] == values["test/bits_per_byte"]
    assert not verdicts.notes


def test_texts_that_differ_between_arms_are_warned_of(text: Path, home: Path):
    made = study(text, seeds=2, vary={"data.test": [0.3]}, metric="test/bits_per_byte")
    carried(made, home)
    assert "measured on different texts" in made.verdicts(home).notes[0]


def test_a_stop_leaves_a_study_that_goes_on(text: Path, home: Path):
    made = study(text, seeds=2)
    events = carry_out(made, home, jobs=1)
    for event in events:
        if isinstance(event, Finished):
            events.close()
            break
    time.sleep(0)
    rest = carried(made, home)
    assert sum(event.already for event in of(Finished, rest)) == 1
    assert set(made.results(home)["status"]) == {"complete"}
