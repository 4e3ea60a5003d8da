"""Texts that the user gives to the page: kept in the store, and what was recognised in them.

A text is kept once, in a folder named by a hash of its content and kind. The page names it by that hash, which is
looked up among the folders that exist; the name that the user's file had is only shown.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from headtohead.data import files as texts
from headtohead.errors import InputError
from headtohead.run import files, store

KINDS = (".txt", ".csv", ".tsv", ".jsonl")
MOST_BYTES = 20 * 2**20
PREFIX = "upload-"
FOLDER = re.compile(r"[0-9a-f]{16}")
LONGEST_NAME = 60  # characters of a file's name
SHOWN_ROWS, SHOWN_CLASSES, SHOWN_CHARACTERS = 5, 20, 700


def keep(home: Path, name: str, content: bytes) -> str:
    """Store a text; return the name by which the page calls it. The same text is stored once."""
    kind = Path(name).suffix.lower()
    if kind not in KINDS:
        raise InputError(f"a file that ends in '{kind[:12]}' cannot be used: give {', '.join(KINDS)}")
    if not content.strip():
        raise InputError("the file is empty, or has only white space: give a file with text")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{name[:80]} is not UTF-8 text: save it as UTF-8 and upload it again") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"the file is larger than {MOST_BYTES // 2**20} MB: train on it with h2h run … --data FILE")
    id = hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()[:16]
    folder = home / files.UPLOADS / id
    if _file_in(folder) is None:
        store.write_whole(folder / safe_name(name), content)
    return PREFIX + id


def safe_name(name: str) -> str:
    """A file name of letters, digits, dots, dashes and underscores, with the ending of `name`."""
    kind = Path(name).suffix.lower()
    stem = re.sub(r"[^\w-]+", "-", Path(name.replace("\\", "/")).stem, flags=re.ASCII).strip("-_")
    return f"{stem[:LONGEST_NAME].rstrip('-_') or 'text'}{kind}"


def find(home: Path, name: str) -> Path:
    """The file of a text by the name that `keep` returned."""
    found = listed(home).get(name)
    if found is None:
        raise InputError("this text is not in the store any more: upload it again")
    return found


def listed(home: Path) -> dict[str, Path]:
    """The texts in the store, by name."""
    folder = home.resolve() / files.UPLOADS
    names = sorted(one for one in os.listdir(folder) if FOLDER.fullmatch(one)) if folder.is_dir() else []
    found = {PREFIX + name: _file_in(folder / name) for name in names}
    return {name: path for name, path in found.items() if path is not None}


def _file_in(folder: Path) -> Path | None:
    """The text of a folder: a visible file, because one that is being written begins with a dot, and no link, because
    a store of somebody else could name any file of this machine."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    texts_there = (f for f in sorted(folder.iterdir()) if f.suffix in KINDS and not f.name.startswith("."))
    return next((f for f in texts_there if not f.is_symlink() and f.is_file()), None)


# -- what was recognised -----------------------------------------------------------------------------------------------


def preview(path: Path, task: str, text: str = "", label: str = "") -> dict[str, Any]:
    """The beginning of a text, and what was recognised in it. A table that cannot be read as it is has a `problem`."""
    seen: dict[str, Any] = {"name": path.name, "bytes": path.stat().st_size}
    try:
        return seen | (_running(path) if path.suffix == ".txt" else _table(path, task, text, label))
    except InputError as error:
        return seen | {"problem": str(error).replace(str(path), path.name)}


def shown_error(error: InputError, home: Path) -> str:
    """The message with the names of texts in place of their paths in the store."""
    text = str(error)
    for path in listed(home).values():
        text = text.replace(str(path), path.name)
    return text


def _running(path: Path) -> dict[str, Any]:
    characters = lines = words = 0
    start = ""
    for piece in texts.pieces(path):
        start = start or piece[:SHOWN_CHARACTERS]
        characters, lines, words = characters + len(piece), lines + piece.count("\n"), words + len(piece.split())
    return {"kind": "text", "characters": characters, "lines": lines, "words": words, "start": start}


def _table(path: Path, task: str, text: str, label: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"kind": "table", "columns": texts.columns(path)}
    try:
        table = texts.read_table(path, text or None, label or None, labelled=task == "classifier")
    except InputError as error:
        return seen | {"problem": str(error).replace(str(path), path.name)}
    labels = table.labels or []
    rows = [[t[:200], *labels[n : n + 1]] for n, t in enumerate(table.texts[:SHOWN_ROWS])]
    classes = Counter(labels).most_common()
    return seen | {
        "text": table.text_column,
        "label": table.label_column,
        "texts": len(table.texts),
        "words": sum(len(t.split()) for t in table.texts),
        "classes": dict(classes[:SHOWN_CLASSES]),
        "class_count": len(classes),
        "rows": rows,
    }
