"""Values agree up to rounding; code that fails has its exception as value."""

import math

import pytest
import torch

from headtohead.bughunt.hunts import sound_text
from headtohead.bughunt.measurements import agree, measure
from helpers.hunted import loaded, measured


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 2.0], [1.00001, 2.0], True),
        ([1.0], [1.01], False),
        ([1.0], [1.0, 1.0], False),
        ([math.nan], [math.nan], True),
        ([math.nan], [0.0], False),
        ("same", "same", True),
        ("same", [1.0], False),
        ("it raised ValueError: a", "it raised ValueError: b", True),
        ("it raised ValueError: a", "it raised TypeError: a", False),
        ([1.0], None, False),
    ],
)
def test_values_agree_up_to_rounding(a, b, expected) -> None:
    assert agree(a, b) is expected


def test_measuring_twice_gives_the_same_and_keeps_the_precision() -> None:
    before = torch.get_default_dtype()
    first = measured(sound_text())
    assert measure(loaded(sound_text())) == first
    assert torch.get_default_dtype() == before


def test_an_exception_is_a_value() -> None:
    values = measured("x = 1\n")
    assert all(isinstance(v, str) and v.startswith("it raised AttributeError") for v in values.values())
