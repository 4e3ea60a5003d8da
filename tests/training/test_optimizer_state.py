"""The state of optimizers as tensors and JSON: whatever it is made of comes back the same, and nothing is pickled."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headtohead import InputError
from headtohead.training import optimizer_state
from headtohead.training.optimizer_state import Saved, size

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(allow_nan=False),
        st.text(max_size=4),
        st.integers(0, 3).map(lambda n: torch.arange(n, dtype=torch.float64)),
        st.just(torch.tensor(3)),
        st.just(torch.tensor(True)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=6,
)


def equal(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["w/a", "w/b", "v.w/a"]), VALUES, max_size=3))
def test_every_value_comes_back(state):
    saved = Saved()
    for name, value in state.items():
        saved.add(name, value)
    stored = Saved({k: t.clone() for k, t in saved.tensors.items()}, json.loads(json.dumps(saved.values)))
    found = dict(stored.items())
    assert equal(found, {name: found[name] for name in state})
    assert all(equal(found[name], value) for name, value in state.items())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_lacks_come_back(value):
    saved = Saved()
    saved.add("w/x", [value])
    json.dumps(saved.values, allow_nan=False)
    (found,) = dict(saved.items())["w/x"]
    assert found == value or (math.isnan(value) and math.isnan(found))


@pytest.mark.parametrize("value", [object(), {1: 2}, {3}, b"x", lambda: 0], ids=lambda v: type(v).__name__)
def test_other_values_are_refused_in_one_line(value):
    with pytest.raises(InputError, match=r"^w/x.* is a \w+, which a checkpoint cannot hold: ") as error:
        Saved().add("w/x", [value])
    assert "\n" not in str(error.value)


class Odd:
    """An optimizer with nested state, settings of groups that change, and one that cannot be stored."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.param_groups = [{"params": parameters, "lr": 1.0, "weight_sum": 0.0, "hook": print}]
        self.state: dict = {p: {"history": [], "count": 0} for p in parameters}

    def step(self) -> None:
        self.param_groups[0]["weight_sum"] += 0.1
        for p, state in self.state.items():
            state["history"].append((p.detach().clone(), None))
            state["count"] += 1


def test_nested_state_and_groups_are_restored():
    model = nn.Linear(3, 2)
    odd = Odd(list(model.parameters()))
    for _ in range(3):
        odd.step()
    saved = copy.deepcopy(optimizer_state.save({"": [odd]}, model))
    fresh = Odd(list(model.parameters()))
    optimizer_state.restore({"": [fresh]}, model, saved)
    assert fresh.param_groups[0]["weight_sum"] == odd.param_groups[0]["weight_sum"]
    assert fresh.param_groups[0]["hook"] is print
    assert all(equal(fresh.state[p], odd.state[p]) for p in odd.state)
    odd.step()
    assert all(len(fresh.state[p]["history"]) == 3 for p in fresh.state), "restored values are copies"
    assert size([fresh]) == 3 * 4 * sum(p.numel() for p in model.parameters())


def test_a_checkpoint_of_tensors_alone_is_restored():
    """As versions before 0.2 wrote it: the number of steps was a tensor."""
    model = nn.Linear(3, 2)
    odd = Odd(list(model.parameters()))
    optimizer_state.restore({"": [odd]}, model, Saved({"weight/count": torch.tensor(4.0)}, {}))
    assert odd.state[model.weight]["count"] == 4
