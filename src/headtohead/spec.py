"""Specs: frozen, validated values that describe a part, a model, a corpus, a schedule.

A spec has equality, a hash, a JSON form, a content id, a default for every knob and a text form that `parse` reads
back. Writing the class is all there is to do: `class Rope(Position): theta: float = knob(default=1e4, help="…")`.
This file imports no torch.
"""

from __future__ import annotations

import abc
import ast
import dataclasses
import functools
import hashlib
import importlib
import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as validated

from headtohead.errors import InputError, nearest
from headtohead.userfiles import file_of, load_file, portable, source_digest


def knob(
    *,
    default: Any,
    help: str,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    identity: bool = True,
) -> Any:
    """One typed setting of a spec, with its default, its bounds and a line of help. Without `identity` it says where
    something lies, not what it is, and is left out of the spec's id."""
    place: Any = None if identity else {"identity": False}
    return Field(default=default, description=help, ge=ge, gt=gt, le=le, lt=lt, json_schema_extra=place)


S = TypeVar("S", bound="Spec")


class Knob(NamedTuple):
    """What `knobs` says of a setting."""

    name: str
    type: Any
    default: Any
    help: str


class Difference(NamedTuple):
    path: str
    left: Any
    right: Any


# -- the registry: lists, serialises and parametrises tests; nothing needs it to build -------------------------------

_FAMILIES: dict[str, dict[str, type[Part]]] = {}
_PLACES: dict[str, str] = {}  # family → model, train or data
_SPECS: dict[str, type[Spec]] = {}


def _register(cls: type[Spec]) -> None:
    if "family" in cls.__dict__ or _is_abstract(cls):
        return
    known = _SPECS.get(cls.__name__)
    if known is not None and is_builtin(known) and not is_builtin(cls):
        raise InputError(
            f"{cls.__name__} is the name of a built-in {getattr(known, 'family', '') or 'spec'}: name yours differently"
        )
    _SPECS[cls.__name__] = cls
    if getattr(cls, "family", ""):
        _FAMILIES[cls.family][cls.__name__] = cls  # type: ignore[attr-defined, assignment]


def _is_abstract(cls: type) -> bool:
    # inspect.isabstract cannot tell yet: this runs while the class is being made
    return any(getattr(getattr(cls, name, None), "__isabstractmethod__", False) for name in dir(cls))


def is_builtin(cls: type) -> bool:
    return cls.__module__.split(".")[0] == __name__.split(".")[0]


@dataclass_transform(frozen_default=True, field_specifiers=(knob, Field))
class Spec(abc.ABC):
    """A frozen, validated value. Subclasses become dataclasses by being written down."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        validated(frozen=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False))(
            cls
        )
        taken = {"kind", "file", "source"} & {f.name for f in dataclasses.fields(cls)}
        if taken:
            raise InputError(f"{cls.__name__} has a knob '{taken.pop()}', a name that JSON needs: name it otherwise")
        accept = cls.__init__

        @functools.wraps(accept)
        def validate(self: Spec, *values: Any, **knobs: Any) -> None:
            try:
                accept(self, *values, **knobs)
            except ValidationError as error:
                raise InputError(_one_line(type(self), error)) from None

        cls.__init__ = validate  # type: ignore[method-assign, assignment]
        _register(cls)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise InputError where settings do not fit each other."""

    def __str__(self) -> str:
        """The shortest text that `parse` turns back into this spec: knobs at their default are left out."""
        changed = [
            f"{k.name}={_text(getattr(self, k.name))}" for k in knobs(type(self)) if getattr(self, k.name) != k.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # -- JSON and identity ---------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Every knob, defaults included, and for a class of the user's own also where it is written."""
        return {**_origin(type(self)), **{f.name: _encode(getattr(self, f.name)) for f in dataclasses.fields(self)}}

    @staticmethod
    def from_json(data: Any) -> Any:
        """The spec that `to_json` described; loads the user's file where the class is not known yet."""
        return _decode(data)

    @property
    def id(self) -> str:
        """Sixteen hex digits that name this value: equal specs, equal ids. Moving a user's file does not change it,
        changing the code of a user's class does."""
        known = self.__dict__.get("_id")
        if known is None:
            canonical = json.dumps(_identity(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
            known = hashlib.sha256(canonical.encode()).hexdigest()[:16]
            object.__setattr__(self, "_id", known)
        return known

    # -- paths: "position.theta" ---------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        name, _, rest = path.partition(".")
        value = getattr(self, self._known(name))
        if not rest:
            return value
        if not isinstance(value, Spec):
            raise InputError(f"{type(self).__name__}.{name} has no settings of its own, so no '{rest}'")
        return value.get(rest)

    def set(self, path: str, value: Any) -> Self:
        """A copy with one setting changed. A text is read with `parse` where the setting is a spec."""
        name, _, rest = path.partition(".")
        old = getattr(self, self._known(name))
        if rest:
            if not isinstance(old, Spec):
                raise InputError(f"{type(self).__name__}.{name} has no settings of its own, so no '{rest}'")
            value = old.set(rest, value)
        elif isinstance(value, str):
            value = _read(value, get_type_hints(type(self))[name])
        return dataclasses.replace(self, **{name: value})

    def diff(self, other: Spec) -> list[Difference]:
        """The settings in which two specs differ, by path; a different class is one difference."""
        if type(self) is not type(other):
            return [Difference("", self, other)]
        found = []
        for field in dataclasses.fields(self):
            a, b = getattr(self, field.name), getattr(other, field.name)
            if isinstance(a, Spec) and isinstance(b, Spec):
                found += [d._replace(path=f"{field.name}.{d.path}".rstrip(".")) for d in a.diff(b)]
            elif a != b:
                found.append(Difference(field.name, a, b))
        return found

    def _known(self, name: str) -> str:
        names = [f.name for f in dataclasses.fields(self)]
        if name not in names:
            raise InputError(
                f"{type(self).__name__} has no setting '{name}': {self._deeper(name) or nearest(name, names)}"
            )
        return name

    def _deeper(self, name: str) -> str:
        """Where that setting is, if it belongs to a setting of this spec."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Spec) and name in (k.name for k in knobs(type(value))):
                return f"it belongs to {type(value).__name__}; did you mean {field.name}.{name} in place of {name}?"
        for field in dataclasses.fields(self):
            family = getattr(getattr(self, field.name), "family", "")
            for other, cls in families(None).get(family, {}).items():
                if name in (k.name for k in knobs(cls)):
                    where = f"{field.name}.{name} in place of {name}, with {field.name}={other}"
                    return f"it belongs to {other}; did you mean {where}?"
        return ""


class Part(Spec):
    """A swappable piece. A family is declared with `class Position(Part, family="position")`; it is a setting of the
    model unless it says another place: `class Optimizer(Part, family="optimizer", of="train")`."""

    family: ClassVar[str] = ""
    of: ClassVar[str] = "model"  # where its family is a setting: model, train or data
    equation: ClassVar[str] = ""
    reference: ClassVar[str] = ""

    def __init_subclass__(cls, family: str | None = None, of: str = "model", **options: Any) -> None:
        if family is not None:
            if family in _FAMILIES:
                raise InputError(f"{family} is a family already: derive your part from it instead of naming it again")
            cls.family, cls.of = family, of
            _FAMILIES[family] = {}
            _PLACES[family] = of
        super().__init_subclass__(**options)


@dataclasses.dataclass(frozen=True)
class Dims:
    """The sizes a part may need to build itself."""

    width: int  # D, of the residual stream
    heads: int  # H
    head_width: int  # d
    layers: int
    block: int  # the longest text, in tokens


def families(of: str | None = "model") -> dict[str, dict[str, type[Part]]]:
    """Every part of the model (or of "train", "data"; None: of everything) known now, by family: the built-in ones and
    those of the user files loaded so far."""
    importlib.import_module("headtohead.arm")  # brings the parts and the specs of everything
    return {family: dict(members) for family, members in _FAMILIES.items() if of in (None, _PLACES[family])}


@functools.cache
def knobs(cls: type[Spec]) -> tuple[Knob, ...]:
    """The settings of a spec class, in order."""
    hints = get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        default, note = field.default, getattr(field.default, "description", None) or ""
        default = getattr(default, "default", default)
        found.append(Knob(field.name, hints[field.name], default, note))
    return tuple(found)


def alternatives(spec: S) -> Iterator[tuple[str, S]]:
    """The same spec with one knob changed, for every knob that has another legal value of a simple type."""
    for name, kind, _default, _help in knobs(type(spec)):
        for value in _other_values(kind, getattr(spec, name)):
            try:
                yield name, dataclasses.replace(spec, **{name: value})
            except InputError:
                continue
            if get_origin(kind) is not Literal:
                break


def _other_values(kind: Any, value: Any) -> list[Any]:
    if get_origin(kind) is Literal:
        return [v for v in get_args(kind) if v != value]
    if get_origin(kind) in (Union, UnionType):
        inner = [k for k in get_args(kind) if k is not NoneType]
        return [None] if value is not None else _other_values(inner[0], inner[0](3)) if inner[0] in (int, float) else []
    if kind is bool:
        return [not value]
    if kind is int:
        return [value + 1, value - 1, value * 2, value // 2]
    if kind is float:
        return [value * 2, value / 2, value + 1]
    return []


# -- text: "Causal & Local(8)", "Rope(theta=500)", "mine.py:Wobble(rate=2)" ------------------------------------------


def parse(text: str) -> Any:
    """A spec, number, truth value, None or word from its text form. `file.py:Name(…)` loads the file first."""
    text = text.strip()
    path, marker, rest = text.partition(".py:")
    if marker:
        load_file(path + ".py")
        text = rest
    families()
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        text = " ".join(text.split())
        raise InputError(f"cannot read '{text}': write a name, a number, or a part such as 'Rope(theta=500)'") from None
    return _value(tree, text)


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, text)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(element, text) for element in node.elts)
    if isinstance(node, ast.Name):
        words = {"true": True, "false": False, "none": None}
        if node.id.lower() in words:
            return words[node.id.lower()]
        return _SPECS[node.id]() if node.id in _SPECS else node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(k.arg for k in node.keywords):
        return find(node.func.id)(
            *(_value(a, text) for a in node.args), **{k.arg: _value(k.value, text) for k in node.keywords if k.arg}
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        left, right = _value(node.left, text), _value(node.right, text)
        for side in (left, right):
            if not isinstance(side, Spec) or not hasattr(side, "__and__"):
                problem = _unknown(side) if isinstance(side, str) else f"{side} is no pattern"
                raise InputError(f"cannot combine in '{text}': {problem}")
        return left & right if isinstance(node.op, ast.BitAnd) else left | right
    text = " ".join(text.split())
    raise InputError(f"cannot read '{text}': only names, numbers, calls of parts, & and | are understood")


def find(name: str) -> type[Spec]:
    """A spec class by its name."""
    families()
    if name not in _SPECS:
        raise InputError(_unknown(name))
    return _SPECS[name]


def _unknown(name: str) -> str:
    return f"no part is called '{name}': {nearest(name, (n for members in families(None).values() for n in members))}"


def _read(text: str, kind: Any) -> Any:
    """A text given for a setting of type `kind`."""
    if kind is str or (get_origin(kind) is Literal and text in get_args(kind)):
        return text
    value = parse(text)
    if get_origin(kind) is tuple and not isinstance(value, tuple):
        value = (value,)
    wants_part = isinstance(kind, type) and issubclass(kind, Part)
    if wants_part and isinstance(value, str):
        raise InputError(f"no {kind.family} is called '{value}': {nearest(value, families(None)[kind.family])}")
    return value


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Spec) else repr(value)


# -- JSON ------------------------------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [_encode(v) for v in value]
    if isinstance(value, dict):
        return {k: _encode(v) for k, v in value.items()}
    return value + 0.0 if isinstance(value, float) else value  # -0.0 equals 0.0, so it is written alike


def _decode(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_decode(v) for v in data)
    if not isinstance(data, dict):
        return data
    if "kind" not in data:
        return {k: _decode(v) for k, v in data.items()}
    rest = {k: _decode(v) for k, v in data.items() if k not in ("kind", "file", "source")}
    return _class_of(data)(**rest)


def _class_of(data: dict[str, Any]) -> type[Spec]:
    name, file, source = data["kind"], data.get("file"), data.get("source")
    if source is None:
        return find(name)
    cls = _SPECS.get(name)
    if (cls is None or source_digest(cls) != source) and file:
        cls = getattr(load_file(file), name, None)
    if cls is None:
        raise InputError(f"{name} was defined in {file or 'a session that is over'} and is not there any more")
    if source_digest(cls) != source:
        raise InputError(f"{name} in {file} is no longer the code this was made with: restore it, or make it again")
    return cls


def _origin(cls: type[Spec]) -> dict[str, Any]:
    if is_builtin(cls):
        return {"kind": cls.__name__}
    file = file_of(cls)
    return {"kind": cls.__name__, "file": portable(file) if file else None, "source": source_digest(cls)}


def _identity(value: Any) -> Any:
    """What `to_json` says, without what only says where something lies."""
    if isinstance(value, Spec):
        known = value.__dict__.get("_identity")  # it is frozen; a study asks for the same arm with every seed
        if known is None:
            origin = {k: v for k, v in _origin(type(value)).items() if k != "file"}
            named = (f.name for f in dataclasses.fields(value) if _is_identity(f))
            known = {**origin, **{name: _identity(getattr(value, name)) for name in named}}
            object.__setattr__(value, "_identity", known)
        return known
    if isinstance(value, tuple | list):
        return [_identity(v) for v in value]
    if isinstance(value, dict):
        return {k: _identity(v) for k, v in value.items()}
    return _encode(value)


def _is_identity(field: Any) -> bool:
    extra = getattr(field.default, "json_schema_extra", None)
    return not (isinstance(extra, dict) and extra.get("identity") is False)


# -- messages --------------------------------------------------------------------------------------------------------


def _one_line(cls: type[Spec], error: ValidationError) -> str:
    """The first complaint of pydantic in the words of the spec."""
    names = [f.name for f in dataclasses.fields(cls)]
    first = error.errors()[0]
    reason = first.get("ctx", {}).get("error")
    if isinstance(reason, InputError):
        return str(reason)
    where = first["loc"][0] if first["loc"] else ""
    if first["type"] == "unexpected_keyword_argument":
        return f"{cls.__name__} has no knob '{where}': {nearest(str(where), names)}"
    if first["type"] == "unexpected_positional_argument":
        return f"{cls.__name__} takes at most {len(names)} settings: {', '.join(names) or 'none'}"
    if isinstance(where, int) and where < len(names):
        where = names[where]
    if first["type"] in ("dataclass_type", "is_instance_of", "dataclass_exact_type"):
        family = first.get("ctx", {}).get("class_name", "spec")
        return f"{cls.__name__}.{where} must be a {family}, not {_text(first['input'])}"
    message = first["msg"].replace("Input should be", "must be")
    return f"{cls.__name__}.{where} {message}, not {_text(first['input'])}"
