"""The id of a spec from its JSON alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.spec import Spec
from headtohead.spec.identity import NOT_IDENTITY, id_of_json
from headtohead.spec.spec import families, is_builtin

SETTINGS = [
    "model.position=Rope",
    "train.optimizer=Muon",
    "model.pattern=Causal & Local(8)",
    "train.optimizer.lr=1e-05",
]


def classes(cls: type[Spec] = Spec) -> list[type[Spec]]:
    return [cls, *(c for below in cls.__subclasses__() for c in classes(below))]


def test_the_list_of_knobs_is_complete() -> None:
    families()
    found = {"in": set(), "out": set()}
    for cls in filter(is_builtin, classes()[1:]):
        for knob in dataclasses.fields(cls):
            found["in" if knob.metadata.get("identity", True) else "out"].add(knob.name)
    assert found["out"] == set(NOT_IDENTITY)
    assert not found["in"] & set(NOT_IDENTITY)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_id_is_that_of_the_spec(setting: str, text: Path) -> None:
    spec = RunSpec(arm=Arm.of("lm", Files(path=str(text))).settings([setting]), seed=3)
    assert id_of_json(json.loads(json.dumps(spec.to_json()))) == spec.id


def test_a_class_of_the_users_has_no_known_id() -> None:
    assert id_of_json({"kind": "RunSpec", "arm": {"kind": "Own", "file": "own.py", "source": "abc"}}) is None
