"""Which classes of a project are audited, with which claims: [tool.headtohead.audit] in pyproject.toml, and discovery.

[tool.headtohead.audit]
"models/gpt.py:GPT" = { causal = true }          # this class
"models/*.py:*LM" = { causal = true, block = 64 }   # claims for the classes that are found
"experiments/*" = false                          # never executed
"""

from __future__ import annotations

import ast
import contextlib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from headtohead.errors import InputError, describe, nearest
from headtohead.testing.imports import package_top, parsed

CLAIMS: dict[str, type] = {"causal": bool, "relative": bool, "window": int, "vocab": int, "block": int, "pad": int}
LISTS = ("only", "skip")


@dataclass(frozen=True)
class Rule:
    """One line of the table."""

    file: str  # a path or a pattern
    name: str  # a class or a pattern
    audit: bool = True
    claims: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        return not set("*?[") & set(f"{self.file}{self.name}")

    def fits(self, file: str, name: str = "") -> bool:
        return fnmatchcase(file, self.file) and fnmatchcase(name, self.name)


def read_rules(root: Path) -> list[Rule]:
    """The table of pyproject.toml; none if there is no such file or table."""
    file = root / "pyproject.toml"
    if not file.is_file():
        return []
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"pyproject.toml cannot be read: {error}") from None
    table = found.get("tool", {}).get("headtohead", {}).get("audit", {})
    if not isinstance(table, dict):
        raise InputError(
            'pyproject.toml: [tool.headtohead.audit] must be a table such as "model.py:GPT" = {causal = true}'
        )
    return [_rule(key, value) for key, value in table.items()]


def _rule(key: str, value: Any) -> Rule:
    where = f'pyproject.toml: [tool.headtohead.audit] "{key}"'
    file, _, name = key.partition(":")
    if isinstance(value, bool):
        return Rule(file, name or "*", audit=value)
    if not isinstance(value, dict):
        raise InputError(f"{where} must be true, false or a table such as {{causal = true}}")
    for option, given in value.items():
        if option not in (*CLAIMS, *LISTS):
            raise InputError(f"{where} has no '{option}': {nearest(option, (*CLAIMS, *LISTS))}")
        if option in LISTS and not (isinstance(given, list) and all(isinstance(name, str) for name in given)):
            raise InputError(f"{where}: {option} must be a list of names")
        if option in CLAIMS and type(given) is not CLAIMS[option]:
            raise InputError(f"{where}: {option} must be {CLAIMS[option].__name__}")
    claims = {option: given for option, given in value.items() if option in CLAIMS}
    return Rule(file, name or "*", True, claims, tuple(value.get("only", ())), tuple(value.get("skip", ())))


def rule_for(rules: list[Rule], file: str, name: str) -> Rule | None:
    """The last exact rule that fits, else the last pattern."""
    fitting = [rule for rule in rules if rule.fits(file, name)]
    return next((r for r in reversed(fitting) if r.is_exact), fitting[-1] if fitting else None)


def is_excluded(rules: list[Rule], file: str) -> bool:
    """Whether the whole file is set to false, and no rule names a class in it."""
    named = any(rule.file == file and rule.is_exact and rule.audit for rule in rules)
    return not named and any(not rule.audit and rule.name == "*" and rule.fits(file) for rule in rules)


# -- classes -----------------------------------------------------------------------------------------------------------


def candidates(file: Path) -> list[str]:
    """Names of public classes at the top of a file that look like torch modules: a base is called …Module, or is such
    a class of the same file. The file is not executed."""
    tree = parsed(file)
    found: list[str] = []
    seen: set[str] = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if any(base.endswith("Module") for base in bases) or bases & seen:
                seen.add(node.name)
                found += [node.name] * (not node.name.startswith("_"))
    return found


def is_test(file: str) -> bool:
    name = Path(file).name
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


def load(file: Path, root: Path) -> ModuleType:
    """Import a file of the project as pytest would: by its name in its package, if it is in one."""
    top = package_top(file)
    for place in (root / "src", root):
        if str(place) not in sys.path:
            sys.path.append(str(place))
    if top == file.parent:
        from headtohead.spec.userfiles import load_file

        return load_file(file)
    name = ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
    with _first(top):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module = import_module(name)
        except (Exception, SystemExit) as error:  # the project's code may raise anything
            raise InputError(f"it cannot be imported: {describe(error, file)}") from None
    if module.__file__ is None or Path(module.__file__).resolve() != file.resolve():
        raise InputError(
            f"{name} is imported from {module.__file__}, not from this file: install it with pip install -e"
        )
    return module


@contextlib.contextmanager
def _first(place: Path) -> Iterator[None]:
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path.remove(str(place))
