"""Specs: frozen, validated values that describe a part, a model, a corpus, a schedule.

A spec has equality, a hash, a JSON form, a content id, a default for every knob and a text form that `parse` reads
back. To define one, write its class: `class Rope(Position): theta: float = knob(default=1e4, help="…")`.
This file does not import torch.
"""

from __future__ import annotations

import abc
import ast
import copy
import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import PurePath
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

from headtohead.errors import InputError, it_has, nearest
from headtohead.spec import trust
from headtohead.spec.sessions import note, position
from headtohead.spec.stored_code import Copies, load_class
from headtohead.spec.userfiles import (
    copy_name,
    folder_of,
    load_file,
    origin_of,
    source_digest,
    source_text,
)
from headtohead.spec.values import Convert, Unfit, bounded, converter
from headtohead.spec.wanted import wanted


def knob(
    *,
    default: Any,
    help: str,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    identity: bool = True,
    later: bool = False,
) -> Any:
    """Declare one typed setting of a spec, with its default, bounds and a line of help. A knob with identity=False,
    such as a path, is left out of the spec's id. A knob with later=True was added after runs had been stored: it is
    left out of JSON and id while it has its default, so that the ids of those runs stay."""
    bounds = {name: bound for name, bound in (("ge", ge), ("gt", gt), ("le", le), ("lt", lt)) if bound is not None}
    told = {"help": help, "default": default, "bounds": bounds, "identity": identity, "later": later}
    if type(default).__hash__ is None:  # a list or a dict
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=told)
    return dataclasses.field(default=default, metadata=told)


S = TypeVar("S", bound="Spec")


class Knob(NamedTuple):
    """One setting of a spec class, as `knobs` lists it."""

    name: str
    type: Any
    default: Any
    help: str


class Difference(NamedTuple):
    path: str
    left: Any
    right: Any


# -- the registry: for listing, parsing and JSON, not for building models ----------------------------------------------

_FAMILIES: dict[str, dict[str, type[Part]]] = {}
# Families are listed in this order, whatever was imported first.
ORDER: tuple[str, ...] = ("corpus", "preparation", "tokenizer")
ORDER += ("feedforward", "fusion", "norm", "pattern", "pooling", "position", "residual")
ORDER += ("start", "objective", "optimizer", "averaging", "sampling", "schedule")
_PLACES: dict[str, str] = {}  # family → model, train or data
_SPECS: dict[str, type[Spec]] = {}


def _register(cls: type[Spec]) -> None:
    note(cls)
    # inspect.isabstract does not work here, because this runs while the class is being created
    abstract = any(getattr(getattr(cls, name, None), "__isabstractmethod__", False) for name in dir(cls))
    if "family" in cls.__dict__ or abstract:
        return
    known = _SPECS.get(cls.__name__)
    if known is not None and is_builtin(known) and not is_builtin(cls):
        raise InputError(
            f"{cls.__name__} is the name of a built-in {getattr(known, 'family', '') or 'spec'}: name yours differently"
        )
    _SPECS[cls.__name__] = cls
    if getattr(cls, "family", ""):
        _FAMILIES[cls.family][cls.__name__] = cls  # type: ignore[attr-defined, assignment]


def is_builtin(cls: type) -> bool:
    return cls.__module__.split(".")[0] == __name__.split(".")[0]


def has_user_part(value: Any) -> bool:
    """Whether a spec, or one of its settings at any depth, is of a class from outside this package."""
    return not all(map(is_builtin, _classes(value)))


@dataclass_transform(frozen_default=True, field_specifiers=(knob,))
class Spec(abc.ABC):
    """A frozen, validated value. Every subclass becomes a dataclass, without a decorator.

    Examples:
        >>> rope = h2h.Rope(theta=500)
        >>> rope == h2h.parse(str(rope)), rope.id == h2h.Rope(theta=500).id
        (True, True)
        >>> rope.set("theta", 100)
        Rope(theta=100.0, fraction=1.0)
        >>> rope.diff(h2h.Rope())
        [Difference(path='theta', left=500.0, right=10000.0)]
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    notation: ClassVar[str] = ""  # the text form where it is not Name(knob=value), such as "({a} & {b})"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True)(cls)
        reserved = {"kind", "file", "source"} & {f.name for f in dataclasses.fields(cls)}
        if reserved:
            raise InputError(f"{cls.__name__} has a knob '{reserved.pop()}', a name reserved for JSON: rename the knob")
        accept = cls.__init__

        @functools.wraps(accept)
        def validate(self: Spec, *values: Any, **knobs: Any) -> None:
            settings = _fitted(type(self), values, knobs)
            try:
                accept(self, **settings)
            except InputError:
                raise
            except (ValueError, AssertionError) as error:  # of a user's `check`
                raise InputError(f"{type(self).__name__}: {' '.join(str(error).split())}") from None

        cls.__init__ = validate  # type: ignore[method-assign, assignment]
        _register(cls)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise InputError if settings do not fit together. Subclasses override it."""

    def __str__(self) -> str:
        """Return the shortest text that `parse` turns back into this spec. Knobs at their default are left out."""
        if self.notation:
            return self.notation.format(**{k.name: _text(getattr(self, k.name)) for k in knobs(type(self))})
        changed = [
            f"{k.name}={_text(getattr(self, k.name))}" for k in knobs(type(self)) if getattr(self, k.name) != k.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # -- JSON and identity ---------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return every knob, including defaults except those of later knobs; for a user's class also its file and a
        digest of its code."""
        return {**_origin(type(self)), **{name: encode(getattr(self, name)) for name in _written(self)}}

    @staticmethod
    def from_json(data: Any, code: Copies = None) -> Any:
        """The spec that `to_json` described. A class that is not known yet is loaded from the user's file, or from
        `code`: the folder of a stored run, or what `code_of` gave."""
        return _decode(data, code)

    @property
    def id(self) -> str:
        """Sixteen hex digits that name this value: equal specs, equal ids. Moving a user's file does not change it,
        changing the code of a user's class does."""
        when, known = self.__dict__.get("_id", (-1, ""))
        if when != position():  # a cell that was executed since may have changed a class of the session
            canonical = json.dumps(_identity(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
            known = hashlib.sha256(canonical.encode()).hexdigest()[:16]
            object.__setattr__(self, "_id", (position(), known))
        return known

    # -- paths: "position.theta" ---------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """Return the value of a setting, such as "position.theta"."""
        _, value, rest = self._at(path)
        return value.get(rest) if rest else value

    def set(self, path: str, value: Any) -> Self:
        """Return a copy with one setting changed. A string value is read with `parse`, unless the setting is text."""
        name, old, rest = self._at(path)
        if rest:
            value = old.set(rest, value)
        elif isinstance(value, str):
            value = _read(value, get_type_hints(type(self))[name])
        return dataclasses.replace(self, **{name: value})

    def diff(self, other: Spec) -> list[Difference]:
        """List the settings in which two specs differ, by path. Two different classes are one difference."""
        if type(self) is not type(other):
            return [Difference("", self, other)]
        differences = []
        for field in dataclasses.fields(self):
            a, b = getattr(self, field.name), getattr(other, field.name)
            if isinstance(a, Spec) and isinstance(b, Spec):
                differences += [d._replace(path=f"{field.name}.{d.path}".rstrip(".")) for d in a.diff(b)]
            elif a != b:
                differences.append(Difference(field.name, a, b))
        return differences

    def _at(self, path: str) -> tuple[str, Any, str]:
        """Return the first setting of a path, its value and the rest of the path; InputError if there is none."""
        name, _, rest = path.partition(".")
        names, kind = [f.name for f in dataclasses.fields(self)], type(self).__name__
        if name not in names:
            raise InputError(f"{kind} has no setting '{name}': {self._nested(name) or nearest(name, names)}")
        value = getattr(self, name)
        if rest and not isinstance(value, Spec):
            raise InputError(f"{kind}.{name} has no settings of its own, so no '{rest}'")
        return name, value, rest

    def _nested(self, name: str) -> str:
        """Say where the setting is, if it is one level deeper."""
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
    """A swappable piece. A family is declared with `class Position(Part, family="position")`. It is a setting of the
    model, or of training or data: `class Optimizer(Part, family="optimizer", of="train")`."""

    family: ClassVar[str] = ""
    of: ClassVar[str] = "model"  # the spec that the family is a setting of: model, train or data
    equation: ClassVar[str] = ""
    reference: ClassVar[str] = ""

    def __init_subclass__(cls, family: str | None = None, of: str = "model", **options: Any) -> None:
        if family is not None:
            if family in _FAMILIES:
                raise InputError(f"the family {family} exists already: derive your part from its base class")
            cls.family, cls.of = family, of
            _FAMILIES[family] = {}
            _PLACES[family] = of
        super().__init_subclass__(**options)


@dataclasses.dataclass(frozen=True)
class Dims:
    """The sizes that a part may need to build its module."""

    width: int  # D, width of the residual stream
    heads: int  # H
    head_width: int  # d
    layers: int
    block: int  # longest text, in tokens


def families(of: str | None = "model") -> dict[str, dict[str, type[Part]]]:
    """Return all parts by family: the built-in ones and those of the user files loaded so far.

    `of` is "model", "train" or "data": the spec that the parts are settings of. None means all.

    Examples:
        >>> h2h.families()["norm"]["RMSNorm"](eps=1e-5)
        RMSNorm(eps=1e-05)
        >>> sorted(h2h.families("train"))
        ['averaging', 'objective', 'optimizer', 'sampling', 'schedule', 'start']
    """
    importlib.import_module("headtohead.training.arm")  # registers all built-in parts and specs
    ordered = sorted(_FAMILIES, key=lambda family: ORDER.index(family) if family in ORDER else len(ORDER))
    return {family: dict(_FAMILIES[family]) for family in ordered if of in (None, _PLACES[family])}


def members(family: str) -> dict[str, type[Part]]:
    """The parts of one family that are known now. Unlike `families`, this imports nothing, so it knows a family only
    once its file is imported."""
    return dict(_FAMILIES.get(family, {}))


def builtin_specs() -> dict[str, type[Spec]]:
    """Every spec class of the package, by name; none of the user's."""
    families()
    return {name: cls for name, cls in _SPECS.items() if is_builtin(cls)}


@functools.cache
def knobs(cls: type[Spec]) -> tuple[Knob, ...]:
    """Return the settings of a spec class, in order."""
    hints = get_type_hints(cls)
    settings = []
    for field in dataclasses.fields(cls):
        told = field.metadata
        settings.append(Knob(field.name, hints[field.name], told.get("default", field.default), told.get("help", "")))
    return tuple(settings)


def alternatives(spec: S) -> Iterator[tuple[str, S]]:
    """Yield the spec with one knob changed, for every knob that has another legal value of a simple type."""
    for name, kind, _default, _help in knobs(type(spec)):
        for value in _other_values(kind, getattr(spec, name)):
            if value == getattr(spec, name):
                continue  # twice 0 is 0
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
        return [value * 2, value / 2, value + 1, value + 0.5]
    return []


# -- text: "Causal & Local(8)", "Rope(theta=500)", "mine.py:Wobble(rate=2)" ------------------------------------------


def parse(text: str) -> Any:
    """Read a spec, number, boolean, None or word from its text form. `file.py:Name(…)` loads the file first.

    Examples:
        >>> h2h.parse("Causal() & Local(8)").is_causal(32)
        True
        >>> h2h.parse("1e-3")
        0.001
    """
    text = text.strip()
    path, marker, rest = text.partition(".py:")
    own: dict[str, type[Spec]] = {}
    if marker:
        text, classes = rest, {n: c for n, c in vars(load_file(path + ".py")).items() if isinstance(c, type)}
        own = {n: c for n, c in classes.items() if issubclass(c, Spec) and not inspect.isabstract(c)}
    families()
    try:
        tree = ast.parse(text, mode="eval").body
        if marker:
            _check_names(tree, f"{path}.py", own)
        return _value(tree, text, own)
    except (SyntaxError, UnicodeEncodeError, RecursionError, MemoryError):  # the last two: nested too deep
        text = " ".join(text.split())
        raise InputError(f"cannot read '{text}': write a name, a number, or a part such as 'Rope(theta=500)'") from None


def _check_names(tree: ast.expr, file: str, own: dict[str, type[Spec]]) -> None:
    """Refuse `file.py:Name` where the file has no such part. Within `&` and `|` any other part may be named too."""
    named = _named(tree)
    for name in named:
        if name not in own and (len(named) == 1 or name not in _SPECS):
            theirs = (known for known, cls in own.items() if not is_builtin(cls))
            raise InputError(f"{file} has no part '{name}': {it_has(name, theirs)}")


def _named(node: ast.expr) -> list[str]:
    """The parts that a text names, without what is in their parentheses."""
    if isinstance(node, ast.BinOp):
        return _named(node.left) + _named(node.right)
    called = node.func if isinstance(node, ast.Call) else node
    return [called.id] if isinstance(called, ast.Name) else []


def _value(node: ast.expr, text: str, own: dict[str, type[Spec]]) -> Any:
    """What a text means; names in `own` go before all others."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, text, own)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(element, text, own) for element in node.elts)
    if isinstance(node, ast.Name):
        words = {"true": True, "false": False, "none": None}
        if node.id.lower() in words:
            return words[node.id.lower()]
        known = own.get(node.id) or _SPECS.get(node.id)
        return known() if known else node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(k.arg for k in node.keywords):
        called = own.get(node.func.id) or find(node.func.id)
        given = {k.arg: _value(k.value, text, own) for k in node.keywords if k.arg}
        return called(*(_value(a, text, own) for a in node.args), **given)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        left, right = _value(node.left, text, own), _value(node.right, text, own)
        for side in (left, right):
            if not isinstance(side, Spec) or not hasattr(side, "__and__"):
                problem = _unknown(side) if isinstance(side, str) else f"{side} is not a pattern"
                raise InputError(f"cannot combine in '{text}': {problem}")
        return left & right if isinstance(node.op, ast.BitAnd) else left | right
    text = " ".join(text.split())
    raise InputError(f"cannot read '{text}': only names, numbers, calls of parts, & and | are understood")


def split_values(text: str) -> list[str]:
    """Split values at commas outside parentheses: Learned,Rope(theta=500),Causal & Local(8) → three."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def find(name: str) -> type[Spec]:
    """Return a spec class by its name."""
    families()
    if name not in _SPECS:
        raise InputError(_unknown(name))
    return _SPECS[name]


def _unknown(name: str) -> str:
    return f"no part is called '{name}': {nearest(name, (n for members in families(None).values() for n in members))}"


def _read(text: str, kind: Any) -> Any:
    """Convert text to the value of a setting of type `kind`."""
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


def encode(value: Any) -> Any:
    """A knob's value as JSON."""
    if isinstance(value, Spec):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    return value + 0.0 if isinstance(value, float) else value  # -0.0 equals 0.0, so it is written alike


def _written(value: Spec) -> list[str]:
    """The knobs that are part of the JSON form: all but later ones at their default."""
    fields = dataclasses.fields(value)
    return [f.name for f in fields if not f.metadata.get("later") or getattr(value, f.name) != f.metadata["default"]]


def _decode(data: Any, code: Copies) -> Any:
    if isinstance(data, list):
        return tuple(_decode(v, code) for v in data)
    if not isinstance(data, dict):
        return data
    if "kind" not in data:
        return {k: _decode(v, code) for k, v in data.items()}
    name, file, source = data["kind"], data.get("file"), data.get("source")
    if not (isinstance(name, str) and isinstance(file, str | None) and isinstance(source, str | None)):
        raise InputError("kind, file or source is no text: the JSON describes no spec")
    cls: Any = find(name) if source is None else _SPECS.get(name)
    if source is not None and (cls is None or source_digest(cls) != source):
        cls = load_class(name, source, file, code)  # its code may define the classes of its fields too
    return cls(**{k: _decode(v, code) for k, v in data.items() if k not in ("kind", "file", "source")})


def _origin(cls: type[Spec]) -> dict[str, Any]:
    if is_builtin(cls):
        return {"kind": cls.__name__}
    return {"kind": cls.__name__, "file": origin_of(cls), "source": source_digest(cls)}


def code_of(value: Any) -> trust.SentCode:
    """The source of every class of the user's that a spec is made of, as files by name, for a process that has neither
    the session nor the file; InputError if one has no source. It runs here already, so it counts as approved."""
    found = trust.SentCode()
    found.folders = {}
    for cls in _classes(value):
        if not is_builtin(cls):
            text, folder = source_text(cls), folder_of(cls)
            found[copy_name(text)], found.folders[copy_name(text)] = text, None if folder is None else str(folder)
            trust.remember(text, PurePath(origin_of(cls) or "session").name, folder)
    return found


def _classes(value: Any) -> Iterator[type[Spec]]:
    if isinstance(value, Spec):
        yield type(value)
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    elements = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    for element in elements:
        yield from _classes(element)


def _identity(value: Any) -> Any:
    """Return the JSON form without files and knobs that are not part of the identity."""
    if isinstance(value, Spec):
        origin = {k: v for k, v in _origin(type(value)).items() if k != "file"}
        kept = {f.name for f in dataclasses.fields(value) if f.metadata.get("identity", True)}
        return origin | {name: _identity(getattr(value, name)) for name in _written(value) if name in kept}
    if isinstance(value, tuple | list):
        return [_identity(v) for v in value]
    if isinstance(value, dict):
        return {k: _identity(v) for k, v in value.items()}
    return encode(value)


# -- validation ------------------------------------------------------------------------------------------------------


@functools.cache
def _converters(cls: type[Spec]) -> dict[str, Convert]:
    try:
        hints = get_type_hints(cls)
    except NameError as error:
        raise InputError(f"{cls.__name__} has a setting of an unknown type: {error}") from None
    fields = dataclasses.fields(cls)
    return {f.name: bounded(converter(hints[f.name]), **f.metadata.get("bounds", {})) for f in fields}


def _fitted(cls: type[Spec], values: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a spec by name, each converted to the type of its setting; InputError if one does not fit."""
    converters = _converters(cls)
    names = list(converters)
    settings = dict(zip(names, values, strict=False))
    for name in settings.keys() & given.keys():
        raise InputError(f"{cls.__name__}.{name} is given twice")
    settings |= {name: given[name] for name in names if name in given}
    for name, value in settings.items():
        try:
            settings[name] = converters[name](value)
        except Unfit as unfit:
            raise InputError(f"{cls.__name__}.{name} must {_rule(cls, name, value, unfit)}") from None
    for name in given:
        if name not in converters:
            raise InputError(f"{cls.__name__} has no knob '{name}': {nearest(name, names)}")
    if len(values) > len(names):
        raise InputError(f"{cls.__name__} takes at most {len(names)} settings: {', '.join(names) or 'none'}")
    for field in dataclasses.fields(cls):
        if field.name not in settings and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{cls.__name__}.{field.name} has no default: give a value")
    return settings


def _rule(cls: type[Spec], name: str, value: Any, unfit: Unfit) -> str:
    """What a setting must be, in words, and what was given; for a type without words, what its converter says."""
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    kind = get_type_hints(cls)[name]
    said = wanted(kind, field.default, field.metadata.get("bounds", {}), "finite" in unfit.rule)
    if said:
        return f"be {said}, not {_text(value)}"
    return f"{unfit.rule}, not {_text(unfit.value)}"
