"""Fine-tuning: a run starts from a checkpoint, keeps the best weights, and resumes to the same bits; LoRA."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file

from headtohead import Arm, Files, InputError
from headtohead.display.parameters import parameters_of
from headtohead.run import forecast
from headtohead.run.events import Evaluated
from headtohead.run.load import load_trained
from headtohead.run.session import Options, execute
from headtohead.run.store import Record
from headtohead.study.finetune import arm_for
from headtohead.training import first_batch
from headtohead.training.arm import RunSpec
from headtohead.training.first_batch import FirstStep
from headtohead.training.tasks import task_of
from helpers.checkpoints import WORDS, model, saved, transformers
from helpers.runs import SMALL, results


@pytest.fixture
def arm(tmp_path, labelled) -> Arm:
    checkpoint = saved(tmp_path, "bert")
    return arm_for(str(checkpoint), Files(path=str(labelled)), longest=16).settings(
        ["train.epochs=4", "train.batch=8", "train.optimizer.lr=0.003"]
    )


def trained(arm: Arm, home, seed: int = 0) -> Record:
    spec = RunSpec(arm=arm, seed=seed).resolved()
    list(execute(spec, home))
    return Record(home / "runs" / spec.id)


def test_a_run_starts_from_the_checkpoint_with_a_new_head(arm):
    theirs = transformers.AutoModel.from_pretrained(arm.start.checkpoint).eval()
    task = task_of(arm)
    one, other = (task.build(seed).eval() for seed in (0, 1))
    differ = {
        n
        for (n, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True)
        if not torch.equal(a, b)
    }
    assert differ == {"head.2.weight"}, "biases start at zero"
    batch = task.batch(0, 0)
    ids, keep = torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)
    with torch.inference_mode():
        hidden = theirs(ids, attention_mask=keep.long()).last_hidden_state
        torch.testing.assert_close(one.trunk(ids, keep)[keep], hidden[keep], atol=1e-4, rtol=0)


def test_a_checkpoint_gives_no_warning_of_initial_sizes(arm):
    """They were trained so, and no setting of model.init changes that."""
    task = task_of(arm)
    model = task.build(0)
    with torch.no_grad():
        model.trunk.position.table.weight.mul_(1e-3)
    first = FirstStep.of(task, model, 0, "cpu")
    assert list(first_batch._sizes_differ(first))
    assert first_batch.warnings(first) == []


def test_a_checkpoint_far_above_chance_gives_a_warning(arm):
    task = task_of(arm)
    first = dataclasses.replace(FirstStep.of(task, task.build(0), 0, "cpu"), loss=2.5)
    (line,) = first_batch.warnings(first)
    assert line.startswith("the first loss is 2.5 and guessing gives 0.7 (ln 2)")
    assert "--set" not in line


def test_lora_gives_no_warning_of_missing_gradients(arm):
    pytest.importorskip("peft")
    task = task_of(arm.settings(["start.lora=2"]))
    first = FirstStep.of(task, task.build(0), 0, "cpu")
    assert any(name.count("lora_A") and not p.grad.any() for name, p in first.model.named_parameters())
    assert first_batch.warnings(first) == []


def test_finetuning_keeps_the_best_weights_and_tests_once(arm, tmp_path):
    record = trained(arm, tmp_path / "home")
    result = record.result
    assert result.values["test/accuracy"] == 1
    found = {
        line["step"]: line["validation/accuracy"]
        for line in record.metrics
        if "validation/accuracy" in line and line["step"]
    }
    assert len(found) == 4, "once an epoch"
    assert result.weights_of == max(found, key=lambda step: (found[step], -step))
    assert not any(key.startswith("test/") for line in record.metrics for key in line)
    again = load_trained(record)
    assert again.labels == ("no", "yes")
    assert (
        load_trained(record, 0)
        .model.state_dict()["trunk.tokens.weight"]
        .equal(task_of(arm).build(0).state_dict()["trunk.tokens.weight"])
    ), "before training it is the checkpoint"


def test_stopped_finetuning_resumes_to_the_same_bits(arm, tmp_path):
    spec = RunSpec(arm=arm.set("start.lora", 2)).resolved()
    list(execute(spec, tmp_path / "whole"))
    for _ in range(30):
        events = execute(spec, tmp_path / "stopped", Options(save_every=0))
        for n, event in enumerate(events):
            if n == 5 or (isinstance(event, Evaluated) and event.done):
                events.close()
                break
        if Record(tmp_path / "stopped" / "runs" / spec.id).result is not None:
            break
    list(execute(spec, tmp_path / "stopped"))
    assert results(tmp_path / "whole" / "runs" / spec.id) == results(tmp_path / "stopped" / "runs" / spec.id)


def test_lora_trains_few_parameters_and_is_merged(arm, tmp_path):
    thin = arm.set("start.lora", 2)
    task = task_of(thin)
    model, whole = task.build(0), task_of(arm).build(0)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    layers, width = arm.model.layers, arm.model.width
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == layers * 2 * 2 * 2 * width + sum(
        p.numel() for p in whole.head.parameters()
    )
    assert all("lora_" in name or name.startswith("head.") for name in learning)
    batch = task.batch(0, 0)
    ids, keep = torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)
    with torch.inference_mode():
        torch.testing.assert_close(model.eval()(ids, keep), whole.eval()(ids, keep))  # no difference at first
    record = trained(thin, tmp_path / "home")
    result = record.result
    assert result.learning < result.parameters / 3
    counted = parameters_of(record.id)
    assert (counted.counted.total, counted.learning) == (result.parameters, result.learning)
    assert counted.lines()[-1] == f"{result.learning:,} of {result.parameters:,} parameters learn"
    kept, start = load_file(record.folder / "model.safetensors"), model.state_dict()
    frozen = [n for n in kept if "lora_" not in n and not n.startswith("head")]
    assert all(torch.equal(kept[n], start[n]) for n in frozen)
    assert not torch.equal(kept["head.2.weight"], start["head.2.weight"])
    model.load_state_dict(kept)
    plain = load_trained(record).model
    assert not any("lora_" in name for name in plain.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(plain(ids, keep), model(ids, keep), atol=1e-5, rtol=0)
        assert (plain(ids, keep) - whole(ids, keep)).abs().max() > 0.01


def test_another_checkpoint_under_the_same_name_is_another_run(arm):
    before = RunSpec(arm=arm).resolved()
    other = model("bert")
    with torch.no_grad():
        other.embeddings.word_embeddings.weight.add_(1)
    other.save_pretrained(arm.start.checkpoint)
    assert RunSpec(arm=arm).resolved().id != before.id
    with pytest.raises(InputError, match="has changed"):
        before.resolved()


def test_model_with_other_shapes_than_checkpoint_is_refused(arm):
    with pytest.raises(InputError, match="has other weights than"):
        task_of(arm.set("model.layers", 2)).build(0)
    with pytest.raises(InputError, match="has other weights than"):
        task_of(arm.set("model.norm", "RMSNorm")).build(0)


def test_weights_of_one_checkpoint_and_tokens_of_another_are_refused(arm, tmp_path):
    other = saved(tmp_path / "other", "bert")
    same_tokens = RunSpec(arm=arm.set("start.checkpoint", str(other))).resolved()
    assert same_tokens.arm.tokenizer.checkpoint == arm.tokenizer.checkpoint
    tokens = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    vocabulary["peace"], vocabulary["war"] = vocabulary["war"], vocabulary["peace"]
    (other / "tokenizer.json").write_text(json.dumps(tokens))
    with pytest.raises(InputError, match=r"set tokenizer\.checkpoint="):
        RunSpec(arm=arm.set("start.checkpoint", str(other))).resolved()


def test_a_forecast_counts_steps_and_evaluations(arm):
    found = forecast.time_run(arm)
    assert found.steps == task_of(arm).steps
    assert 0 < found.step_seconds < 1
    assert 0 < found.evaluation_seconds < 60
    assert forecast.time_run(arm.set("train.epochs", 8)).steps == 2 * found.steps


def test_words_unknown_to_a_checkpoint_give_a_warning(arm, tmp_path):
    rows = [f"zebra quagga {WORDS[n % 11]} okapi{n},{('no', 'yes')[n % 2]}" for n in range(60)]
    (tmp_path / "odd.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    strange = arm_for(arm.start.checkpoint, Files(path=str(tmp_path / "odd.csv")), longest=16)
    said = " ".join(task_of(RunSpec(arm=strange).resolved().arm).warnings())
    assert "the checkpoint's tokenizer lacks them" in said
    assert "tokenizer=Bpe" not in said


# -- random weights that vary one source of noise ----------------------------------------------------------------------


def weights_and_batch(text, seed: int, start: str):
    task = task_of(Arm.of("lm", Files(path=str(text))).settings([*SMALL, f"start={start}"]))
    return task.build(seed).state_dict(), task.batch(seed, 0).ids.tolist()


def test_weights_of_another_seed_keep_the_batches(text):
    mixed, batch = weights_and_batch(text, 1, "FreshFrom(seed=5)")
    five, its_batch = weights_and_batch(text, 5, "Fresh")
    assert all(torch.equal(w, five[name]) for name, w in mixed.items())
    assert batch == weights_and_batch(text, 1, "Fresh")[1] != its_batch


def test_weights_of_the_same_seed_give_the_same_bits(text, home):
    runs = [
        RunSpec(arm=Arm.of("lm", Files(path=str(text))).settings([*SMALL, "train.steps=3", f"start={s}"]), seed=2)
        for s in ("Fresh", "FreshFrom(seed=2)")
    ]
    first, second = (results(trained(run.arm, home, seed=2).folder) for run in runs)
    assert first["model.safetensors"] == second["model.safetensors"]
    assert runs[0].id != runs[1].id


def test_perturbed_weights_differ_in_the_last_digits(text):
    plain, batch = weights_and_batch(text, 1, "Fresh")
    moved, same = weights_and_batch(text, 1, "Perturbed")
    again, _ = weights_and_batch(text, 1, "Perturbed")
    assert batch == same
    assert all(torch.equal(w, again[name]) for name, w in moved.items())
    for name, w in plain.items():
        torch.testing.assert_close(moved[name], w, rtol=1e-5, atol=0)
    changed = [name for name, w in plain.items() if not torch.equal(w, moved[name])]
    assert any("attention" in name for name in changed)
    size = torch.cat([(moved[n] / plain[n] - 1).flatten() for n in changed if n.endswith("weight")])
    assert 0.8e-6 < float(size[size.isfinite()].std()) < 1.2e-6
