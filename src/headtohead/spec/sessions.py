"""Classes that were defined in a session: in notebook cells, at a Python prompt, with `python -c` or in a script that
came through standard input. Their source is put together from what the session executed."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import linecache
import os
import re
import stat
import sys
import weakref
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headtohead.spec.statements import Statement, contradicts, slice_session, statements_of, write

TIMED = {"time", "capture"}  # magics that execute their code in the session


class Code(NamedTuple):
    """The source of a class, or why there is none."""

    text: str = ""
    problem: str = ""  # the end of a sentence that begins with the name of the class


_NOTED: weakref.WeakKeyDictionary[type, int] = weakref.WeakKeyDictionary()  # cells executed when it was defined


def note(cls: type) -> None:
    """Remember which cell defined a class: it may be defined again later, and old values stay values of the old one."""
    if is_session(sys.modules.get(cls.__module__)):
        _NOTED[cls] = position()


def file_of(module: ModuleType | None) -> str | None:
    """The file of a module; none for a session, whose file Python calls `<stdin>` if it came through a pipe."""
    file = getattr(module, "__file__", None)
    return file if file and not file.startswith("<") else None


def is_session(module: ModuleType | None) -> bool:
    return module is not None and module is sys.modules.get("__main__") and file_of(module) is None


def position() -> int:
    """How many cells the session has executed. The code of its classes may have changed when the number has."""
    return len(_typed_names() if (shell := _shell()) is None else shell.history_manager.input_hist_parsed)


def cells() -> list[str]:
    """What the session executed, in order."""
    shell = _shell()
    if shell is not None:
        return [str(cell) for cell in shell.history_manager.input_hist_parsed]  # what `In` shows
    return [*_program(), *("".join(linecache.getlines(name)) for name in _typed_names())]


def whole_session() -> str:
    """All that was executed and can be read, as one source."""
    return "\n".join(s.text for cell in cells() for s in _statements(cell))


def session_code(cls: type) -> Code:
    """The statements of the session that a class needs, as a file that runs on its own."""
    executed = cells()
    offset = len(executed) - position()  # a program comes before what was typed
    numbered = [(n, s) for n, cell in enumerate(executed) for s in _statements(cell)]
    statements = [s for _, s in numbered]
    futures = [s for s in statements if s.is_future]
    name, until = cls.__name__, _NOTED.get(cls, position()) + offset
    binding = [k for k, (n, s) in enumerate(numbered) if n < until and name in s.binds]
    cell = numbered[binding[-1]][0] if binding else -1
    own = [k for k in binding if numbered[k][0] == cell and not contradicts(statements[k], name, cls, futures)]
    if not own:
        if not executed:
            return Code(
                problem="has no source, because Python keeps neither what is typed nor what comes through a pipe"
            )
        return Code(problem="has no source, because no cell of this session defines it")
    kept = slice_session(statements, own[-1], name)
    return Code(write(kept, f"What {name} needs of the session in which it was defined.", changes=True))


# -- what was executed -------------------------------------------------------------------------------------------------


def _shell() -> Any:
    """IPython's, in a notebook or at its prompt."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if get_ipython is not None else None
    return shell if getattr(shell, "user_module", None) is sys.modules.get("__main__") else None


def _program() -> list[str]:
    """The text of `python -c`, or of a script that came through standard input from a file. A pipe cannot be read
    twice."""
    kind = sys.argv[0] if sys.argv else ""
    given = sys.orig_argv
    if kind == "-c":
        flags = [n for n, argument in enumerate(given) if re.fullmatch("-[A-Za-z]*c", argument)]
        return [given[flags[0] + 1]] if flags and flags[0] + 1 < len(given) else []
    if kind in ("", "-") and hasattr(os, "pread") and not _typed_names():
        with contextlib.suppress(OSError, SyntaxError, UnicodeError):
            about = os.fstat(0)
            if stat.S_ISREG(about.st_mode):
                return [importlib.util.decode_source(os.pread(0, about.st_size, 0))]
    elif os.path.isfile(kind):  # `python -i script.py`, after the script
        with contextlib.suppress(OSError, SyntaxError, UnicodeError):
            return [importlib.util.decode_source(Path(kind).read_bytes())]
    return []


def _typed_names() -> list[str]:
    """What was typed at Python's own prompt, which keeps it from version 3.13 on."""
    if sys.version_info < (3, 13):
        return []
    found = {name: re.fullmatch(r"<python-input-(\d+)>|<stdin>-(\d+)", name) for name in list(linecache.cache)}
    numbers = {name: int(match[1] or match[2]) for name, match in found.items() if match}
    return sorted(numbers, key=lambda name: numbers[name])


@lru_cache(maxsize=4096)
def _statements(cell: str) -> tuple[Statement, ...]:
    """Those that can be read: a cell with a syntax error was not executed, and `await` belongs to the session."""
    try:
        found = list(_expanded(statements_of(cell)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(s for s in found if _readable(s))


def _readable(statement: Statement) -> bool:
    try:
        return statement.uses is not None
    except SyntaxError:
        return False


def _expanded(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """With the code inside `%%time` and `%%capture`, which IPython turns into calls that hold it as text."""
    for statement in statements:
        call = getattr(statement.node, "value", None)
        called = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
        given = [a.value for a in call.args if isinstance(a, ast.Constant)] if isinstance(call, ast.Call) else []
        if called in ("run_cell_magic", "run_line_magic") and given and given[0] in TIMED:
            shell = _shell()
            text = str(given[-1])
            yield from _statements(shell.transform_cell(text) if shell is not None else text)
        else:
            yield statement
