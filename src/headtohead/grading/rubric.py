"""The rubric: what is graded, with how many points, in a TOML file of the teacher."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.sandbox import Limits

COURSE = Path(__file__).parents[1] / "course"
KINDS = {  # of checks, with what each may set beside `points` and `name`
    "audit": {"only", "skip", "causal", "relative", "window", "per_broken"},
    "signature": {"forward"},
    "parameters": {"value"},
    "reference": set(),
    "figure": {"task", "full", "none", "steps", "batch", "lr", "seeds"},
    "cache": set(),
    "generate": {"function", "tokens"},
    "function": {"function", "cases", "tolerance"},
    "attention": {"keys", "values", "answers", "tolerance"},
    "test": {"tests", "function"},
}
OF_RUBRIC = {"title", "seed", "imports", "limits", "part"}
OF_PART = {"name", "file", "object", "also", "arguments", "reference", "check"}
OF_LIMITS = {"seconds", "memory_gb"}
NEEDS = {  # what a check cannot do without
    "figure": ("task", "full", "none"),
    "generate": ("function",),
    "function": ("function", "cases"),
    "attention": ("keys", "values", "answers"),
    "test": ("tests", "function"),
}


@dataclass(frozen=True)
class Item:
    """One check of a part, with its points."""

    kind: str
    points: float
    name: str
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One file of a submission and the class in it."""

    name: str
    file: str
    items: tuple[Item, ...]
    object: str = ""  # the class; empty if the file is no class
    also: tuple[str, ...] = ()  # other names of the class that are accepted
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of its constructor
    reference: str = ""  # file.py:Class of the solution, beside the rubric

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)


@dataclass(frozen=True)
class Rubric:
    """What is graded."""

    title: str
    folder: Path  # paths in the rubric start here
    parts: tuple[Part, ...]
    seed: int = 0  # of weights, texts and data; keep it from the students
    imports: tuple[str, ...] = ()  # packages that are imported once, before the submissions
    limits: Limits = field(default_factory=Limits)  # of each check

    @property
    def points(self) -> float:
        return sum(part.points for part in self.parts)


def read_rubric(path: Path) -> Rubric:
    """Read a rubric. Raise InputError with the place and the remedy if something in it is wrong."""
    if path.is_dir():
        path = path / "rubric.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"no rubric {path}: give a TOML file, or start from one with h2h course") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply: a rubric has lists of tables only") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    _known(data, OF_RUBRIC, f"{path}")
    limits = _table(data, "limits", f"{path}")
    _known(limits, OF_LIMITS, f"{path}, limits")
    seconds, memory = _number(limits, "seconds", 60.0, path), _number(limits, "memory_gb", 2.0, path)
    parts = tuple(_part(value, n, path) for n, value in enumerate(_list(data, "part", f"{path}"), 1))
    if not parts:
        raise InputError(f"{path} has no [[part]]: nothing would be graded")
    if len({part.name for part in parts}) < len(parts):
        raise InputError(f"{path} has two parts of the same name: rename one")
    return Rubric(
        title=str(data.get("title", path.stem)),
        folder=path.resolve().parent,
        parts=parts,
        seed=int(_number(data, "seed", 0, path)),
        imports=tuple(map(str, _list(data, "imports", f"{path}"))),
        limits=Limits(seconds=seconds, memory=int(memory * 2**30)),
    )


def _part(value: Any, n: int, path: Path) -> Part:
    where = f"{path}, part {n}"
    if not isinstance(value, dict):
        raise InputError(f"{where} is no table: write [[part]]")
    _known(value, OF_PART, where)
    name, file = _text(value, "name", where), _text(value, "file", where)
    where = f"{path}, part '{name}'"
    items = tuple(_item(one, k, where, value) for k, one in enumerate(_list(value, "check", where), 1))
    if not items:
        raise InputError(f"{where} has no [[part.check]]: it would give no points")
    reference = str(value.get("reference", ""))
    if reference and not solution_file(path.resolve().parent, reference).is_file():
        raise InputError(f"{where}: there is no reference {reference} beside the rubric")
    return Part(
        name=name,
        file=file,
        items=items,
        object=str(value.get("object", "")),
        also=tuple(map(str, _list(value, "also", where))),
        arguments=_table(value, "arguments", where),
        reference=reference,
    )


def solution_file(folder: Path, reference: str) -> Path:
    """The file of a reference: beside the rubric or, for a kit without its solution, in the course of this package."""
    file = reference.partition(":")[0]
    return next((place / file for place in (folder, COURSE) if (place / file).is_file()), folder / file)


def _item(value: Any, k: int, where: str, part: dict[str, Any]) -> Item:
    where = f"{where}, check {k}"
    if not isinstance(value, dict):
        raise InputError(f"{where} is no table: write [[part.check]]")
    kind = _text(value, "kind", where)
    if kind not in KINDS:
        raise InputError(f"{where}: no kind '{kind}': {nearest(kind, KINDS)}")
    _known(value, KINDS[kind] | {"kind", "points", "name"}, where)
    for needed in NEEDS.get(kind, ()):
        if needed not in value:
            raise InputError(f"{where}: a check of kind {kind} needs '{needed}'")
    if kind in ("reference", "function") and not part.get("reference"):
        raise InputError(f"{where}: a check of kind {kind} needs the part's 'reference', the solution")
    if kind == "parameters" and "value" not in value and not part.get("reference"):
        raise InputError(f"{where}: give 'value', the number of parameters, or the part's 'reference'")
    points = _number(value, "points", None, where)
    if not 0 <= points <= 1e6:
        raise InputError(f"{where}: points must be from 0 to 1,000,000, not {points:g}")
    shown = str(value.get("name") or value.get("function") or kind)
    given = {key: one for key, one in value.items() if key not in ("kind", "points", "name")}
    return Item(kind, points, shown, given)


def _known(value: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    for name in value:
        if name not in names:
            raise InputError(f"{where}: no entry '{name}': {nearest(name, names)}")


def _text(value: Mapping[str, Any], name: str, where: str) -> str:
    if not isinstance(value.get(name), str) or not value[name]:
        raise InputError(f"{where}: needs '{name}', a text")
    return str(value[name])


def _list(value: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = value.get(name, [])
    if not isinstance(found, list):
        raise InputError(f"{where}: '{name}' must be a list")
    return found


def _table(value: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{where}: '{name}' must be a table")
    return found


def _number(value: Mapping[str, Any], name: str, default: float | None, where: object) -> float:
    found = value.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"{where}: needs '{name}', a number")
    return float(found)
