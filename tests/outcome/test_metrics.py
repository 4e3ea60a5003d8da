"""The one figure by which a list shows a run."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.outcome.metrics import main_figure


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
