"""Which statements a class needs, of a script and of the cells of a session."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.spec.statements import (
    contradicts,
    digest,
    outdated,
    slice_session,
    standalone,
    statements_of,
    undefined,
    write,
)

CLASS = "class Near:\n    def allowed(self):\n        return helper() + SCALE"
HELPER = "def helper():\n    return OTHER"


def in_session(*cells: str, name: str = "Near") -> str:
    """The file that is written for a class whose last definition in the cells is meant."""
    statements = [s for cell in cells for s in statements_of(cell)]
    definition = max(n for n, s in enumerate(statements) if name in s.binds)
    return write(slice_session(statements, definition, name), "title", changes=True)


def executed(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(text, "written", "exec"), space)
    return space


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n")[1:] if line]


def test_a_session_class_takes_only_what_it_uses():
    text = in_session("import math\nimport os", "SCALE = 2", "OTHER = 5; unused = 3", HELPER, CLASS, "print(Near())")
    assert lines(text) == ["SCALE = 2", "OTHER = 5", *HELPER.split("\n"), *CLASS.split("\n")]
    assert executed(text)["Near"]().allowed() == 7


def test_definitions_after_the_class_are_found():
    text = in_session(CLASS, HELPER, "SCALE = 2", "OTHER = 5")
    assert executed(text)["Near"]().allowed() == 7


SESSION = ["SCALE = 2", "OTHER = 5", HELPER, CLASS]


@pytest.mark.parametrize("again", [[0], [1], [2], [3], [3, 0], [2, 3, 0, 1], [0, 1, 2, 3]])
def test_rerunning_an_unchanged_cell_keeps_the_digest(again: list[int]):
    before, after = in_session(*SESSION), in_session(*SESSION, *(SESSION[n] for n in again))
    assert digest(before, "Near") == digest(after, "Near")


IMPORTS = "import collections\nfrom typing import ClassVar"
HOOKS = "class Hooks(collections.UserDict):\n    kind: ClassVar[int] = 3\n    def f(self):\n        return collections"
NEEDS_HOOKS = "class Near:\n    def f(self):\n        return Hooks()"


@pytest.mark.parametrize("again", [[0], [1], [0, 1], [1, 0], [2, 0]])
def test_a_cell_needed_early_and_late_counts_once(again: list[int]):
    """The import is read when Hooks is defined, and again when its method is called."""
    cells = [IMPORTS, HOOKS, NEEDS_HOOKS]
    assert digest(in_session(*cells), "Near") == digest(in_session(*cells, *(cells[n] for n in again)), "Near")


CHANGED = {
    "the class": (3, CLASS.replace("+ SCALE", "- SCALE")),
    "a constant": (0, "SCALE = 3"),
    "a helper": (2, HELPER.replace("OTHER", "OTHER + 1")),
    "a constant of the helper": (1, "OTHER = 6"),
}


@pytest.mark.parametrize(("cell", "code"), CHANGED.values(), ids=CHANGED)
def test_rerunning_a_changed_cell_changes_the_digest(cell: int, code: str):
    before, after = in_session(*SESSION), in_session(*SESSION, code)
    assert digest(before, "Near") != digest(after, "Near")
    assert digest(in_session(*SESSION, code, SESSION[cell]), "Near") == digest(before, "Near"), "changed back"
    fresh = [*SESSION[:cell], code, *SESSION[cell + 1 :]]
    assert digest(after, "Near") == digest(in_session(*fresh), "Near"), "as if the session had begun with it"


def test_a_value_read_at_definition_is_the_old_one():
    text = in_session("SCALE = 2", "class Near:\n    at = SCALE\n    def now(self):\n        return SCALE", "SCALE = 3")
    made = executed(text)["Near"]()
    assert (made.at, made.now()) == (2, 3)


def test_a_value_computed_from_an_older_one_is_recomputed():
    text = in_session("A = 1", "B = A + 1", "A = 5", "class Near:\n    def f(self):\n        return A, B")
    assert executed(text)["Near"]().f() == (5, 2)


def test_a_function_called_in_a_cell_sees_the_old_values():
    cells = [
        "A = 1",
        "def g():\n    return A",
        "B = g()",
        "A = 5",
        "class Near:\n    def f(self):\n        return B, g()",
    ]
    assert executed(in_session(*cells))["Near"]().f() == (1, 5)


CHANGES = {
    "a method": ("T = {}", "T.update(a=2)", "T['a']"),
    "a method in a loop": ("T = []", "for n in range(3):\n    T.append(n)", "len(T)"),
    "an item": ("T = {}", "T['a'] = 2", "T['a']"),
    "an attribute": ("import types\nT = types.SimpleNamespace()", "T.a = 2", "T.a"),
    "more": ("T = 1", "T += 1", "T"),
    "a call that works in place": (
        "T = [3]\nclass ops:\n    def double_(x):\n        x *= 2",
        "ops.double_(T)",
        "len(T)",
    ),
    "random numbers": ("import random", "random.seed(1)", "R"),
}


@pytest.mark.parametrize(("first", "change", "value"), CHANGES.values(), ids=CHANGES)
def test_an_in_place_change_is_part_of_the_digest(first: str, change: str, value: str):
    last = ["R = random.random()"] if value == "R" else []
    cells = [first, change, *last, f"class Near:\n    def f(self):\n        return {value}"]
    text = in_session(*cells)
    space: dict[str, Any] = {}
    for cell in cells:
        exec(cell, space)
    assert executed(text)["Near"]().f() == space["Near"]().f()
    without = in_session(*(cell for cell in cells if cell != change))
    assert digest(text, "Near") != digest(without, "Near")


def test_training_in_a_cell_is_left_out():
    """`study` uses the class; the class does not use `study`."""
    text = in_session("import headtohead as h2h", "class Near(h2h.Pattern):\n    pass", "study = Near()", "study.run()")
    assert "study" not in text
    assert "h2h.train" not in in_session(
        "import headtohead as h2h", "class Near(h2h.Pattern):\n    pass", "h2h.train()"
    )


def test_future_imports_come_first():
    text = in_session("import os", "from __future__ import annotations", "class Near:\n    x: Unknown = 1")
    assert lines(text)[0] == "from __future__ import annotations"
    assert executed(text)["Near"].x == 1


def test_names_imported_with_a_star_are_found():
    text = in_session("from math import *", "class Near:\n    def f(self):\n        return floor(2.5)")
    assert executed(text)["Near"]().f() == 2
    assert "math" not in in_session("from math import *", "class Near:\n    def f(self):\n        return 2")


def test_comments_inside_a_statement_are_kept():
    assert "# why" in in_session("class Near:\n    def f(self):  # why\n        return 1")
    assert in_session("@staticmethod\ndef g(): ...", "class Near:\n    f = g").count("@staticmethod") == 1


# -- scripts -----------------------------------------------------------------------------------------------------------

SCRIPT = f"""
import random

{HELPER}

SCALE = 2
SCALE = SCALE + 1
TABLE = []
TABLE.append(4)

{CLASS} + len(TABLE)

OTHER = 5
study = Near()
print(study.run())
if __name__ == "__main__":
    study.run()
"""


def test_a_script_class_keeps_its_digest_standalone():
    text = write(standalone(SCRIPT, "Near"), "title")
    assert digest(text, "Near") == digest(SCRIPT, "Near") == digest(SCRIPT.encode(), "Near")
    assert "study" not in text
    assert executed(text)["Near"]().allowed() == 5 + 3 + 1


def test_the_digest_of_a_file_is_unchanged():
    """Runs in stores are named by it: every statement that binds a needed name, the names in order."""
    assert digest(SCRIPT.encode(), "Near") == "f54ab19bc8bc0230"


# -- does the source say what is there? --------------------------------------------------------------------------------


def one(text: str) -> Any:
    return statements_of(text)[-1]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("A = 2", 3),
        ("A = 2", 2.0),
        ("A = [1, 2]", [1]),
        ("A: int = 2", 3),
        ("def A(x):\n    return x + 1", lambda x: x + 2),
        ("def A(x):\n    return x", 3),
        ("class A:\n    def f(self):\n        return 1", type("A", (), {"f": lambda _: 2})),
        ("class A:\n    def f(self):\n        return 1", type("A", (), {})),
    ],
)
def test_a_value_its_statement_does_not_give_is_found(text: str, other: Any):
    space: dict[str, Any] = {}
    exec(text, space)
    assert not contradicts(one(text), "A", space["A"])
    assert contradicts(one(text), "A", other)


def test_values_that_cannot_be_compared_are_accepted():
    for text in ("A = f()", "A, B = 1, 2", "@wrap\ndef A(): ...", "import A"):
        assert not contradicts(one(text), "A", object())


def test_a_name_that_differs_from_its_statement_is_named():
    kept = statements_of(f"SCALE = 2\nOTHER = 5\n{HELPER}\n{CLASS}")
    live = executed(f"SCALE = 2\nOTHER = 5\n{HELPER}\n{CLASS}")
    assert outdated(kept, live) is None
    assert outdated(kept, live | {"OTHER": 6}) == "OTHER"


def test_a_name_without_source_is_named():
    kept = statements_of(f"SCALE = 2\n{HELPER}\n{CLASS}")
    assert undefined(kept, {"OTHER": 3, "SCALE": 2}) == ["OTHER"]
    assert undefined(kept, {}) == [], "it is no value here either"


EVERY_VERSION = """
from dataclasses import dataclass
LIMIT = 3
names = [name for name in ("a", "b")]
name = "not used"
@dataclass
class Watched:
    given: list[int]
def helper(value: Watched, *, scale: float = 1.0) -> dict[str, int]:
    \"\"\"Doubled.\"\"\"
    return {key: len(f"{value!r:>{LIMIT}}") for key in names}
class Near(Base):
    def forward(self):
        return helper
"""


def test_the_digest_is_the_same_in_every_python():
    """Stored runs name a user's class by it. The digest is that of Python 3.11.7, 3.12.1, 3.13.0 and 3.14.8."""
    assert digest(EVERY_VERSION, "Near") == "65c5a808799809b4"
    assert digest(EVERY_VERSION.replace('"not used"', "0"), "Near") == digest(EVERY_VERSION, "Near")
    assert digest(EVERY_VERSION.replace("list[int]", "list[str]"), "Near") != digest(EVERY_VERSION, "Near")
