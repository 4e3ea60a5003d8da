"""The catalogue says of JSON what specs say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headtohead import Arm, Causal, Copying, Local, Prefix, Shakespeare, Sotu, parse
from headtohead.display.catalogue import Catalogue, _make, catalogue
from headtohead.display.reference import parts, settings
from headtohead.errors import InputError
from headtohead.spec import Spec, alternatives, builtin_specs
from headtohead.spec.userfiles import load_file

OWN = '''
from headtohead import Rope

class Twist(Rope):
    """Rotary positions, twisted."""
'''


@pytest.fixture(scope="module")
def known() -> Catalogue:
    return catalogue()


def written(spec: Spec) -> Any:
    """As run.json has it."""
    return json.loads(json.dumps(spec.to_json()))


def every_spec() -> Iterator[Spec]:
    """Every built-in class with its defaults, and with each knob changed."""
    for cls in builtin_specs().values():
        try:
            spec = cls()
        except InputError:  # a few need a setting, such as the path of a file
            continue
        yield spec
        for _, changed in alternatives(spec):
            yield changed


def test_the_catalogue_text_equals_that_of_the_spec(known: Catalogue) -> None:
    specs = [*every_spec(), Causal() & Local(3), Causal() | (Prefix() & Local()), Arm().set("model.pattern", "Full")]
    assert len(specs) > 100
    for spec in specs:
        assert known.text(written(spec)) == str(spec)


def test_the_catalogue_reads_text_as_parse_does(known: Catalogue) -> None:
    for text in ("Rope", "Rope(500)", "Rope(theta=5e2)", "Local(8)", "Causal & Local(8) | Prefix(2)", "Mlp(relu, 100)"):
        assert known.canonical(text) == str(parse(text))
    for text, value in (("none", None), ("True", True), ("1e-3", 1e-3), ("(3, 4)", (3, 4)), ("[3]", (3,)), ("-2", -2)):
        assert known.canonical(text) == str(value)
    for text in ("best", "mine.txt", "no name at all", "Rope(", "f(x)[0]"):
        assert known.canonical(text) == text


@pytest.mark.parametrize(
    ("task", "corpus", "changes"),
    [
        ("lm", Shakespeare(), []),
        ("lm", Shakespeare(), ["model.position=Rope(theta=500)", "model.position.fraction=0.5", "train.steps=3"]),
        ("lm", Sotu(since=1945), ["model.pattern=Causal & Local(4)", "model.biases.q=true", "tokenizer=Byte"]),
        ("classifier", Sotu(), ["train.optimizer=SGD", "train.optimizer.lr=0.1", "evaluate.snapshots=(1, 3)"]),
        ("classifier", Sotu(), ["train.steps=5", "evaluate.keep=best", "data.limit=10", "model.head.hidden=7"]),
    ],
)
def test_catalogue_differences_equal_those_of_specs(
    known: Catalogue, task: Any, corpus: Any, changes: list[str]
) -> None:
    usual = Arm.of(task, corpus)
    arm = usual.settings(changes)
    expected = {d.path: str(d.right) for d in usual.diff(arm)}
    assert known.differences(written(arm)) == expected
    assert list(known.differences(written(arm))) == list(expected)


def test_a_run_on_a_task_differs_from_the_default_arm_of_tasks(known: Catalogue) -> None:
    usual = Arm.of("lm", Copying(length=3))
    assert known.differences(written(usual)) == {}
    assert known.differences(written(usual.set("model.position", "Learned"))) == {"model.position": "Learned()"}


def test_a_knob_missing_from_an_old_run_has_its_default(known: Catalogue) -> None:
    arm = written(Arm())
    del arm["model"]["qk_norm"], arm["train"]["optimizer"]["lr"]
    assert known.differences(arm) == {}
    arm["model"]["newer"] = 3
    assert known.differences(arm) == {"model.newer": "3"}


def test_the_catalogue_lists_the_live_parts_and_settings(known: Catalogue) -> None:
    assert list(known.settings) == settings()
    builtin = builtin_specs()
    assert list(known.parts) == [entry for entry in parts() if entry.name in builtin]


def test_parts_of_the_user_are_not_cached(tmp_path: Path, known: Catalogue) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    own = load_file(file).Twist(theta=5.0)
    assert "Twist" in {entry.name for entry in parts()}
    made = _make()
    assert "Twist" not in made["forms"]
    assert "Twist" not in {entry["name"] for entry in made["parts"]}
    assert known.text(written(own)) == "Twist(theta=5.0, fraction=1.0)"
