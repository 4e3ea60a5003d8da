"""trainer_state.json, written by transformers.Trainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.comparison import compare_sources
from headtohead.external.sources import Source
from headtohead.external.trainer_state import newest_state, read_run


def test_trainer_folders_give_a_verdict(trainer_runs: Path) -> None:
    found = compare_sources([str(trainer_runs)], metric="eval_loss")
    assert (found.control, found.design, len(found.values)) == ("baseline", "paired", 12)
    assert found.verdicts["rope"].verdict == "better"
    assert found.verdicts["rope"].difference == pytest.approx(-0.3, abs=1e-4)
    state = json.loads((trainer_runs / "rope-seed2" / "checkpoint-12" / "trainer_state.json").read_text())
    last = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry][-1]
    assert [v.value for v in found.values if (v.arm, v.seed) == ("rope", "2")] == [last]


def test_the_newest_checkpoint_counts(trainer_runs: Path) -> None:
    folder = trainer_runs / "rope-seed0"
    assert newest_state(folder) == folder / "checkpoint-12" / "trainer_state.json"  # not checkpoint-8
    run = read_run(Source(folder, "trainer", folder.name, str(folder), 0))
    assert [step for step, _ in run.curves["eval_loss"]] == [4, 8, 12]
    assert {"loss", "grad_norm", "eval_loss"} <= run.curves.keys()
    assert "epoch" not in run.curves


def test_files_are_named_by_their_run(trainer_runs: Path) -> None:
    files = [trainer_runs / f"{arm}-seed1" / "checkpoint-4" / "trainer_state.json" for arm in ("baseline", "rope")]
    found = compare_sources(files, metric="eval_loss")
    assert [(v.arm, v.seed) for v in found.values] == [("baseline", "1"), ("rope", "1")]


def test_the_seed_of_the_model_card(inside: Path) -> None:
    for name, seed in (("one", 7), ("two", 8)):
        (inside / name).mkdir()
        entry = {"step": 1, "eval_loss": 2.0}
        (inside / name / "trainer_state.json").write_text(json.dumps({"log_history": [entry], "global_step": 1}))
        (inside / name / "README.md").write_text(f"### Training hyperparameters\n\n- seed: {seed}\n- optimizer: x\n")
    assert [v.seed for v in compare_sources(["one", "two"]).values] == ["7", "8"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("{}", "no log_history"), ('{"log_history": [', "not JSON"), ('{"log_history": [1]}', "no object")],
)
def test_damaged_states(inside: Path, text: str, says: str) -> None:
    for name in ("a", "b"):
        (inside / name).mkdir()
        (inside / name / "trainer_state.json").write_text(text)
    with pytest.raises(InputError, match=says):
        compare_sources(["a", "b"])
