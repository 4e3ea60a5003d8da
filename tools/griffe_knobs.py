"""Show knobs and fields as the parameters of their class in the API reference; mkdocstrings loads this file.

`theta: float = knob(default=1e4, help="…")` and `seeds: int = 8  # how many` become parameters with type, default and
description, and the equation and the reference of a part become lines of its description.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Class, Docstring, ExprCall, Extension, Function, Parameter, ParameterKind, Parameters

COMMENT = re.compile(r"  # (?!type:|noqa|--)(.+)$")
NAMED_OR_PLACED = ParameterKind.positional_or_keyword


class Knobs(Extension):
    """Read every class of the package once it is loaded."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        for module in _modules(pkg):
            for member in module.classes.values():
                if not member.is_alias:
                    _describe(member)


def _modules(module: Any) -> list[Any]:
    below = (m for sub in module.modules.values() if not sub.is_alias for m in _modules(sub))
    return [module, *below]


def _describe(cls: Class) -> None:
    lines = [cls.docstring.value] if cls.docstring else []
    for name, shown in (("equation", "Equation: `{}`"), ("reference", "Reference: {}.")):
        text = cls.attributes[name].value if name in cls.attributes else None
        if text is not None and (said := _text(text)):
            lines += ["", shown.format(said)]
            del cls.members[name]
    knobs = {name: call for name, member in cls.attributes.items() if (call := _knob(member)) is not None}
    fields = (
        {} if knobs else {name: m for name, m in cls.attributes.items() if "dataclass" in cls.labels and _is_field(m)}
    )
    says = {name: _text(_given(call).get("help", "")) for name, call in knobs.items()}
    says |= {name: _comment(member) for name, member in fields.items()}
    if knobs:
        parameters = [Parameter("self", kind=NAMED_OR_PLACED)]
        for name, call in knobs.items():
            kind, default = NAMED_OR_PLACED, _given(call).get("default")
            parameters.append(Parameter(name, annotation=cls.attributes[name].annotation, kind=kind, default=default))
            del cls.members[name]
        cls.set_member("__init__", Function("__init__", parameters=Parameters(*parameters)))
    if any(says.values()):
        lines += ["", "Args:", *(f"    {name}: {text[:1].upper()}{text[1:]}" for name, text in says.items())]
    if lines:
        cls.docstring = Docstring("\n".join(lines), parent=cls, lineno=cls.lineno)


def _knob(member: Attribute) -> ExprCall | None:
    value = member.value
    return value if isinstance(value, ExprCall) and str(value.function) == "knob" else None


def _given(call: ExprCall) -> dict[str, Any]:
    return {k.name: k.value for k in call.arguments if hasattr(k, "name") and hasattr(k, "value")}


def _is_field(member: Attribute) -> bool:
    return "instance-attribute" in member.labels and not member.is_private and "property" not in member.labels


def _text(expression: Any) -> str:
    """The text of a literal, or nothing where it is put together by a program."""
    try:
        return str(ast.literal_eval(str(expression))).rstrip(".") if expression else ""
    except (SyntaxError, ValueError):
        return ""


def _comment(member: Any) -> str:
    lines = member.lines_collection[member.filepath]
    found = COMMENT.search(lines[(member.endlineno or 1) - 1])
    return found[1] if found else ""
