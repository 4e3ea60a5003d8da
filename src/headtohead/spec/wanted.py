"""What a setting accepts, in words: a whole number from 1 to 65,536."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

WORDS = {int: "a whole number", float: "a number"}
BOUNDS = ("ge", "gt", "le", "lt")


def wanted(kind: Any, default: Any, bounds: Mapping[str, Any], finite: bool = False) -> str:
    """The values of a type within the bounds of a knob; empty for a type without words. `finite` says that infinity
    was given."""
    if get_origin(kind) in (Union, types.UnionType):
        known = [one for one in get_args(kind) if one is not type(None)]
        said = wanted(known[0], default, bounds, finite) if len(known) == 1 else ""
        return f"{said}, or none" if said and len(known) < len(get_args(kind)) else said
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple and Ellipsis not in get_args(kind):
        return f"{len(get_args(kind))} values, such as {default}"
    if kind is bool:
        return "True or False"
    said = WORDS.get(kind, "")
    if said and finite:
        said = said.replace("a ", "a finite ", 1)
    return said and f"{said}{_bounds(bounds)}"


def _bounds(bounds: Mapping[str, Any]) -> str:
    found = {name: bounds[name] for name in BOUNDS if bounds.get(name) is not None}
    number = {name: f"{value:,}" if value == int(value) else f"{value:g}" for name, value in found.items()}
    if {"ge", "le"} <= number.keys():
        return f" from {number['ge']} to {number['le']}"
    words = {"ge": "{} or more", "gt": "above {}", "le": "{} or less", "lt": "below {}"}
    told = [words[name].format(number[name].removesuffix(".0")) for name in BOUNDS if name in number]
    if not told:
        return ""
    return f"{' ' if told[0].startswith(('above', 'below')) else ', '}{' and '.join(told)}"
