"""Values of settings are checked and converted as pydantic does it, for everything that JSON and `parse` can give."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError

from headtohead.errors import InputError
from headtohead.spec import Spec, knob
from headtohead.spec.values import Unfit, bounded, converter


class Own:
    pass


class Choice(str, enum.Enum):  # noqa: UP042
    BOTH = "both"


KINDS = [
    *(int, float, bool, str, tuple, list, dict, Any, None, Own),
    *(int | None, float | None, bool | None, str | None, Own | None, int | float, int | str),
    *(int | tuple[int, ...], tuple[int, ...] | int, tuple[str, ...], tuple[float, float], list[int], dict[str, int]),
    *(Literal["own", "both"], Literal["own"] | None),
]
VALUES = [
    *(0, 1, -1, 3, 2**70, 10**400, 1.0, 1.5, 0.1, -0.0, 1e300, math.nan, math.inf, True, False, None),
    *("", "8", " 8 ", "8.0", "8.", ".0", "8.5", "1_000", "1__0", "+3", "0x10", "1e3", "nan", "٣", "9" * 5000),
    *("true", "YES", "off", " true", "own", "both", Choice.BOTH),
    *((), (1,), (1, 2), [1, 2], ("a",), ("1", "2"), {1, 2}, (1, 2, 3), (math.nan, 1), range(2)),
    *({"a": 1}, {"a": "2"}, {1: 2}, Own(), Own, 1j, np.array([1, 2]), np.float64(2.5), np.float64(3.0)),
]


def ours(kind: Any, value: Any) -> str:
    try:
        made = converter(kind)(value)
    except Unfit:
        return "refused"
    return f"{type(made).__name__} {made!r}"


def theirs(kind: Any, value: Any) -> str:
    config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)
    try:
        made = TypeAdapter(kind, config=config).validate_python(value)
    except ValidationError:
        return "refused"
    return f"{type(made).__name__} {made!r}"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_are_converted_as_pydantic_does(kind):
    differing = [(v, ours(kind, v), theirs(kind, v)) for v in VALUES if ours(kind, v) != theirs(kind, v)]
    assert not differing


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        (int, np.int64(3), 3),
        (int, torch.tensor(3), 3),
        (float, np.float32(1.5), 1.5),
        (float, torch.tensor(0.5), 0.5),
        (bool, np.bool_(True), True),
        (int | None, np.int64(3), 3),
    ],
)
def test_numbers_of_numpy_and_torch_become_pythons(kind, value, made):
    result = converter(kind)(value)
    assert result == made
    assert type(result) is type(made)


def test_tensors_with_dimensions_are_no_numbers():
    for kind in (int, float, bool, str):
        with pytest.raises(Unfit):
            converter(kind)(torch.zeros(2))


@pytest.mark.parametrize(
    ("bounds", "value", "rule"),
    [
        ({"ge": 1}, 0, "be greater than or equal to 1"),
        ({"gt": 0}, 0, "be greater than 0"),
        ({"le": 65536}, 65537, "be less than or equal to 65536"),
        ({"lt": 1}, 1, "be less than 1"),
    ],
)
def test_bounds_are_named(bounds, value, rule):
    with pytest.raises(Unfit) as unfit:
        bounded(converter(int), **bounds)(value)
    assert unfit.value.rule == rule
    assert bounded(converter(int | None), **bounds)(None) is None


def test_specs_say_what_does_not_fit():
    class Near(Spec):
        reach: int
        ways: tuple[str, ...] = knob(default=(), help="")
        notes: list[int] = knob(default=[1], help="")

        def check(self) -> None:
            if self.reach == 13:
                raise ValueError("13 is\nunlucky")

    assert Near(1, ways=["a"]) == Near("1", ways=("a",))
    assert Near(1).notes is not Near(1).notes
    for arguments, message in {
        (): "Near.reach has no default: give a value",
        (1, 2): "Near.ways must be a valid tuple, not 2",
        (1, ("a", 2)): "Near.ways must be a valid string, not 2",
        (13,): "Near: 13 is unlucky",
    }.items():
        with pytest.raises(InputError) as error:
            Near(*arguments)
        assert str(error.value) == message
    with pytest.raises(InputError, match=r"Near\.reach is given twice"):
        Near(1, reach=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Near(1).reach = 2
