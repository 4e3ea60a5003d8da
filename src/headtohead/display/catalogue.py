"""The catalogue: parts, settings and default arms with their documentation, as plain values. Imports no torch.

Reading the classes takes torch, so the catalogue is made once and kept in the cache until a source file of the package
changes (run/derived.py). A run's JSON is described against it: no spec is built and no file of a user's is executed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import Any

from headtohead.display.reference import Entry, Setting
from headtohead.errors import InputError
from headtohead.run.derived import derived, package_digest

Json = Any
ORIGIN = ("kind", "file", "source")  # keys of a spec's JSON that are no knobs
SYMBOLS = "Symbols"  # the tokenizer of synthetic tasks


@dataclass(frozen=True)
class Form:
    """What the text form of a spec class needs."""

    family: str  # of a part; empty for other specs
    knobs: dict[str, Json]  # name → default
    notation: str  # as `Spec.notation`
    name: str  # of a corpus, as given to --data


@dataclass(frozen=True)
class Catalogue:
    """Built-in parts only. A user's parts are known once their file is loaded, and are never in the catalogue."""

    parts: tuple[Entry, ...]
    settings: tuple[Setting, ...]
    arms: dict[str, Json]  # the default arm of each task, and of `answers` to a synthetic one
    forms: dict[str, Form]  # every spec class, by name

    # -- text forms ----------------------------------------------------------------------------------------------------

    def text(self, value: Json) -> str:
        """The text form of the spec or value in the JSON. Every knob of a user's class is shown, because its defaults
        are not known here."""
        return value if isinstance(value, str) else self._nested(value)

    def _nested(self, value: Json) -> str:
        if isinstance(value, _Written):
            return value
        if is_spec(value):
            form = self.form(value)
            knobs = {k: v for k, v in value.items() if k not in ORIGIN}
            if form and form.notation:
                return form.notation.format(**{k: self._nested(v) for k, v in (form.knobs | knobs).items()})
            changed = (k for k in knobs if form is None or k not in form.knobs or knobs[k] != form.knobs[k])
            return f"{value['kind']}({', '.join(f'{k}={self._nested(knobs[k])}' for k in changed)})"
        if isinstance(value, list):  # a tuple, before it was written as JSON
            return f"({', '.join(map(self._nested, value))}{',' * (len(value) == 1)})"
        return repr(value)

    def form(self, value: Json) -> Form | None:
        """The form of a built-in class; None for a user's class."""
        return None if value.get("source") else self.forms.get(value["kind"])

    def canonical(self, text: str) -> str:
        """A typed value in the form of `text`: Rope is Rope(), Local(8) is Local()."""
        try:
            return self.text(self._value(ast.parse(text.strip(), mode="eval").body))
        except (SyntaxError, ValueError, TypeError):
            return text

    def _value(self, node: ast.expr) -> Json:
        if isinstance(node, ast.Name):
            words = {"true": True, "false": False, "none": None}
            return {"kind": node.id} if node.id in self.forms else words.get(node.id.lower(), node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            form = self.forms.get(node.func.id)
            knobs = form.knobs if form else {}
            given = dict(zip(knobs, node.args, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
            order = sorted(given, key=[*knobs, *given].index)
            return {"kind": node.func.id} | {name: _like(self._value(given[name]), knobs.get(name)) for name in order}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            sign = "&" if isinstance(node.op, ast.BitAnd) else "|"
            left, right = (self._nested(self._value(side)) for side in (node.left, node.right))
            return _Written(f"({left} {sign} {right})")
        if isinstance(node, ast.Tuple | ast.List):
            return [self._value(element) for element in node.elts]
        return ast.literal_eval(node)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def differences(self, arm: Json) -> dict[str, str]:
        """How an arm differs from the default arm of its task on the same corpus: text forms by path."""
        try:
            usual = self.arms[arm["task"]]
            if arm["tokenizer"]["kind"] == SYMBOLS:  # a synthetic task has its own defaults; the block is its length
                usual = self.arms["answers"]
                usual = {**usual, "model": {**usual["model"], "block": arm["model"]["block"]}}
            usual = {**usual, "data": {**usual["data"], "corpus": arm["data"]["corpus"]}}
        except (KeyError, TypeError):
            raise InputError("run.json does not hold a run's spec: it was not written by headtohead") from None
        return self._differences(usual, arm, "")

    def _differences(self, left: Json, right: Json, path: str) -> dict[str, str]:
        alike = is_spec(left) and is_spec(right) and all(left.get(k) == right.get(k) for k in ("kind", "source"))
        if not alike:
            return {} if left == right else {path: self.text(right)}
        found: dict[str, str] = {}
        for name in (*left, *(k for k in right if k not in left)):
            if name in right and name not in ORIGIN:  # a knob that an old run does not name has its default
                found |= self._differences(left.get(name), right[name], f"{path}.{name}".lstrip("."))
        return found

    def corpus_name(self, corpus: Json) -> str:
        form = self.form(corpus)
        return form.name if form else str(corpus["kind"])


class _Written(str):
    """A value that is in its text form already."""


def is_spec(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("kind"), str)


def _like(value: Json, default: Json) -> Json:
    """Convert an int to float where the knob is a float: 500 to 500.0."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and isinstance(default, float) else value


@cache
def catalogue() -> Catalogue:
    values = derived("catalogue", package_digest(), _make)
    return Catalogue(
        parts=tuple(Entry(**{**e, "knobs": tuple(Setting(**k) for k in e["knobs"])}) for e in values["parts"]),
        settings=tuple(Setting(**s) for s in values["settings"]),
        arms=values["arms"],
        forms={name: Form(**form) for name, form in values["forms"].items()},
    )


def _make() -> Json:
    """Build the catalogue from the classes."""
    from dataclasses import asdict

    from headtohead.data.synthetic.recall import Mqar
    from headtohead.display import reference
    from headtohead.spec import spec
    from headtohead.training.arm import Arm

    tasks = next(k for k in spec.knobs(Arm) if k.name == "task").type.__args__
    classes = spec.builtin_specs()
    return {
        "parts": [e.to_json() for e in reference.parts() if e.name in classes],
        "settings": [asdict(s) for s in reference.settings()],
        "arms": {task: Arm.of(task).to_json() for task in tasks} | {"answers": Arm.of("lm", Mqar()).to_json()},
        "forms": {
            kind: {
                "family": getattr(cls, "family", ""),
                "knobs": {k.name: spec.encode(k.default) for k in spec.knobs(cls)},
                "notation": cls.notation,
                "name": name if isinstance(name := getattr(cls, "name", ""), str) else "",
            }
            for kind, cls in classes.items()
        },
    }
