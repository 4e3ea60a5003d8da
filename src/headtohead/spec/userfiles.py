"""The user's own code: importing a Python file by its path, naming the code of a class, and the source that a run
stores of it. `run_source` is the only place of the package that executes code of others.

A file that the user names is executed, as `python FILE.py` would, and remembered as approved (spec/trust.py). Code that
stored JSON names is loaded by spec/stored_code.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import linecache
import os
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from headtohead.errors import InputError, describe
from headtohead.spec import sessions, trust
from headtohead.spec.statements import binds, digest, outdated, standalone, statements_of, undefined, write

LARGEST = 1 << 20  # bytes of a source file that is stored with runs and read back

_SOURCES: dict[str, bytes] = {}  # of the files loaded, by module name, as they were when loaded
_ORIGINS: dict[str, str | None] = {}  # of copies loaded, by module name: the file that the class came from


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file by its path and register its parts. An edited file is imported again. The file counts as
    approved from now on: call this for files that the user names, not for files that stored data names."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path}: give the path of a Python file")
    file = file.resolve()
    source = file.read_bytes()
    if not is_shipped(file):
        trust.remember(source, file.name, file.parent)
    return load_source(file, source, file.parent, str(path))


def load_found_file(path: Path) -> ModuleType:
    """Import a Python file that the user did not name: a recipe of the package, or one that the user has approved."""
    file = path.resolve()
    source = read_source(file)
    if is_shipped(file):
        return load_source(file, source, file.parent, str(path))
    approved = trust.approval(source)
    if approved is None:
        raise trust.NotApproved(f"{path} is code that you have not approved: read it, then h2h trust {path}")
    return load_source(file, source, Path(approved.folder) if approved.folder else None, str(path))


def load_source(file: Path, source: bytes, folder: Path | None, said: str) -> ModuleType:
    """Import this source of a file. What it imports is searched in `folder` too."""
    name = f"h2h_file_{file.stem}_{hashlib.sha256(str(file).encode() + source).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = importlib.util.spec_from_file_location(name, file)
    if loader is None or loader.loader is None:
        raise InputError(f"{said} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(loader)
    _import(module, source, str(file), folder, said)
    lines = importlib.util.decode_source(source).splitlines(keepends=True)
    linecache.cache[str(file)] = (len(source), None, lines, str(file))  # error messages show what was loaded
    return module


def load_copy(text: bytes, origin: str | None, approved: trust.Approval) -> ModuleType:
    """Import code that was stored with a run. `origin` is the file that the class came from."""
    name = f"h2h_file_copy_{hashlib.sha256(f'{origin}:'.encode() + text).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module, shown = ModuleType(name), f"<code {copy_name(text)[:12]}>"
    folder = None if approved.folder is None else Path(approved.folder)
    if folder is not None and origin is not None:
        module.__file__ = str(folder / Path(origin).name)  # what it reads from beside itself may still be there
    linecache.cache[shown] = (len(text), None, text.decode(errors="replace").splitlines(keepends=True), shown)
    _ORIGINS[name] = origin
    _import(module, text, shown, folder, "the code stored with this run")
    return module


def _import(module: ModuleType, source: bytes, filename: str, folder: Path | None, said: str) -> None:
    name = module.__name__
    sys.modules[name], _SOURCES[name] = module, source
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that a user's folder never hides an installed package
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is none of a command's results
            run_source(module, source, filename)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's file may raise anything, even SystemExit
        del sys.modules[name]
        raise InputError(
            f"{said} cannot be imported: {describe(error, Path(filename))}{_beside(error, folder)}"
        ) from None


def _beside(error: BaseException, folder: Path | None) -> str:
    """The remedy where an approved file imports another one and the user never ran it from its folder."""
    if not isinstance(error, ModuleNotFoundError) or folder is not None:
        return ""
    return "; if that file is beside it, approve it at its place: h2h trust FILE.py"


def run_source(module: ModuleType, source: bytes | str, filename: str) -> None:
    """Execute source in a module. Callers have checked that the user approved it, or have written it themselves."""
    exec(compile(source, filename, "exec"), module.__dict__)  # not what an import cache may hold


RECIPES = Path(__file__).parents[1] / "recipes"  # the recipes of the package


def is_shipped(file: Path) -> bool:
    """Whether a file is a recipe of the package."""
    return file.resolve().is_relative_to(RECIPES.resolve())


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
        folders = (base, base / "published", base / "tasks")
        files = [file for folder in folders for file in sorted(folder.glob("*.py"))] if base.is_dir() else []
        recipes |= {file.relative_to(base).with_suffix("").as_posix(): file for file in files}
    return recipes


def read_source(file: str | Path | None) -> bytes:
    """The content of a source file; empty if there is none, if it is too large, or if it is a pipe or a device."""
    try:
        path = Path(file or "")
        if not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        with path.open("rb") as opened:
            text = opened.read(LARGEST + 1)
    except (OSError, ValueError):  # also a path with a zero byte
        return b""
    return text if len(text) <= LARGEST else b""


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
    return read_source(module.__file__)


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
    if len(found.text) > LARGEST:
        raise InputError(f"the file of {cls.__name__} has more than 1 MiB: move its data to another file")
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
    source = _SOURCES.get(cls.__module__) or read_source(file_of(cls))
    if not source:
        return _Code(_bytecode(cls), b"", "has no source, because it was not read from a file")
    known = digest(source, name, cls.__qualname__)
    if not binds(source, name) and getattr(module, name, None) is not cls:
        return _Code(known, b"", "is not at the top of its file")
    if cls.__module__ != "__main__" or module is None:
        return _Code(known, source, "")
    return _Code(known, script_text(source, name), "")  # the rest of the script would train again


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


def script_text(source: bytes, name: str) -> bytes:
    """What a class needs of the script that defines it."""
    return write(standalone(source, name), f"What {name} needs of the script that defines it.").encode()


def _bytecode(cls: type) -> str:
    functions = [f for f in vars(cls).values() if inspect.isfunction(f)]
    parts = [
        (f.__name__, f.__code__.co_code.hex(), repr([c for c in f.__code__.co_consts if not inspect.iscode(c)]))
        for f in functions
    ]
    said = repr((cls.__qualname__, sorted(parts), sorted(map(str, getattr(cls, "__annotations__", {}).items()))))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def copy_name(text: bytes) -> str:
    """The name of a file's copy in a run's folder."""
    return f"{trust.sha256_of(text)}.py"


def folder_of(cls: type) -> Path | None:
    """The folder in which the user ran the code of a class; none for code that was approved without one."""
    if cls.__module__ in _ORIGINS or sessions.file_of(sys.modules.get(cls.__module__)) is not None:
        file = file_of(cls)
        return None if file is None else Path(file).resolve().parent
    return Path.cwd()  # of a session
