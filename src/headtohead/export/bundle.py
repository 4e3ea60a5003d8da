"""Collects the source code of parts for a file that works without headtohead.

It takes each class and every top-level name that the class uses in its file. This includes parts in a user's file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import decode_source
from types import ModuleType

from headtohead.errors import InputError
from headtohead.spec import Part
from headtohead.spec.userfiles import source_of

PACKAGE = __name__.split(".")[0]


def bundled(parts: Iterable[Part], template: str) -> str:
    """Return the source code of these parts, to be inserted into the template."""
    bundle = _Bundle({name: _definition(name, node) for node in ast.parse(template).body for name in _defined(node)})
    for part in parts:
        bundle.add(type(part).__name__, sys.modules[type(part).__module__])
    return bundle.text()


class _Bundle:
    def __init__(self, taken: dict[str, str]) -> None:
        self.taken = taken  # name → its definition in the template
        self.imports: dict[str, str] = {}  # name → the line that imports it
        self.homes: dict[str, ModuleType] = {}  # name → the module that defines it

    def add(self, name: str, module: ModuleType) -> None:
        """Add the definition of a name in a module and everything that it uses. Builtin names are ignored."""
        node = _statements(module).get(name)
        if node is None or self.homes.get(name) is module:
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._add_import(name, node, module)
            return
        if name in self.taken or name in self.imports or name in self.homes:
            raise _name_conflict(name)
        self.homes[name] = module
        for other in sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)}):
            self.add(other, module)

    def _add_import(self, name: str, node: ast.Import | ast.ImportFrom, module: ModuleType) -> None:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == PACKAGE):
            if name in self.taken:  # the template defines its own version
                return
            home = sys.modules.get(getattr(vars(module)[name], "__module__", ""))
            if home is None or name not in _statements(home):
                raise InputError(
                    f"'{name}' cannot be copied into the exported file: import the class or function itself"
                )
            self.add(name, home)
            return
        line = _definition(name, node)
        if {line} != {self.taken.get(name, line), self.imports.get(name, line)} or name in self.homes:
            raise _name_conflict(name)
        if name not in self.taken:
            self.imports[name] = line

    def text(self) -> str:
        """Return the source: headtohead's modules first, and the definitions of a module in their original order."""
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


def _name_conflict(name: str) -> InputError:
    return InputError(f"the exported file already uses the name '{name}' for something else: rename yours")


def _source(module: ModuleType) -> str:
    source = source_of(module)
    if not source:
        raise InputError(f"the source of {module.__name__} cannot be read: define its parts in a Python file")
    return decode_source(source)


def _statements(module: ModuleType) -> dict[str, ast.stmt]:
    """The statement that defines each top-level name of a module."""
    return _parsed(_source(module))


@lru_cache(maxsize=64)
def _parsed(source: str) -> dict[str, ast.stmt]:
    return {name: node for node in ast.parse(source).body for name in _defined(node)}


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [_imported_name(alias) for alias in node.names]
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _definition(name: str, node: ast.stmt) -> str:
    """The code that defines a name; for an import, only the part for this name."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias for alias in node.names if _imported_name(alias) == name]
        return ast.unparse(ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, 0))
    return ast.unparse(node)


def _imported_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]
