"""Check and convert the values of a spec's settings by their annotations: "8" is 8 for an int, 1 is 1.0 for a float.

A converter takes a value and returns it in the wanted type, or raises Unfit. Imports only the standard library.
"""

from __future__ import annotations

import contextlib
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union

Convert = Callable[[Any], Any]

MOST = 2**63  # a larger float has lost its last digits
YES = {"1", "true", "t", "yes", "y", "on"}
NO = {"0", "false", "f", "no", "n", "off"}


class Unfit(Exception):  # noqa: N818
    """A value does not fit a type. `rule` completes "X must …", `value` is what did not fit."""

    def __init__(self, rule: str, value: Any) -> None:
        super().__init__(rule)
        self.rule = rule
        self.value = value


def converter(kind: Any) -> Convert:
    """The converter for one annotation."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: value
    if kind is None or kind is types.NoneType:
        return _none
    if origin is typing.Annotated or origin in (typing.Final, typing.ClassVar):
        return converter(inner[0])
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if (origin or kind) is tuple:
        return _tuple(inner)
    if (origin or kind) is list:
        return lambda value: [converter(inner[0] if inner else Any)(v) for v in _elements(value, "list")]
    if (origin or kind) is dict:
        return _dict(inner)
    if isinstance(origin or kind, type):
        return SIMPLE.get(kind) or _instance(origin or kind)
    return lambda value: value  # a type variable or the like: nothing can be checked


def bounded(
    convert: Convert,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Convert:
    """The same converter, with bounds on the numbers that it returns."""

    def check(value: Any) -> Any:
        number = convert(value)
        if not isinstance(number, int | float):
            return number
        if le is not None and not number <= le:
            raise Unfit(f"be less than or equal to {le:.15g}", value)
        if lt is not None and not number < lt:
            raise Unfit(f"be less than {lt:.15g}", value)
        if ge is not None and not number >= ge:
            raise Unfit(f"be greater than or equal to {ge:.15g}", value)
        if gt is not None and not number > gt:
            raise Unfit(f"be greater than {gt:.15g}", value)
        return number

    return convert if ge is gt is le is lt is None else check


# -- simple values -----------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A number of numpy or torch as Python's."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _int(value: Any) -> int:
    number = _plain(value)
    if isinstance(number, str):
        try:
            return _whole(number)
        except ValueError:
            raise Unfit("be a valid integer, unable to parse string as an integer", value) from None
    if isinstance(number, float):
        if not math.isfinite(number):
            raise Unfit("be a finite number", value)
        if not number.is_integer():
            raise Unfit("be a valid integer, got a number with a fractional part", value)
        if abs(number) >= MOST:
            raise Unfit("be a valid integer", value)
        return int(number)
    try:
        return operator.index(number)
    except TypeError:
        raise Unfit("be a valid integer", value) from None


def _whole(text: str) -> int:
    """Read "8", " 8 ", "1_000" and "8.0"."""
    digits, point, zeros = text.strip().partition(".")
    if not text.isascii() or (point and (not zeros or zeros.strip("0"))):
        raise ValueError(text)
    return int(digits)


def _float(value: Any) -> float:
    try:
        if isinstance(value, str) and not value.isascii():
            raise ValueError(value)
        number = float(value) if isinstance(value, str) or hasattr(value, "__float__") else float(operator.index(value))
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError, RuntimeError):  # the last one: a tensor
        detail = ", unable to parse string as a number" if isinstance(value, str) else ""
        raise Unfit(f"be a valid number{detail}", value) from None
    if not math.isfinite(number):
        raise Unfit("be a finite number", value)
    return number


def _bool(value: Any) -> bool:
    known = _plain(value)
    if isinstance(known, str) and known.lower() in YES | NO:
        return known.lower() in YES
    if isinstance(known, int | float) and known in (0, 1):
        return bool(known)
    raise Unfit("be a valid boolean", value)


def _str(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass, such as an enum's member, the text alone
    raise Unfit("be a valid string", value)


def _none(value: Any) -> None:
    if value is not None:
        raise Unfit("be None", value)


SIMPLE: dict[Any, Convert] = {int: _int, float: _float, bool: _bool, str: _str, object: lambda value: value}


def _instance(kind: type) -> Convert:
    article = "an" if kind.__name__[:1] in "AEIOU" else "a"

    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Unfit(f"be {article} {kind.__name__}", value)
        return value

    return check


# -- choices and collections -------------------------------------------------------------------------------------------


def _choice(words: Sequence[Any]) -> Convert:
    *first, last = map(repr, words)
    listed = f"{', '.join(first)} or {last}" if first else last

    def check(value: Any) -> Any:
        for word in words:
            if isinstance(value, type(word)) and word == value:
                return word
        raise Unfit(f"be {listed}", value)

    return check


def _union(kinds: Sequence[Any]) -> Convert:
    """The first type that has the value already, else the first that it can be converted to."""
    converters = [converter(kind) for kind in kinds if kind is not types.NoneType]
    optional = types.NoneType in kinds

    def check(value: Any) -> Any:
        if optional and value is None:
            return None
        value = _plain(value)
        problem: Unfit | None = None
        fitting = []
        for convert in converters:
            try:
                fitting.append(convert(value))
            except Unfit as error:
                problem = problem or error
        for result in fitting:
            if type(result) is type(value) and result == value:
                return result
        if fitting:
            return fitting[0]
        raise problem or Unfit("be None", value)

    return check


def _elements(value: Any, name: str) -> Sequence[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        with contextlib.suppress(TypeError):  # an array with no dimension
            return tuple(value)
    raise Unfit(f"be a valid {name}", value)


def _tuple(kinds: Sequence[Any]) -> Convert:
    if not kinds or kinds[-1] is Ellipsis:
        one = converter(kinds[0] if kinds else Any)
        return lambda value: tuple(map(one, _elements(value, "tuple")))
    converters = [converter(kind) for kind in kinds]

    def check(value: Any) -> Any:
        elements = _elements(value, "tuple")
        if len(elements) != len(converters):
            raise Unfit(f"have {len(converters)} values", value)
        return tuple(convert(v) for convert, v in zip(converters, elements, strict=True))

    return check


def _dict(kinds: Sequence[Any]) -> Convert:
    key, content = [converter(kind) for kind in kinds] or [converter(Any)] * 2

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit("be a valid dictionary", value)
        return {key(k): content(v) for k, v in value.items()}

    return check
