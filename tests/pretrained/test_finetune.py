"""Fine-tuning: the checkpoint's weights at the first step, the best look's at the end, LoRA, forecasts and curves."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from headtohead import Arm, Files, InputError, forecast
from headtohead.arm import RunSpec
from headtohead.data.checkpoints import MINILM_CONFIG, find
from headtohead.finetune import arm_for
from headtohead.pretrained.architectures import classifier_spec, classifier_start
from headtohead.report import curves
from headtohead.runs import Looked, Options, execute
from headtohead.store import Record
from headtohead.tasks import work_on
from headtohead.trained import load_trained
from runs.small import h2h, results

from .tiny import WORDS, model, saved, transformers


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def labelled(tmp_path):
    """Texts about peace and texts about war."""
    path = tmp_path / "labelled.csv"
    others = [w for w in WORDS if w not in ("peace", "war")]
    rows = [
        f"{others[n % 11]} {others[n % 13]} {('peace', 'war')[n % 2]} {others[n % 7]},{('no', 'yes')[n % 2]}\n"
        for n in range(300)
    ]
    path.write_text("text,label\n" + "".join(dict.fromkeys(rows)), encoding="utf-8")
    return path


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


def test_a_run_starts_from_the_checkpoint_and_only_the_head_is_drawn(arm):
    theirs = transformers.AutoModel.from_pretrained(arm.start.checkpoint).eval()
    work = work_on(arm)
    one, other = (work.build(seed).eval() for seed in (0, 1))
    differ = {
        n
        for (n, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True)
        if not torch.equal(a, b)
    }
    assert differ == {"head.2.weight"}, "biases start at zero"
    batch = work.batch(0, 0)
    ids, keep = torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)
    with torch.inference_mode():
        hidden = theirs(ids, attention_mask=keep.long()).last_hidden_state
        torch.testing.assert_close(one.trunk(ids, keep)[keep], hidden[keep], atol=1e-4, rtol=0)


def test_it_learns_keeps_the_best_look_and_reads_the_test_once(arm, tmp_path):
    record = trained(arm, tmp_path / "home")
    result = record.result
    assert result["values"]["test/accuracy"] == 1
    found = {
        line["step"]: line["validation/accuracy"]
        for line in record.metrics
        if "validation/accuracy" in line and line["step"]
    }
    assert len(found) == 4, "once an epoch"
    assert result["weights_of"] == max(found, key=lambda step: (found[step], -step))
    assert not any(key.startswith("test/") for line in record.metrics for key in line)
    again = load_trained(record)
    assert again.labels == ("no", "yes")
    assert (
        load_trained(record, 0)
        .model.state_dict()["trunk.tokens.weight"]
        .equal(work_on(arm).build(0).state_dict()["trunk.tokens.weight"])
    ), "before training it is the checkpoint"


def test_stopped_and_gone_on_with_to_the_same_bits(arm, tmp_path):
    spec = RunSpec(arm=arm.set("start.lora", 2)).resolved()
    list(execute(spec, tmp_path / "whole"))
    for _ in range(30):
        events = execute(spec, tmp_path / "stopped", Options(save_every=0))
        for n, event in enumerate(events):
            if n == 5 or (isinstance(event, Looked) and event.done):
                events.close()
                break
        if Record(tmp_path / "stopped" / "runs" / spec.id).result is not None:
            break
    list(execute(spec, tmp_path / "stopped"))
    assert results(tmp_path / "whole" / "runs" / spec.id) == results(tmp_path / "stopped" / "runs" / spec.id)


def test_lora_learns_little_and_is_a_difference(arm, tmp_path):
    thin = arm.set("start.lora", 2)
    work = work_on(thin)
    model, whole = work.build(0), work_on(arm).build(0)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    layers, width = arm.model.layers, arm.model.width
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == layers * 2 * 2 * 2 * width + sum(
        p.numel() for p in whole.head.parameters()
    )
    assert all("lora_" in name or name.startswith("head.") for name in learning)
    batch = work.batch(0, 0)
    ids, keep = torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)
    with torch.inference_mode():
        torch.testing.assert_close(model.eval()(ids, keep), whole.eval()(ids, keep))  # no difference at first
    record = trained(thin, tmp_path / "home")
    result = record.result
    assert result["learning"] < result["parameters"] / 3
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


def test_a_model_of_another_shape_is_refused(arm):
    with pytest.raises(InputError, match="not made as"):
        work_on(arm.set("model.layers", 2)).build(0)
    with pytest.raises(InputError, match="not made as"):
        work_on(arm.set("model.norm", "RMSNorm")).build(0)


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


def test_a_forecast_counts_steps_and_looks(arm):
    found = forecast.forecast(arm)
    assert found.steps == work_on(arm).steps
    assert 0 < found.step_seconds < 1
    assert 0 < found.look_seconds < 60
    assert forecast.forecast(arm.set("train.epochs", 8)).steps == 2 * found.steps


def test_curves_and_what_they_say(tmp_path):
    folder = tmp_path / "runs" / "0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"seed": 3}), encoding="utf-8")
    (folder / "result.json").write_text(json.dumps({"status": "complete", "weights_of": 20}), encoding="utf-8")

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


def test_minilm_is_described_without_having_it(minilm):
    assert classifier_spec("minilm", dropout=True) == classifier_start(find(minilm), 2, dropout=True)[0]
    config = find(minilm).config
    assert {name: config[name] for name in MINILM_CONFIG} == MINILM_CONFIG


def test_the_command(arm, labelled):
    said = ["--model", arm.start.checkpoint, "--data", labelled, "--max-length", 16, "--batch", 8, "--lr", 0.003]
    said += ["--threads", 1]
    done = h2h("finetune", *said, "--epochs", 2)
    assert done.code == 0, done.err
    assert "forecast: " in done.err
    assert "parameters learned" in done.out
    assert "curves.png" in done.out
    classified = h2h("classify", "latest", "peace", "war", "--json").json
    assert [c["label"] for c in classified] == ["no", "yes"]
    again = h2h("finetune", *said, "--epochs", 2)
    assert again.out.count("in the store already") == 1
    assert "forecast" not in again.err
    only_said = h2h("finetune", *said, "--forecast", "--epochs", 3)
    assert (only_said.code, only_said.out) == (0, "")
    assert h2h("finetune", *said, "--forecast", "--epochs", 3, "--json").json["runs"] == 1
    assert h2h("finetune", *said, "--forecast", "--epochs", 2, "--json").json["runs"] == 0
    rates = ["--epochs", 1, "--vary", "train.optimizer.lr=0.003,0.001", "--seeds", 2, "--jobs", 1]
    assert h2h("finetune", *said, *rates, "--json").json["tables"]
    ended = h2h("finetune", *said, *rates, "--forecast")
    assert "nothing to train" in ended.err
    later = h2h("finetune", *said, "--epochs", 1, "--vary", "train.batch=4", "--seeds", 2, "--seed", 7, "--jobs", 1)
    assert later.code == 0, later.err
    assert "seed 7:" in later.err
    assert "seed 8:" in later.err
    assert "seed 0:" not in later.err
    one = h2h("finetune", *said, "--vary", "train.batch=4", "--seeds", 1)
    assert one.code == 2
    assert len(one.err.splitlines()) == 1  # said before anything is measured


def test_words_that_a_checkpoint_does_not_know(arm, tmp_path):
    rows = [f"zebra quagga {WORDS[n % 11]} okapi{n},{('no', 'yes')[n % 2]}" for n in range(60)]
    (tmp_path / "odd.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    strange = arm_for(arm.start.checkpoint, Files(path=str(tmp_path / "odd.csv")), longest=16)
    said = " ".join(work_on(RunSpec(arm=strange).resolved().arm).warnings())
    assert "the checkpoint's tokenizer lacks them" in said
    assert "tokenizer=Bpe" not in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--vary", "a=b", "--over", "c=d"], "give one of them"),
        (["--trials", "3"], "goes with --over"),
        (["--over", "train.batch=4,8", "--seeds", "3"], "leave out --seeds"),
        (["--model", "no/such-model-anywhere"], "no/such-model-anywhere"),
        (["--data", "nothing.csv"], "nothing.csv"),
        (["--lora", "0"], "--lora"),
        (["--max-length", "1"], "--max-length"),
        (["--set", "train.epochs=0"], "epochs"),
    ],
)
def test_bad_input_is_one_line(arm, labelled, options, says, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    given = {"--model": arm.start.checkpoint, "--data": str(labelled)}
    rest = [part for name, value in given.items() if name not in options for part in (name, value)]
    done = h2h("finetune", *rest, *options)
    assert done.code in (2, 3)
    assert says in done.err
    lines = [line for line in done.err.splitlines() if line.strip() and not line.startswith("h2h: loading")]
    assert len(lines) == 1, done.err
