"""Whole runs with averages, pieces of batches and other objectives: what is evaluated, kept, resumed and refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from headtohead import Arm, Files, InputError, Record, RunSpec, generate, load_trained, score
from headtohead.run.events import Evaluated
from headtohead.training.predictions import TokenPredictions
from headtohead.training.tasks import task_of
from helpers.runs import SMALL, SMALL_OPTIONS, give_up, results, run_on, train, trained_record
from helpers.terminal import Type

MASKED = ["train.objective=MaskedTokens", "model.pattern=Full"]
STEADY = "train.schedule=WarmupStableDecay(decay=0)"
VARIANTS = {
    "Lion": ["train.optimizer=Lion"],
    "SOAP": ["train.optimizer=SOAP(every=2)"],
    "AdaMuon": ["train.optimizer=AdaMuon"],
    "NorMuon": ["train.optimizer=NorMuon"],
    "schedule-free": ["train.optimizer=ScheduleFreeAdamW", STEADY],
    "schedule-free SGD, the best kept": ["train.optimizer=ScheduleFreeSGD", STEADY, "evaluate.keep=best"],
    "EMA": ["train.average=Ema(decay=0.8)", "evaluate.snapshots=3"],
    "mean of last": ["train.average=MeanOfLast(count=2, every=3)", "train.accumulate=3"],
    "many tokens": ["train.objective=MultiToken(tokens=3)", "train.average=Ema(decay=0.8)", "evaluate.keep=best"],
    "masked tokens": [*MASKED, "train.accumulate=2"],
}
STEPS = ["train.steps=12", "evaluate.every=4", "model.dropout=0.1"]


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_a_run_given_up_in_the_midst_comes_to_the_same_bits(settings, text: Path, home: Path, tmp_path: Path) -> None:
    spec = run_on(text, *STEPS, *settings)
    train(spec, tmp_path / "undisturbed")
    folder = home / "runs" / spec.id
    give_up(spec, folder, 8)
    assert (folder / "checkpoint.safetensors").is_file()
    train(spec, home)
    assert results(folder) == results(tmp_path / "undisturbed" / "runs" / spec.id)


# -- averages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["Ema(decay=0.8)", "MeanOfLast(count=2, every=3)"])
def test_averaged_weights_are_evaluated_and_kept(average: str, text: Path, home: Path) -> None:
    usual = trained_record(run_on(text, *STEPS), home)
    spec = run_on(text, *STEPS, f"train.average={average}", "evaluate.snapshots=4,12")
    events = train(spec, home)
    record = Record(home / "runs" / spec.id)
    batch_losses = [[m["train/batch_loss"] for m in r.metrics if m["step"]] for r in (record, usual)]
    assert batch_losses[0] == batch_losses[1], "training does not depend on the average"
    last = [e.values["validation/loss"] for e in events if isinstance(e, Evaluated)][-1]
    assert last != usual.metrics[-1]["validation/loss"]
    task = task_of(spec.arm)
    kept, snapshot = load_trained(record), load_trained(record, 12)
    assert task.evaluate(kept.model, "validation", "cpu", last=False).values["loss"] == last
    assert all(torch.equal(a, b) for a, b in zip(kept.model.parameters(), snapshot.model.parameters(), strict=True))
    at_four = next(e.values["validation/loss"] for e in events if isinstance(e, Evaluated) and e.done == 4)
    earlier = load_trained(record, 4).model
    assert task.evaluate(earlier, "validation", "cpu", last=False).values["loss"] == at_four


def test_an_average_is_part_of_the_id_and_the_default_is_not(text: Path) -> None:
    plain = run_on(text, *STEPS)
    assert run_on(text, *STEPS, "train.average=NoAverage", "train.accumulate=1").id == plain.id
    assert run_on(text, *STEPS, "train.objective=NextToken").id == plain.id
    assert len({plain.id, *(run_on(text, *STEPS, *s).id for s in VARIANTS.values())}) == len(VARIANTS) + 1
    assert not {"average", "accumulate", "objective"} & plain.to_json()["arm"]["train"].keys()


# -- pieces of batches -------------------------------------------------------------------------------------------------

OBJECTIVES = [[], ["train.objective=NextToken(smoothing=0.1, z_loss=0.01)"], ["train.objective=MultiToken"], MASKED]


@pytest.mark.parametrize("settings", OBJECTIVES, ids=str)
@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_pieces_have_the_loss_and_the_gradients_of_the_batch(pieces: int, settings: list[str], text: Path) -> None:
    found = []
    for accumulate in (1, pieces):
        task = task_of(run_on(text, *settings, f"train.accumulate={accumulate}").arm)
        model, batch = task.build(0), task.batch(0, 0)
        terms = list(task.losses(model, batch, "cpu"))
        assert len(terms) == accumulate
        sum(terms).backward()
        found.append([sum(terms).detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    for one, several in zip(*found, strict=True):
        assert (one - several).abs().max() < 1e-6 * max(1.0, float(one.abs().max()))


def test_pieces_of_labelled_texts_count_by_their_texts(table: Path) -> None:
    found = []
    for accumulate in (1, 3):
        settings = [*SMALL, "train.batch=7", f"train.accumulate={accumulate}"]
        task = task_of(RunSpec(arm=Arm.of("classifier", Files(path=str(table))).settings(settings)).resolved().arm)
        model = task.build(0)
        loss = sum(task.losses(model, task.batch(0, 0), "cpu"))
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    for one, several in zip(*found, strict=True):
        assert (one - several).abs().max() < 1e-6


def test_a_small_last_batch_has_fewer_pieces(table: Path, home: Path) -> None:
    settings = [*SMALL, "train.epochs=1", "train.batch=97", "train.accumulate=97"]
    arm = Arm.of("classifier", Files(path=str(table))).settings(settings)
    result = trained_record(RunSpec(arm=arm).resolved(), home).result
    assert result is not None
    assert result.is_complete


def test_more_pieces_than_texts_are_refused(text: Path) -> None:
    with pytest.raises(InputError, match=r"train\.accumulate=5: choose at most train\.batch=4 pieces"):
        run_on(text, "train.accumulate=5")


# -- many tokens -------------------------------------------------------------------------------------------------------


def test_heads_for_farther_tokens_are_trained_and_not_kept(text: Path, home: Path) -> None:
    spec = run_on(text, "train.steps=4", "train.objective=MultiToken(tokens=3)")
    usual = run_on(text, "train.steps=4")
    records = [trained_record(s, home) for s in (spec, usual)]
    several, plain = (r.require_result() for r in records)
    assert several.parameters == plain.parameters
    assert (several.training_only > 0, plain.training_only) == (True, 0)
    assert several.flops_per_step > plain.flops_per_step
    (model, other) = (load_trained(r).model for r in records)
    assert model.state_dict().keys() == other.state_dict().keys()
    starts = [load_trained(r, 0).model.state_dict() for r in records]
    assert all(torch.equal(starts[0][name], w) for name, w in starts[1].items())
    assert records[0].metrics[0] == records[1].metrics[0], "before the first update both are the same model"
    assert score(load_trained(records[0]), "the people of the world").loss > 0


def test_targets_of_a_head_are_the_tokens_that_many_places_on(text: Path) -> None:
    task = task_of(run_on(text, "train.objective=MultiToken(tokens=4, weight=1.0)", "model.block=12").arm)
    batch = task.batch(0, 0)
    assert np.array_equal(batch.targets[:, :-1], batch.ids[:, 1:])
    model = task.build(0)
    ids, targets = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
    for k, farther in enumerate(TokenPredictions.of(model, ids, targets).ahead(), start=1):
        assert torch.equal(farther.targets[:, :-1], ids[:, 1 + k :])
        assert farther.x.shape[1] == ids.shape[1] - k


def test_too_many_tokens_for_the_block_are_refused(text: Path) -> None:
    with pytest.raises(InputError, match=r"MultiToken looks farther than model\.block=16"):
        task_of(run_on(text, "train.objective=MultiToken(tokens=17)").arm)


# -- masked tokens -----------------------------------------------------------------------------------------------------


def test_a_model_of_masked_tokens_learns_and_is_measured_on_fixed_masks(text: Path, home: Path) -> None:
    records = [
        trained_record(run_on(text, "train.steps=60", "train.optimizer.lr=0.01", *MASKED, *more), home)
        for more in ([], ["train.objective.share=0.4"])
    ]
    for record in records:
        values = record.require_result().values
        assert values["test/loss"] < record.metrics[0]["validation/loss"] - 0.3
        assert not any("bits_per_byte" in key for key in values)
        assert not any("its losses mean nothing" in w for w in record.require_result().warnings)
    tokens = [r.require_result().values["test/tokens"] for r in records]
    assert tokens[0] == tokens[1], "the share of training does not change the test"
    trained = load_trained(records[0])
    assert task_of(trained.spec.arm).evaluate(trained.model, "test", "cpu").values["loss"] == pytest.approx(
        records[0].require_result().values["test/loss"], abs=1e-12
    )


def test_a_model_of_masked_tokens_predicts_no_next_token(text: Path, home: Path) -> None:
    trained = load_trained(trained_record(run_on(text, "train.steps=1", *MASKED), home))
    for use in (score, generate):
        with pytest.raises(InputError, match="a model of masked tokens, which predicts no next token: use h2h attend"):
            use(trained, "the people of the world")


def test_masked_tokens_need_a_model_that_sees_both_sides(text: Path) -> None:
    with pytest.raises(InputError, match=r"MaskedTokens needs a model that sees both sides: set model\.pattern=Full"):
        task_of(run_on(text, "train.objective=MaskedTokens").arm)


@pytest.mark.parametrize("objective", ["MaskedTokens", "MultiToken"])
def test_objectives_of_language_models_are_refused_for_classifiers(objective: str, table: Path) -> None:
    arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, f"train.objective={objective}"])
    with pytest.raises(InputError, match=f"{objective} is an objective of language models"):
        task_of(arm)


# -- on the command line -----------------------------------------------------------------------------------------------


def test_without_the_library_one_line_names_the_extra(
    type_in: Type, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    command = ["train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 2]
    done = type_in(*command, "--set", "train.optimizer=Lion", "--jobs", 1)
    assert done.code == 3
    assert done.err.splitlines()[-1] == "h2h: the optimizer Lion needs the extra optim: pip install 'headtohead[optim]'"
    assert type_in(*command, "--set", "train.optimizer=Muon").code == 0
