"""The control at other lengths: what is trained, how study.json keeps it, and what the verdicts make of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, InputError, Study
from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.wording import lines_under
from headtohead.parts.schedules import WarmupCosine
from headtohead.report.page import page
from headtohead.run.events import Stage, Started
from headtohead.run.store import Record
from headtohead.run.studies import read_study
from headtohead.study.execution import folder_of
from headtohead.study.lengths import SEEDS, length_runs
from helpers.runs import SMALL_OPTIONS, without_checksums
from helpers.studies import carried, study
from helpers.terminal import h2h

# at this rate a tiny model learns enough in 12 steps for lengths to differ by more than their noise
LEARNS = ["train.steps=12", "train.optimizer.lr=0.01", "train.schedule=WarmupCosine", "evaluate.every=4"]


@pytest.fixture
def both(text: Path, home: Path):
    made = study(text, *LEARNS, "evaluate.snapshots=(0,12)", seeds=6, lengths=(0.5, 2))
    return made, carried(made, home)


def test_the_control_is_trained_at_other_lengths_on_the_first_seeds(both, home: Path):
    made, events = both
    record = read_study(folder_of(made, home))
    assert {factor: list(runs) for factor, runs in record.lengths.items()} == {
        "0.5": list(range(SEEDS)),
        "2": list(range(SEEDS)),
    }
    stages = [event for event in events if isinstance(event, Stage)]
    assert [stage.title for stage in stages] == ["runs", "lengths"]
    assert len(stages[1].cells) == 2 * SEEDS
    assert stages[1].cells[0].arm == "Learned, 0.5 × the steps"
    for factor, steps in (("0.5", 6), ("2", 24)):
        for seed, run in record.lengths[factor].items():
            at, own = Record.at(home, run), Record.at(home, record.tables[0].control.runs[seed])
            assert at.require_result().steps == steps
            # its schedule is complete: the rate of the last step is that of a run of this length
            assert at.metrics[-1]["lr"] == pytest.approx(
                at.spec["arm"]["train"]["optimizer"]["lr"] * WarmupCosine().share(steps - 1, steps)
            )
            changed = {"steps": steps}, {"snapshots": []}
            arm, same = at.spec["arm"], own.spec["arm"]
            assert arm == {
                **same,
                "train": {**same["train"], **changed[0]},
                "evaluate": {**same["evaluate"], **changed[1]},
            }
            assert at.spec["seed"] == own.spec["seed"] == seed
    assert set(record.runs) >= {run for runs in record.lengths.values() for run in runs.values()}

    # a run without lengths keeps them, and a second run trains nothing
    before = (folder_of(made, home) / "study.json").read_text()
    events = carried(dataclasses.replace(made, lengths=()), home)
    assert read_study(folder_of(made, home)).lengths == record.lengths
    events += carried(made, home)
    assert not [event for event in events if isinstance(event, Started)]
    assert (folder_of(made, home) / "study.json").read_text() == before


def test_worth_follows_from_the_final_values_of_those_runs(both, home: Path):
    made, _ = both
    outcome = made.outcome(home)
    record = outcome.record

    def values(runs: dict[int, str]) -> np.ndarray:
        return np.array([Record.at(home, run).require_result().values["test/loss"] for run in runs.values()])

    control = values(record.tables[0].control.runs)
    gains = {factor: values(runs) - control[:SEEDS] for factor, runs in record.lengths.items()}
    assert gains["0.5"].mean() > 0 > gains["2"].mean()  # otherwise this test shows nothing
    for row in outcome.verdicts:
        assert row.worth is not None
        assert row.worth.seeds == tuple(range(SEEDS))
        assert row.worth.flops == 1
        assert row.worth.at_equal_flops.difference == pytest.approx(row.verdict.difference)
        if row.worth.factor is not None:
            y = np.log2(row.worth.factor)
            at = gains["0.5"].mean() * y * (y - 1) / 2 + gains["2"].mean() * y * (y + 1) / 2
            assert at == pytest.approx(row.verdict.difference, abs=1e-5)
        else:
            out = row.verdict.difference - {"above": gains["2"], "below": gains["0.5"]}[row.worth.beyond].mean()
            assert (out < 0) == (row.worth.beyond == "above")
    told = json.loads(json.dumps(outcome.to_json(), allow_nan=False))
    assert told["tables"][0]["arms"][0]["worth"]["reach"] == pytest.approx([0.5, 2])
    assert "worth_low" in outcome.verdicts.frame().columns
    decided = [row.arm for row in outcome.verdicts if row.verdict.verdict in ("better", "worse")]
    lines = [line for line in lines_under(outcome.verdicts) if "; at equal FLOPs" in line]
    assert [line.partition(":")[0] for line in lines] == decided
    html = page(outcome)
    assert "Differences at equal cost" in html
    assert "separate runs, each with its complete schedule" in html

    # evaluations during training play no part: under an annealed rate they are not what shorter runs reach
    worths = [row.worth for row in outcome.verdicts]
    for run in record.runs:
        (without_checksums(Record.at(home, run).folder) / "metrics.jsonl").unlink()
    assert [row.worth for row in made.outcome(home).verdicts] == worths

    # missing and damaged runs leave their seeds out
    (Record.at(home, record.lengths["2"][0]).folder / "result.json").write_text("{")
    assert made.outcome(home).verdicts["Rope"].worth.seeds == (1, 2, 3)
    for seed in (1, 2):
        (Record.at(home, record.lengths["2"][seed]).folder / "result.json").unlink()
    left = made.outcome(home).verdicts["Rope"].worth
    assert (left.seeds, left.factor) == ((), None)
    assert "add --equivalents" in left.why
    (Record.at(home, record.tables[0].control.runs[0]).folder / "result.json").write_text("{")
    assert list(length_runs(record, (0.5,), home)["0.5"]) == [1, 2, 3, 4]  # the first seeds with a control


def test_a_study_without_lengths_shows_no_worth(text: Path, home: Path):
    made = study(text, seeds=6)
    carried(made, home)
    folder = folder_of(made, home)
    assert "lengths" not in json.loads((folder / "study.json").read_text())
    outcome = load_outcome(folder)
    assert not any("at equal FLOPs" in line for line in lines_under(outcome.verdicts))
    assert "<code>--equivalents</code>" in page(outcome)


@pytest.mark.parametrize("lengths", [(1,), (0,), (-0.5,), ("2",), "2", (float("nan"),)])
def test_bad_lengths_are_refused(text: Path, lengths):
    with pytest.raises(InputError, match="lengths are factors of the control's steps"):
        study(text, lengths=lengths)


def test_classifiers_with_epochs_have_lengths_in_steps(tmp_path: Path, home: Path):
    path = tmp_path / "labelled.csv"
    rows = (f"{'good fine' if n % 3 else 'bad poor'} thing {n},{'yes' if n % 3 else 'no'}\n" for n in range(120))
    path.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    settings = ["model.width=16", "model.layers=1", "model.block=8", "train.epochs=2", "train.optimizer.lr=0.003"]
    made = Study(
        question="Are two heads better than one?",
        control=Arm.of("classifier", Files(path=str(path))).settings(settings),
        vary={"model.heads": [2, 1]},
        seeds=2,
        metric="test/accuracy",
        again=False,
        lengths=(0.5, 2),
    )
    carried(made, home)
    outcome = made.outcome(home)
    record = outcome.record
    own = Record.at(home, record.tables[0].control.runs[0]).require_result().steps
    steps = {k: Record.at(home, runs[0]).require_result().steps for k, runs in record.lengths.items()}
    assert steps == {"0.5": own / 2, "2": 2 * own}
    (row,) = outcome.verdicts
    assert row.worth.seeds == (0, 1)
    assert row.worth.time.pairs == 2


@pytest.mark.slow
@pytest.mark.usefixtures("text")  # mine.txt
def test_the_command_has_an_option(home: Path):
    vary = ("--data", "mine.txt", "--vary", "model.position=Learned,Rope", "--set", "train.steps=6", *SMALL_OPTIONS)
    done = h2h("run", "lm", *vary, "--equivalents", "--seeds", 2, "--jobs", 1, "--json")
    assert done.code == 0, done.err
    assert "0.5 × the steps, seed 1:" in done.err
    (folder,) = (home / "studies").iterdir()
    assert sorted(read_study(folder).lengths) == ["0.5", "2"]
    (arm,) = json.loads(done.out)["tables"][0]["arms"]
    assert arm["worth"]["seeds"] == [0, 1]
