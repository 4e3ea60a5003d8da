"""Values typed into the fields of a page, and errors in the words of those fields. Imports no torch."""

from __future__ import annotations

import re

from headtohead.display.catalogue import catalogue
from headtohead.errors import InputError

EMPTY = re.compile(r"(,\s*)?\b[a-z_]\w*\s*=\s*(?=[,)])")
SAID = re.compile(r"(?P<of>\w+)\.(?P<name>\w+) must be (?P<wanted>.*)", re.DOTALL)


def without_empty_knobs(text: str) -> str:
    """A part without the knobs that were left empty, which have their defaults: Rope(theta=) is Rope()."""
    return re.sub(r"\(\s*,\s*", "(", EMPTY.sub("", text))


def of_field(error: InputError, path: str = "") -> InputError:
    """The error with the label of its field in place of the class: width: a whole number from 1 to 65,536, not 'abc'.
    `path` is the setting that was given."""
    said = SAID.fullmatch(str(error))
    if said is None:
        return error
    label = path.partition(".")[2] if any(one.name == path for one in catalogue().settings) else said["name"]
    if label.rpartition(".")[2] != said["name"]:  # a knob of a part that was written as one value
        label = f"{said['name']} of {said['of']}"
    return InputError(f"{label}: {said['wanted']}")
