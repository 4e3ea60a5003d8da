"""Values as people read them. One rule for the study page, reports and the terminal:

a part is shown by its name, with the knobs that differ from their defaults, and with knobs declared `shown=True`, such
as the window of `Causal & Local(window=8)`. The defaults of a user's part are not known here: all its knobs are shown.
"""

from __future__ import annotations

from typing import Any

from headtohead.display.catalogue import ORIGIN, catalogue, is_spec


def shown(value: Any, *, whole: bool = False) -> str:
    """The text of a value of a spec's JSON: Rope(theta=500), yes, 0.001. If `whole`, every knob is shown."""
    text = _nested(value, whole)
    return text[1:-1] if text.startswith("(") and is_spec(value) else text


def _nested(value: Any, whole: bool) -> str:
    if is_spec(value):
        return _spec(value, whole)
    if isinstance(value, dict):
        return ", ".join(f"{k}={_nested(v, whole)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return f"({', '.join(_nested(v, whole) for v in value)})"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def _spec(value: dict[str, Any], whole: bool) -> str:
    form = catalogue().form(value)
    given = {k: v for k, v in value.items() if k not in ORIGIN}
    knobs = form.knobs | given if form else given
    if form and form.notation:
        return form.notation.format(**{k: _nested(v, whole) for k, v in knobs.items()})
    told = {k: v for k, v in knobs.items() if whole or form is None or v != form.knobs.get(k, ...) or k in form.shown}
    text = ", ".join(f"{k}={_nested(v, whole)}" for k, v in told.items())
    return f"{value['kind']}({text})" if text else str(value["kind"])
