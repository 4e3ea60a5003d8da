"""Errors in the words of a page's fields; empty knobs."""

from __future__ import annotations

import pytest

from headtohead.errors import InputError
from headtohead.web.field_text import of_field, without_empty_knobs


@pytest.mark.parametrize(
    ("said", "path", "shown"),
    [
        ("ModelSpec.width must be a whole number, not 'x'", "model.width", "width: a whole number, not 'x'"),
        ("Biases.out must be True or False, not 7", "model.biases.out", "biases.out: True or False, not 7"),
        ("Rope.theta must be a number, not 'x'", "model.position.theta", "theta: a number, not 'x'"),
        ("Rope.theta must be a number, not 'x'", "model.position", "theta of Rope: a number, not 'x'"),
        (
            "no part is called 'Ropee': did you mean Rope?",
            "model.position",
            "no part is called 'Ropee': did you mean Rope?",
        ),
    ],
)
def test_an_error_has_the_label_of_its_field(said: str, path: str, shown: str):
    assert str(of_field(InputError(said), path)) == shown


def test_empty_knobs_are_left_out():
    assert without_empty_knobs("Causal & Local(window=)") == "Causal & Local()"
    assert without_empty_knobs("Rope(theta=,fraction=0.5), Alibi(slope= )") == "Rope(fraction=0.5), Alibi()"
    assert without_empty_knobs("0.001, 0.01") == "0.001, 0.01"
