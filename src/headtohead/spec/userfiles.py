"""The user's own code: importing a Python file by its path, naming the code of a class, and keeping a copy of that code
with every run that needs it.

A run's folder has `code/<sha256 of the file>.py` for every class of the user's that it is made of: a copy of the file
that defines the class, or, for a class of a session or of a script, the statements that the class needs. A copy is
found by the digest of its class, and checked against its own name before it is executed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import linecache
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from headtohead.errors import InputError, describe
from headtohead.spec import sessions
from headtohead.spec.statements import binds, digest, outdated, standalone, statements_of, undefined, write

Copies = Mapping[str, bytes] | Path | None  # stored code: files by name, or the folder that has them

_SOURCES: dict[str, bytes] = {}  # of the files loaded, by module name, as they were when loaded
_ORIGINS: dict[str, str | None] = {}  # of copies loaded, by module name: the file that the class came from


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file by its path and register its parts. An edited file is imported again."""
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
    _SOURCES[name] = source
    _execute(module, str(file), file.parent, str(path))
    lines = importlib.util.decode_source(source).splitlines(keepends=True)
    linecache.cache[str(file)] = (len(source), None, lines, str(file))  # error messages show what was loaded
    return module


RECIPES = Path(__file__).parents[1] / "recipes"  # the recipes of the package


def published_recipes() -> Path:
    """The folder of the reports' recipes: `recipes/published` here, or the one that comes with the package."""
    here = Path("recipes/published")
    return here if here.is_dir() else RECIPES / "published"


def find_recipe(name: str) -> tuple[Path, str]:
    """Split FILE.py:NAME, or a recipe of the package such as `published/window:NAME`, into the file and the NAME. The
    NAME is empty if none is given."""
    path, _, which = name.partition(".py:") if ".py:" in name else name.partition(":")
    file = Path(path.removesuffix(".py") + ".py")
    if not file.is_absolute() and not file.is_file():
        places = (Path("recipes"), RECIPES, RECIPES.parent)  # of mine, published/window, recipes/published/window.py
        file = next((place / file for place in places if (place / file).is_file()), file)
    return file, which


def recipe_names() -> dict[str, Path]:
    """Return the recipes of the package, and of the folder `recipes` in the current folder, by name."""
    recipes: dict[str, Path] = {}
    for base in (RECIPES, Path("recipes")):
        files = [*sorted(base.glob("*.py")), *sorted((base / "published").glob("*.py"))] if base.is_dir() else []
        recipes |= {file.relative_to(base).with_suffix("").as_posix(): file for file in files}
    return recipes


def file_of(cls: type) -> str | None:
    return sessions.file_of(sys.modules.get(cls.__module__))


def origin_of(cls: type) -> str | None:
    """The user's file that defines a class, as it is written into JSON."""
    if cls.__module__ in _ORIGINS:
        return _ORIGINS[cls.__module__]
    file = file_of(cls)
    return portable(file) if file else None


def portable(file: str) -> str:
    """Return the path to write into a spec's JSON. For a recipe of the package it is the same on every machine."""
    path = Path(file).resolve()
    if path.is_relative_to(RECIPES.resolve()):
        return (Path("recipes") / path.relative_to(RECIPES.resolve())).as_posix()
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.as_posix()


def source_of(module: ModuleType) -> bytes:
    """The source of a module as it was loaded, of a session all its cells; empty if there is none."""
    if module.__name__ in _SOURCES:
        return _SOURCES[module.__name__]
    if sessions.is_session(module):
        return sessions.whole_session().encode()
    return _read(module.__file__)


# -- the code of a class -----------------------------------------------------------------------------------------------


class _Code(NamedTuple):
    digest: str
    text: bytes  # of a file that defines the class; empty if there is none
    problem: str  # why there is none: the end of a sentence that begins with the name of the class


def source_digest(cls: type) -> str:
    """Names the code of a user's class: the class and everything at the top of its file that it uses, comments and
    layout aside. A run must not be taken for that of an older version of the class."""
    return _code(cls).digest


def source_text(cls: type) -> bytes:
    """A Python file that defines the class and can be loaded in another process; InputError if there is none."""
    found = _code(cls)
    if found.problem:
        raise InputError(f"{cls.__name__} {found.problem}: {_remedy(cls)}")
    if cls.__module__ == "__main__":
        _check_values(cls, found.text)
    return found.text


def _code(cls: type) -> _Code:
    if sessions.is_session(sys.modules.get(cls.__module__)):
        return _code_in_session(cls, sessions.position())
    return _code_in_file(cls)


@functools.lru_cache(maxsize=1024)
def _code_in_session(cls: type, position: int) -> _Code:  # noqa: ARG001  (its code may change with every cell)
    found = sessions.session_code(cls)
    if found.problem:
        return _Code(_bytecode(cls), b"", found.problem)
    return _Code(digest(found.text, cls.__name__), found.text.encode(), "")


@functools.cache
def _code_in_file(cls: type) -> _Code:
    name, module = cls.__name__, sys.modules.get(cls.__module__)
    source = _SOURCES.get(cls.__module__) or _read(file_of(cls))
    if not source:
        return _Code(_bytecode(cls), b"", "has no source, because it was not read from a file")
    known = digest(source, name, cls.__qualname__)
    if not binds(source, name) and getattr(module, name, None) is not cls:
        return _Code(known, b"", "is not at the top of its file")
    if cls.__module__ != "__main__" or module is None:
        return _Code(known, source, "")
    return _Code(known, _script_text(source, name), "")  # the rest of the script would train again


def _check_values(cls: type, text: bytes) -> None:
    """Refuse statements of a session or a script that do not give what the class sees here and now."""
    name, live, statements = cls.__name__, vars(sys.modules[cls.__module__]) | {cls.__name__: cls}, statements_of(text)
    changed = outdated(statements, live)
    if changed:
        raise InputError(
            f"{name} uses {changed}, whose value now is not the one that the code gives it last: run its cell again, "
            "or assign it once"
        )
    missing = undefined(statements, live)
    if missing:
        raise InputError(f"{name} uses {missing[0]}, which the code of this session does not define: {_remedy(cls)}")


def _remedy(cls: type) -> str:
    return f"write the class to a file, such as {cls.__name__.lower()}.py, and import it from there"


def _script_text(source: bytes, name: str) -> bytes:
    return write(standalone(source, name), f"What {name} needs of the script that defines it.").encode()


def _bytecode(cls: type) -> str:
    functions = [f for f in vars(cls).values() if inspect.isfunction(f)]
    parts = [
        (f.__name__, f.__code__.co_code.hex(), repr([c for c in f.__code__.co_consts if not inspect.iscode(c)]))
        for f in functions
    ]
    said = repr((cls.__qualname__, sorted(parts), sorted(map(str, getattr(cls, "__annotations__", {}).items()))))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


# -- copies that are stored with runs ----------------------------------------------------------------------------------


def copy_name(text: bytes) -> str:
    return f"{hashlib.sha256(text).hexdigest()}.py"


def load_class(name: str, source: str, file: str | None, copies: Copies = None) -> type:
    """The class whose code has the digest `source`: from the user's file if that still has it, else from a copy that
    was stored with the run. A copy is executed only if its bytes and its class have the digests that they should."""
    path = find_recipe(file)[0] if file is not None else None
    own = _read(path)
    copy, damaged = _find_copy(name, source, copies)
    if path is not None and own and _digest_in(own, name) == source:
        # the copy of a script has only what the class needs: the rest of the script would train again
        of_script = copy is not None and copy == _script_text(own, name)
        module = _load_copy(copy, file) if copy is not None and of_script else load_file(path)
    elif copy is not None:
        module = _load_copy(copy, file)
    elif damaged:
        raise InputError(f"{damaged} is not the code that was stored (its sha256 is not its name): bring the run back")
    elif path is None:
        raise InputError(
            f"{name} was defined in a session that is over, and there is no copy of its code: define it again"
        )
    else:
        module = load_file(path)
    cls = getattr(module, name, None)
    if cls is None:
        raise InputError(f"{name} was defined in {file or 'a session'} and is not there any more")
    if source_digest(cls) != source:
        raise InputError(f"{name} in {file} has changed since this was saved: restore the file, or make the run again")
    return cls


def _find_copy(name: str, source: str, copies: Copies) -> tuple[bytes | None, str]:
    """The stored file whose class has that digest; and the name of a file that is damaged."""
    if isinstance(copies, Path):
        copies = {str(path): path.read_bytes() for path in sorted(copies.glob("*.py"))}
    damaged = ""
    for file, text in (copies or {}).items():
        if copy_name(text) != Path(file).name:
            damaged = file
        elif _digest_in(text, name) == source:
            return text, ""
    return None, damaged


def _digest_in(text: bytes, name: str) -> str | None:
    try:
        return digest(text, name)
    except (SyntaxError, ValueError):
        return None


def _read(file: str | Path | None) -> bytes:
    """The content of a file; empty if there is none."""
    try:
        return Path(file or "").read_bytes()
    except OSError:
        return b""


def _load_copy(text: bytes, file: str | None) -> ModuleType:
    """Execute stored code. All of it passes here."""
    name = f"h2h_file_copy_{hashlib.sha256(f'{file}:'.encode() + text).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module, shown = ModuleType(name), f"<code {copy_name(text)[:12]}>"
    path = find_recipe(file)[0].resolve() if file is not None else None
    if path is not None:
        module.__file__ = str(path)  # what it reads from beside itself may still be there
    linecache.cache[shown] = (len(text), None, text.decode(errors="replace").splitlines(keepends=True), shown)
    _SOURCES[name], _ORIGINS[name] = text, file
    _execute(module, shown, path.parent if path is not None else Path.cwd(), "the code stored with this run")
    return module


def _execute(module: ModuleType, filename: str, folder: Path, said: str) -> None:
    """Execute the source of a module; what it imports from the folder is found."""
    name = module.__name__
    sys.modules[name] = module
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that a user's folder never hides an installed package
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is none of a command's results
            exec(compile(_SOURCES[name], filename, "exec"), module.__dict__)  # not what an import cache may hold
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's file may raise anything, even SystemExit
        del sys.modules[name]
        raise InputError(f"{said} cannot be imported: {describe(error, Path(filename))}") from None
