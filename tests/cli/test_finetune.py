"""h2h finetune."""

from __future__ import annotations

import pytest

from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("offline")


def test_the_command_runs_end_to_end(checkpoint, labelled):
    said = ["--model", checkpoint("bert"), "--data", labelled, "--max-length", 16, "--batch", 8, "--lr", 0.003]
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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--vary", "a=b", "--over", "c=d"], "give one of them"),
        (["--trials", "3"], "--trials needs --over"),
        (["--over", "train.batch=4,8", "--seeds", "3"], "leave out --seeds"),
        (["--model", "no/such-model-anywhere"], "no/such-model-anywhere"),
        (["--data", "nothing.csv"], "nothing.csv"),
        (["--lora", "0"], "--lora"),
        (["--max-length", "1"], "--max-length"),
        (["--set", "train.epochs=0"], "epochs"),
    ],
)
def test_bad_input_is_one_line(checkpoint, labelled, options, says):
    given = {"--model": str(checkpoint("bert")), "--data": str(labelled)}
    rest = [part for name, value in given.items() if name not in options for part in (name, value)]
    done = h2h("finetune", *rest, *options)
    assert done.code in (2, 3)
    assert says in done.err
    lines = [line for line in done.err.splitlines() if line.strip() and not line.startswith("h2h: loading")]
    assert len(lines) == 1, done.err
