"""The one figure by which a list shows a run, and how a control is trained, in words."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead import Arm
from headtohead.outcome.metrics import main_figure, training_text


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"test/perplexity": 822.891, "validation/perplexity": 1.0, "train/perplexity": 2.0}, "ppl 822.89"),
        ({"validation/accuracy": 0.5, "test/accuracy": 0.5125, "test/loss": 1.0}, "acc 51.2%"),
        ({"validation/perplexity": 3.0, "obama/perplexity": 120.5, "wbush/perplexity": 9.0}, "obama ppl 120.50"),
        ({"validation/accuracy": 1.0, "train/accuracy": 0.1}, "val acc 100.0%"),
        ({"test/loss": 3.00004}, "loss 3.0000"),
        ({"test/perplexity": 1.23e9}, "ppl 1.2e+09"),
        ({"test/perplexity": None, "test/loss": None, "validation/perplexity": 7.0}, "val ppl 7.00"),
        ({"train/loss": 1.0}, ""),
        ({}, ""),
    ],
)
def test_the_main_figure_is_from_the_first_test_set(values: dict[str, Any], shown: str) -> None:
    assert main_figure(values) == shown


def test_how_a_control_is_trained():
    """The defaults of both tasks, and settings that differ from them."""
    assert training_text(Arm().to_json()) == "AdamW at 0.003, WarmupCosine with 30 % warm-up, gradients clipped at 1"
    assert training_text(Arm.of("classifier").to_json()) == "AdamW at 0.001, Constant, no clipping"
    plain = Arm().settings(["train.schedule=Constant", "train.clip=none", "train.optimizer=SGD(lr=0.5)"])
    assert training_text(plain.to_json()) == "SGD at 0.5, Constant, no clipping"
    own = {"train": {"optimizer": {"kind": "Mine"}, "schedule": {"kind": "Ours"}, "clip": 0.25}}
    assert training_text(own) == "Mine, Ours, gradients clipped at 0.25"
    assert training_text({}) == ""
