"""Python files of the user's: importing one by its path, and telling whether its code is still the same."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import inspect
import os
import symtable
import sys
from pathlib import Path
from types import ModuleType

from headtohead.errors import InputError, describe

_SOURCES: dict[str, bytes] = {}  # of the files loaded, by module name, as they were when loaded


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file by its path; its parts are known from then on. An edited file is imported anew."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path}: give the path of a Python file")
    file = file.resolve()
    source = file.read_bytes()
    name = f"h2h_file_{file.stem}_{hashlib.sha256(str(file).encode() + source).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = importlib.util.spec_from_file_location(name, file)
    if loader is None or loader.loader is None:
        raise InputError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    _SOURCES[name] = source
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # last, so that a user's folder never hides an installed package
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is none of a command's results
            exec(compile(source, file, "exec"), module.__dict__)  # what was read, not what an import cache may hold
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's file may raise anything, even SystemExit
        del sys.modules[name]
        raise InputError(f"{path} does not import: {describe(error, file)}") from None
    return module


def file_of(cls: type) -> str | None:
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def portable(file: str) -> str:
    path = Path(file).resolve()
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.as_posix()


@functools.cache
def source_digest(cls: type) -> str:
    """Names the code of a user's class: the class and everything at the top of its file that it uses, comments and
    layout aside. A run must not be taken for that of an older version of the class."""
    source = _SOURCES.get(cls.__module__) or _source(cls)
    if not source:
        return _digest(_bytecode(cls))  # a class typed into a session
    statements: dict[str, list[str]] = {}  # by each name that a statement at the top of the file gives or changes
    uses: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        names = _used(symtable.symtable(ast.unparse(node), file_of(cls) or "", "exec"))
        for name in _bound(node):
            statements.setdefault(name, []).append(ast.dump(node))
            uses.setdefault(name, set()).update(names)
    needed: set[str] = set()
    todo = [cls.__name__]
    while todo:
        name = todo.pop()
        if name in statements and name not in needed:
            needed.add(name)
            todo += uses[name]
    code = [statement for name in sorted(needed) for statement in statements[name]]
    return _digest("\n".join(code) or f"{cls.__qualname__}\n{source!r}")


def _source(cls: type) -> bytes:
    file = file_of(cls)
    try:
        return Path(file).read_bytes() if file else inspect.cleandoc(inspect.getsource(cls)).encode()
    except (OSError, TypeError):
        return b""


def _used(scope: symtable.SymbolTable) -> set[str]:
    """Names of the file's top that code refers to. A function's own variable is none of them, whatever its name."""
    top = scope.get_type() == "module"
    own = {s.get_name() for s in scope.get_symbols() if top or s.is_global()}
    return own.union(*map(_used, scope.get_children()))


def _bound(node: ast.stmt) -> set[str]:
    """Names that a statement gives a meaning: definitions, imports, targets at depth (`a, b`, `d["k"]`, if, try)."""
    names = set()
    for n in ast.walk(node):
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(n.name)
        elif isinstance(n, ast.alias):
            names.add((n.asname or n.name).partition(".")[0])
        elif isinstance(n, ast.Name | ast.Subscript | ast.Attribute) and isinstance(n.ctx, ast.Store):
            root: ast.AST = n
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name):
                names.add(root.id)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}  # what is bound inside stays inside
    return names


def _bytecode(cls: type) -> str:
    functions = [f for f in vars(cls).values() if inspect.isfunction(f)]
    parts = [
        (f.__name__, f.__code__.co_code.hex(), repr([c for c in f.__code__.co_consts if not inspect.iscode(c)]))
        for f in functions
    ]
    return repr((cls.__qualname__, sorted(parts), sorted(map(str, getattr(cls, "__annotations__", {}).items()))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
