"""Python files of the user's: importing one by its path, and telling whether its code is still the same."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType

from headtohead.errors import InputError, describe

_SOURCES: dict[str, str] = {}  # of the files loaded, by module name, as they were when loaded


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
    _SOURCES[name] = source.decode("utf-8", errors="replace")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # last, so that a user's folder never hides an installed package
    try:
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
    text = _SOURCES.get(cls.__module__)
    if text is None:
        try:
            file = file_of(cls)
            text = Path(file).read_text(encoding="utf-8") if file else inspect.getsource(cls)
        except (OSError, TypeError):
            text = ""
    tops: dict[str, str] = {}
    uses: dict[str, set[str]] = {}
    for node in ast.parse(inspect.cleandoc(text)).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else _targets(node)
        for name in names:
            tops[name] = ast.dump(node)
            uses[name] = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    needed: set[str] = set()
    todo = [cls.__name__]
    while todo:
        name = todo.pop()
        if name in tops and name not in needed:
            needed.add(name)
            todo += uses[name]
    code = "\n".join(tops[name] for name in sorted(needed)) or f"{cls.__qualname__}\n{text}"
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _targets(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]
