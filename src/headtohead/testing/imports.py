"""Which files of a project a file imports, read from the source without executing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def parsed(file: Path) -> ast.Module | None:
    """The syntax tree of a file; None if it is no Python."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def imported_files(file: Path, root: Path) -> set[Path]:
    """The file, and all files of the project that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += _direct(current, root)
    return found


def _direct(file: Path, root: Path) -> Iterator[Path]:
    tree = parsed(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name, _places(file, root))
        elif isinstance(node, ast.ImportFrom):
            places = [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else _places(file, root)
            for alias in node.names:
                yield from _files(".".join(filter(None, (node.module, alias.name))), places)


def _places(file: Path, root: Path) -> list[Path]:
    return [package_top(file), root, root / "src"]


def package_top(file: Path) -> Path:
    """The folder in which the file's package is; without a package, the file's folder."""
    top = file.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    return top


def _files(name: str, places: list[Path]) -> Iterator[Path]:
    """The files that `import name` executes, in the first place that has one; the last part may be a value."""
    parts = name.split(".")
    for place in places:
        found = []
        for n in range(1, len(parts) + 1):
            module = place.joinpath(*parts[:n])
            found += [f for f in (module / "__init__.py", module.with_name(f"{module.name}.py")) if f.is_file()]
        if found:
            yield from found
            return
