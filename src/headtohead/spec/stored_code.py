"""Code that stored JSON names: found by the digest of its class, and executed only if the user has approved the file.

A run's folder has `code/<sha256 of the file>.py` for every class of the user's that it is made of: a copy of the file
that defines the class, or, for a class of a session or of a script, the statements that the class needs. The JSON and
the copies may come from somebody else. So nothing is executed before three things are known: the copy has the sha256 of
its name, the class in it has the digest that the JSON states, and the whole file is on the user's list (spec/trust.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headtohead.errors import InputError
from headtohead.spec import trust
from headtohead.spec.statements import binds, digest
from headtohead.spec.userfiles import (
    RECIPES,
    copy_name,
    find_recipe,
    is_shipped,
    load_copy,
    load_source,
    read_source,
    script_text,
    source_digest,
)

Copies = Mapping[str, bytes] | Path | None  # stored code: files by name, or the folder that has them

MOST_COPIES = 50  # of a folder that are parsed; copies that the user has approved come first


class StoredCode(NamedTuple):
    """A file that defines the class which stored JSON names."""

    name: str  # of the class
    file: str | None  # that the class came from, as the JSON says; None: a session
    text: bytes
    place: Path | None  # where it can be read; None: it was sent by another process
    is_copy: bool

    @property
    def is_approved(self) -> bool:
        own = not self.is_copy and self.place is not None and is_shipped(self.place)
        return own or trust.approval(self.text) is not None

    def load(self) -> ModuleType:
        """Import the file. Only for approved code. A file that the user did not run at this place is imported as a
        copy, so that the place decides neither what it imports nor what it finds beside itself."""
        approved = trust.approval(self.text)
        if not self.is_copy and self.place is not None:
            path = self.place.resolve()
            if is_shipped(path) or (approved is not None and approved.folder == str(path.parent)):
                return load_source(path, self.text, path.parent, str(self.place))
        assert approved is not None
        return load_copy(self.text, self.file, approved)


def load_class(name: str, source: str, file: str | None, copies: Copies = None) -> type:
    """The class whose code has the digest `source`: from the user's file if that still has it, else from a copy that
    was stored with the run."""
    _check_names(name, source, file)
    found, damaged = find_code(name, source, file, copies)
    approved = next((code for code in found if code.is_approved), None)
    if approved is None and found:
        raise trust.NotApproved(_refusal(_best(found), copies))
    if approved is None:
        raise InputError(_absent(name, file, damaged))
    cls = getattr(approved.load(), name, None)
    if not isinstance(cls, type):
        raise InputError(f"{name} was defined in {shown(file)} and is not there any more")
    if source_digest(cls) != source:
        raise InputError(_changed(name, file))
    return cls


def find_code(name: str, source: str, file: str | None, copies: Copies) -> tuple[list[StoredCode], str]:
    """The files whose class has this digest, in the order of preference, without executing them; and the name of a
    damaged copy."""
    found = []
    for path in _places(file):
        own = read_source(path)
        if own and _digest_in(own, name) == source:
            found.append(StoredCode(name, file, own, path, is_copy=False))
    copy, damaged = _find_copy(name, source, file, copies)
    if copy is not None:
        # the copy of a script has only what the class needs: the rest of the script would train again
        of_script = any(copy.text == script_text(own.text, name) for own in found)
        found = [copy, *found] if of_script else [*found, copy]
    return found, damaged


def unapproved(data: Any, copies: Copies = None) -> list[StoredCode]:
    """The code that a spec's JSON needs and that the user has not approved, one for each file."""
    found: dict[bytes, StoredCode] = {}
    for spec in _user_specs(data):
        name, source, file = spec["kind"], spec["source"], spec.get("file")
        if isinstance(name, str) and isinstance(source, str) and isinstance(file, str | None):
            code, _ = find_code(name, source, file, copies)
            if code and not any(one.is_approved for one in code):
                found.setdefault(_best(code).text, _best(code))
    return list(found.values())


def foreign(data: Any, copies: Copies = None) -> list[tuple[str, str]]:
    """The classes that a spec's JSON names and that are not part of this package, approved or not, each with the file
    that it came from."""
    found: dict[tuple[str, str], None] = {}
    for spec in _user_specs(data):
        name, source, file = spec["kind"], spec["source"], spec.get("file")
        known = isinstance(name, str) and isinstance(source, str) and isinstance(file, str | None)
        code = find_code(name, source, file, copies)[0] if known else []
        if not any(not one.is_copy and one.place is not None and is_shipped(one.place) for one in code):
            found[str(name)[:80], shown(file if isinstance(file, str) else None)] = None
    return list(found)


def _best(found: list[StoredCode]) -> StoredCode:
    """The one to approve: the copy that was stored with the run, if there is one."""
    return next((code for code in found if code.is_copy), found[0])


def _user_specs(data: Any) -> Iterator[dict[str, Any]]:
    todo = [data]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if value.get("source") is not None and "kind" in value:
                yield value
            todo += reversed(value.values())
        elif isinstance(value, list | tuple):
            todo += reversed(value)


def _check_names(name: Any, source: Any, file: Any) -> None:
    right = isinstance(name, str) and isinstance(source, str) and isinstance(file, str | None)
    if not right or not name.isidentifier():
        raise InputError("the code of a part is named in a form that headtohead does not write: bring the run back")


def _places(file: str | None) -> list[Path]:
    """Where a file of stored JSON may be. `recipes/…` is a recipe of the package, or of the working directory."""
    if not file:
        return []
    try:
        shipped = RECIPES.parent / file
        return [*([shipped] if is_shipped(shipped) else []), find_recipe(file)[0]]
    except (OSError, ValueError):  # not the path of a file
        return []


def _find_copy(name: str, source: str, file: str | None, copies: Copies) -> tuple[StoredCode | None, str]:
    """The stored file whose class has that digest; and the name of a file that is damaged."""
    folder = copies if isinstance(copies, Path) else None
    if folder is not None:
        named = [path for path in folder.glob("*.py") if re.fullmatch(r"[0-9a-f]{64}", path.stem)]
        known = trust.approvals()
        named.sort(key=lambda path: (path.stem not in known, path.name))
        copies = {path.name: read_source(path) for path in named[:MOST_COPIES]}
    assert not isinstance(copies, Path)
    damaged = ""
    for copy, text in (copies or {}).items():
        place = folder / copy if folder is not None else None
        if copy_name(text) != Path(copy).name:
            damaged = str(place or copy)
        elif _digest_in(text, name) == source:
            return StoredCode(name, file, text, place, is_copy=True), ""
    return None, damaged


def _digest_in(text: bytes, name: str) -> str | None:
    try:
        return digest(text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# -- messages ----------------------------------------------------------------------------------------------------------


def shown(file: str | None) -> str:
    """The name of a file that stored JSON states, safe to print."""
    if not file:
        return "a session"
    return "".join(c if c.isprintable() else "\ufffd" for c in file[-100:])


def _refusal(code: StoredCode, copies: Copies) -> str:
    if isinstance(copies, Path):
        what, remedy = f"run {copies.parent.name}", copies.parent.name
    else:
        what, remedy = "this", str(code.place or "FILE.py")
    wrong = trust.problem()
    return (
        f"{what} needs code that you have not approved, {code.name} of {shown(code.file)} "
        f"(sha256 {trust.sha256_of(code.text)[:12]}){f' ({wrong})' if wrong else ''}: "
        f"read it and approve it with h2h trust {remedy}"
    )


def _absent(name: str, file: str | None, damaged: str) -> str:
    """Why there is no code for a class."""
    if damaged:
        return f"{damaged} is not the code that was stored (its sha256 is not its name): bring the run back"
    if file is None:
        return f"{name} was defined in a session that is over, and there is no copy of its code: define it again"
    text = next(filter(None, map(read_source, _places(file))), b"")
    if not text:
        return f"no file {shown(file)}, which defined {name}, and no copy of it: bring the file back"
    try:
        is_there = binds(text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        is_there = True
    return _changed(name, file) if is_there else f"{name} was defined in {shown(file)} and is not there any more"


def _changed(name: str, file: str | None) -> str:
    return f"{name} in {shown(file)} has changed since this was saved: restore the file, or make the run again"
