"""No part's name outside parts/: the model calls hooks, it never asks which part it has."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead
from headtohead import families
from headtohead.spec import is_builtin

SOURCE = Path(headtohead.__file__).parent
NAMES = {name for members in families().values() for name, cls in members.items() if is_builtin(cls)}


def mentions(code: str) -> Iterator[str]:
    """Each place where code does more with a part than import it or make one: it compares, looks up, or asks for its
    class. A string that is nothing but a part's name counts too."""
    tree = ast.parse(code)
    made = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    # a match such as `case Rope():` holds its class as a name of its own, and is not a call
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in made:
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in NAMES and isinstance(node.ctx, ast.Load):
                yield f"line {node.lineno}: {name} is used as a class"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip() in NAMES:
            yield f"line {node.lineno}: the text {node.value!r} is a part's name"


def files() -> list[Path]:
    return [f for f in sorted(SOURCE.rglob("*.py")) if not {"parts", "recipes"} & set(f.relative_to(SOURCE).parts)]


def test_source_files_and_part_names_are_found():
    assert {"transformer.py", "attention.py", "spec.py", "hooks.py"} <= {f.name for f in files()}
    assert len(NAMES) >= 25


@pytest.mark.parametrize("file", files(), ids=lambda f: f.relative_to(SOURCE).as_posix())
def test_no_file_outside_parts_tests_for_a_part_by_name(file):
    assert list(mentions(file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "planted",
    [
        'if type(position).__name__ == "Rope": pass',
        'if str(position).startswith("Rope"): pass',
        "if isinstance(position, Rope): pass",
        "if isinstance(position, (Alibi, Learned)): pass",
        "if isinstance(position, Alibi | Learned): pass",
        "if isinstance(position, positions.Rope): pass",
        "if type(position) is Rope: pass",
        "if type(position) in (Rope, Alibi): pass",
        'if kind in {"Causal", "Full"}: pass',
        'build = {"Rope": turn, "Alibi": slant}[kind]',
        "build = {Rope: turn}[type(position)]",
        'build = builders.get("Rope")',
        'cls = families()["position"]["Rope"]',
        'match kind:\n    case "Rope": pass',
        "match position:\n    case Rope(): pass",
        "match position:\n    case parts.Rope(theta=t): pass",
        "if issubclass(cls, Rope): pass",
        "if position.__class__ == parts.Rope: pass",
    ],
)
def test_a_planted_part_name_is_found(planted):
    assert list(mentions(textwrap.dedent(planted)))


@pytest.mark.parametrize(
    "fine",
    [
        "from headtohead.parts import Causal, Full\npattern = Causal() & Full()",
        'position: Position = knob(default=Learned(), help="where a token stands, such as Rope(theta=500)")',
        "if isinstance(part, Pattern): pass",
        '"""Rope and Alibi are positions."""',
        "spec.position.relative",
    ],
)
def test_building_a_part_by_name_is_allowed(fine):
    assert list(mentions(fine)) == []
