"""The functions that a notebook calls: they do what the commands of the same names do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

import headtohead as h2h
from helpers.terminal import h2h as command

pytestmark = pytest.mark.usefixtures("home")

SMALL = {"model.width": 16, "model.layers": 1, "model.block": 16, "tokenizer": "Byte", "train.batch": 4}
SMALL |= {"evaluate.train": 16, "evaluate.along": 16}


def trained(text: Path, **more: object) -> h2h.Run:
    return h2h.train("lm", data=text, set=SMALL, steps=6, progress=False, **more)


def test_train_returns_a_run_with_metrics_and_model(text: Path):
    run = trained(text, seed=3)
    assert run.result["status"] == "complete"
    assert isinstance(run.metrics, pd.DataFrame)
    assert {"step", "validation/loss"} <= set(run.metrics.columns)
    assert run.metrics["step"].iloc[-1] == 6
    assert isinstance(run.model, nn.Module)
    assert run.tokenizer.decode(run.tokenizer.encode(["we will"])[0]) == "we will"
    assert run.id in run._repr_html_()
    assert run.plot().axes


def test_train_and_the_command_give_the_same_run(text: Path):
    run = trained(text)
    settings = [part for path, value in SMALL.items() for part in ("--set", f"{path}={value}")]
    done = command("train", "lm", "--data", text, *settings, "--steps", 6, "--json")
    assert done.json[0]["run"] == run.id
    assert "already" in done.err or done.code == 0


def test_train_takes_an_arm_and_refuses_other_data(text: Path):
    run = trained(text)
    assert h2h.train(run.arm, progress=False).id == run.id
    with pytest.raises(h2h.InputError, match="an arm has its own data"):
        h2h.train(run.arm, data=text)
    with pytest.raises(h2h.InputError, match='train\\("lm"\\)'):
        h2h.train("decoder")


def test_load_finds_a_run_by_id_prefix_and_latest(text: Path):
    run = trained(text)
    assert h2h.load(run.id).id == h2h.load(run.id[:6]).id == h2h.load("latest").id == h2h.load().id == run.id
    with pytest.raises(h2h.InputError, match="no run 'nothing'"):
        h2h.load("nothing")


def test_runs_and_studies_are_frames(text: Path, home: Path):
    assert h2h.runs().empty
    assert h2h.studies().empty
    run = trained(text)
    frame = h2h.runs()
    assert list(frame["run"]) == [run.id]
    assert frame["test/loss"][0] == run.result["values"]["test/loss"]
    assert list(h2h.runs(home)["seed"]) == [0]


def test_a_language_model_generates_and_scores(text: Path):
    run = trained(text)
    one, two = h2h.generate(run, "we", tokens=5, samples=2, seed=1)
    assert len(one.tokens) == len(two.tokens) == 5
    assert h2h.generate(run.id, "we", tokens=5, seed=1)[0].text == h2h.generate(run, "we", tokens=5, seed=1)[0].text
    assert h2h.score(run, "we will").loss == h2h.score("latest", "we will").loss > 0
    with pytest.raises(h2h.InputError, match="h2h score"):
        h2h.classify(run, "we")


def test_a_classifier_classifies_one_text_or_several(table: Path):
    small = {k: v for k, v in SMALL.items() if k != "tokenizer"}
    run = h2h.train("classifier", data=table, set=small, epochs=1, progress=False)
    assert h2h.classify(run, "good 3 times")[0].label in ("up", "down")
    assert len(h2h.classify(run, ["good", "bad"])) == 2


def test_attention_of_a_run_and_of_its_module_are_equal(text: Path):
    run = trained(text)
    of_run = h2h.attention(run, "we will")
    of_module = h2h.attention(run.model, "we will", tokenizer=run.tokenizer)
    assert of_run.ok
    assert (of_run.weights == of_module.weights).all()
    with pytest.raises(h2h.InputError, match="needs its tokenizer"):
        h2h.attention(run.model, "we will")
    with pytest.raises(h2h.InputError, match="has no attention weights"):
        h2h.attention(nn.Linear(2, 2), "we will", tokenizer=run.tokenizer)


class Tiny(nn.Module):
    """A causal model without attention: every token predicts from itself."""

    def __init__(self, vocab: int = 11) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(vocab, 8), nn.Linear(8, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(ids))


def test_audit_takes_a_class_a_module_a_part_and_a_spec():
    for what in (Tiny, Tiny()):
        report = h2h.audit(what, causal=True)
        assert isinstance(report, h2h.Report)
        assert report.ok, report.broken
    once = h2h.audit(Tiny(), causal=True, only=["seed"])
    assert [f.status for f in once.findings] == ["does not apply"]
    assert not h2h.audit(h2h.Reweight(over="sequence")).ok
    assert h2h.audit("Rope", only=["cache"]).ok
    with pytest.raises(h2h.InputError, match="can be audited"):
        h2h.audit(3)


USER = """
import headtohead as h2h

run = h2h.train("lm", data="shakespeare", set={"model.position": h2h.Rope()})
reveal_type(run)
reveal_type(run.metrics)
reveal_type(h2h.load("latest"))
study = h2h.Study(question="?", control=h2h.Arm(), vary={"model.norm": ["LayerNorm", "RMSNorm"]})
outcome = study.run()
reveal_type(outcome)
reveal_type(outcome.verdicts)
reveal_type(outcome.verdicts.frame())
reveal_type(outcome.results())
reveal_type(outcome.report())
reveal_type(h2h.runs())
reveal_type(h2h.audit(run.model))
"""


def test_mypy_infers_the_types_of_a_users_script(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(USER)
    cache = tmp_path / "mypy"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=300,
    )
    types = [line.rpartition("Revealed type is ")[2].strip('"').rpartition(".")[2] for line in done.stdout.splitlines()]
    expected = [
        "Run",
        "DataFrame",
        "Run",
        "Outcome",
        "Verdicts",
        "DataFrame",
        "DataFrame",
        "Path",
        "DataFrame",
        "Report",
    ]
    assert types[: len(expected)] == expected, done.stdout + done.stderr
    assert "Success" in done.stdout or done.returncode == 0, done.stdout
