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


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file by its path, once; its parts are known from then on."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path}: give the path of a Python file")
    file = file.resolve()
    name = f"h2h_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = importlib.util.spec_from_file_location(name, file)
    if loader is None or loader.loader is None:
        raise InputError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # last, so that a user's folder never hides an installed package
    try:
        loader.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # the file is the user's: whatever it raises, even SystemExit, is reported in one line
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
    file = file_of(cls)
    try:
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
