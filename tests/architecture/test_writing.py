"""Files are written in one module, which follows no links and leaves no half of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead

SOURCE = Path(headtohead.__file__).parent
WRITERS = {"write_text", "write_bytes", "touch", "tofile", "save_file", "to_csv", "to_parquet", "savefig", "connect"}
WRITERS |= {"fdopen", "mkstemp", "NamedTemporaryFile", "copy2", "copyfile"}
ALLOWED = {  # writes to a buffer, or to a file that headtohead.disk opened, or changes the time of a report only
    ("spec/trust.py", "copy2"),  # keeps a damaged list under a name that is free
    *(("report/page.py", "touch"), ("cli/report.py", "touch")),
    *(("figures/style.py", "savefig"), ("interpret/draw.py", "savefig"), ("puzzles/pictures.py", "savefig")),
    *(("report/curves.py", "savefig"), ("report/grid.py", "savefig"), ("data/encoded.py", "tofile")),
    # pipes between the server and its processes
    *(("web/measurements.py", "fdopen"), ("web/module_process.py", "fdopen"), ("web/modules.py", "fdopen")),
    *(("sandbox/nursery.py", "fdopen"), ("sandbox/forking.py", "open")),
    # copies of a submission, in a temporary folder
    *(("grading/submission.py", "copyfile"), ("grading/submission.py", "write_bytes")),
    ("web/index.py", "connect"),  # SQLite, in the cache: an index that may be deleted at any time
    *(("outcome/long_table.py", "to_csv"), ("outcome/long_table.py", "to_parquet")),
}


def writers(tree: ast.AST) -> Iterator[str]:
    """Calls that write a file: of methods that do, and of `open` in a mode that writes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in WRITERS:
            yield name
        modes = [a for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)]
        if name == "open" and any(isinstance(m.value, str) and _writes(m.value) for m in modes):
            yield "open"


def _writes(mode: str) -> bool:
    return bool(set(mode) & set("wax+")) and set(mode) <= set("rwaxbt+")


def test_only_one_package_writes_files() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith("disk/"):
            found |= {(place, name) for name in writers(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == ALLOWED


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ('open(path, "w")', "open"),
        ('path.open("ab")', "open"),
        ('open(path, mode="x")', "open"),
        ("path.write_text('')", "write_text"),
        ('os.fdopen(handle, "w")', "fdopen"),
        ('open(path, "rb")', None),
        ('archive.open("weights")', None),
        ('open(path, encoding="utf-8")', None),
    ],
)
def test_a_stray_writer_is_found(code: str, name: str | None) -> None:
    assert list(writers(ast.parse(code))) == [name] * (name is not None)
