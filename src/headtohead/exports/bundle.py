"""The source of parts for a file that has to work where headtohead is not installed: each class, and whatever its code
names in the file it is written in, parts of a user's own included."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from headtohead.errors import InputError
from headtohead.spec import Part

PACKAGE = __name__.split(".")[0]


def bundled(parts: Iterable[Part], template: str) -> str:
    """Definitions of these parts, to stand in a file that has all the template's names already."""
    found = _Bundle({name: _meaning(name, node) for node in ast.parse(template).body for name in _bound(node)})
    for part in parts:
        found.add(type(part).__name__, sys.modules[type(part).__module__])
    return found.text()


class _Bundle:
    def __init__(self, taken: dict[str, str]) -> None:
        self.taken = taken  # what the template calls so
        self.imports: dict[str, str] = {}  # the line that brings a name
        self.homes: dict[str, ModuleType] = {}  # where a name is defined

    def add(self, name: str, module: ModuleType) -> None:
        """What a module calls by that name, with all that it needs; nothing for a name of Python's own."""
        node = _statements(module).get(name)
        if node is None or self.homes.get(name) is module:
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._add_import(name, node, module)
            return
        if name in self.taken or name in self.imports or name in self.homes:
            raise _taken(name)
        self.homes[name] = module
        for other in sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)}):
            self.add(other, module)

    def _add_import(self, name: str, node: ast.Import | ast.ImportFrom, module: ModuleType) -> None:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == PACKAGE):
            if name in self.taken:  # the template has its own
                return
            home = sys.modules.get(getattr(vars(module)[name], "__module__", ""))
            if home is None or name not in _statements(home):
                raise InputError(f"'{name}' cannot be written into the exported file: import what you need by its name")
            self.add(name, home)
            return
        line = _meaning(name, node)
        if {line} != {self.taken.get(name, line), self.imports.get(name, line)} or name in self.homes:
            raise _taken(name)
        if name not in self.taken:
            self.imports[name] = line

    def text(self) -> str:
        """In the order of their files, which is one that Python can read; ours before those that build on them."""
        modules = list(dict.fromkeys(self.homes.values()))
        modules.sort(key=lambda m: m.__name__.split(".")[0] != PACKAGE)
        pieces = ["\n".join(sorted(set(self.imports.values())))]
        for module in modules:
            lines = _source(module).splitlines()
            nodes = {id(n): n for name, n in _statements(module).items() if self.homes.get(name) is module}
            for node in sorted(nodes.values(), key=lambda n: n.lineno):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                pieces.append("\n".join(lines[first - 1 : node.end_lineno]))
        return "\n\n\n".join(piece for piece in pieces if piece) + "\n"


def _taken(name: str) -> InputError:
    return InputError(f"the exported file has something else called '{name}' already: give yours another name")


def _source(module: ModuleType) -> str:
    try:
        return Path(module.__file__ or "").read_text(encoding="utf-8")
    except OSError:
        raise InputError(f"the source of {module.__name__} is not to be had: write its parts into a file") from None


@cache
def _statements(module: ModuleType) -> dict[str, ast.stmt]:
    """A module's statement for each name at its top."""
    return {name: node for node in ast.parse(_source(module)).body for name in _bound(node)}


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [_called(alias) for alias in node.names]
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _meaning(name: str, node: ast.stmt) -> str:
    """What a statement makes of the name: of an import its own part of it."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        mine = [alias for alias in node.names if _called(alias) == name]
        return ast.unparse(ast.Import(mine) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, mine, 0))
    return ast.unparse(node)


def _called(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]
