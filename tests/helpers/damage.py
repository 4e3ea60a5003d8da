"""Damage to files and folders, drawn from a seed, and undone afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Draw = random.Random


def flip_bit(path: Path, draw: Draw) -> None:
    data = bytearray(path.read_bytes())
    at = draw.randrange(len(data)) if data else 0
    data[at : at + 1] = bytes([data[at] ^ (1 << draw.randrange(8))]) if data else b"x"
    path.write_bytes(data)


def truncate(path: Path, draw: Draw) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size) if path.stat().st_size else 0)


def zero_a_block(path: Path, draw: Draw) -> None:
    data = bytearray(path.read_bytes())
    begin = draw.randrange(len(data) or 1)
    length = min(draw.choice([1, 16, 512, 4096]), len(data) - begin)
    data[begin : begin + length] = bytes(length)
    path.write_bytes(data)


def append(path: Path, draw: Draw) -> None:
    with path.open("ab") as file:
        file.write(draw.choice([b"\x00", b"\n", b"{}\n", draw.randbytes(64)]))


def delete(path: Path, draw: Draw) -> None:  # noqa: ARG001
    path.unlink()


def make_folder(path: Path, draw: Draw) -> None:  # noqa: ARG001
    path.unlink()
    path.mkdir()


def link_to_nothing(path: Path, draw: Draw) -> None:  # noqa: ARG001
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def change_type(path: Path, draw: Draw) -> None:
    path.write_text(draw.choice(["", "[]", "{}", "null", "7", '"x"', "[[[[", '{"a": {"b": []}}', "\x00" * 40]))


def edit_json(path: Path, draw: Draw) -> None:
    """Change one value of a JSON file, or remove one key; flip a bit where it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        flip_bit(path, draw)
        return
    places = list(_places(data))
    if not places:
        flip_bit(path, draw)
        return
    holder, key = draw.choice(places)
    if isinstance(holder, dict) and draw.random() < 0.3:
        del holder[key]
    else:
        holder[key] = draw.choice([0, 1.0, -3, 1e300, None, True, "x", [], {}, [1, "a"]])
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    for key in keys:
        yield data, key
        yield from _places(data[key])


DAMAGES: dict[str, Callable[[Path, Draw], None]] = {
    damage.__name__: damage
    for damage in (
        *(flip_bit, flip_bit, flip_bit, truncate, zero_a_block, append),
        *(delete, make_folder, link_to_nothing, change_type, edit_json),
    )
}
OFTEN = [*DAMAGES, "flip_bit", "flip_bit", "edit_json"]  # more of what is hardest to notice


@dataclass(frozen=True)
class Case:
    """One file or folder, and what is done to it."""

    path: Path
    damage: str
    other: Path | None = None  # swapped with it


@contextlib.contextmanager
def damaged(case: Case, draw: Draw, keep: Path) -> Iterator[None]:
    """Do the damage; afterwards the old file is back, with its time of change and its place on the disk. It is kept in
    the folder `keep` meanwhile."""
    if case.other is not None:
        _swap(case.path, case.other)
        try:
            yield
        finally:
            _swap(case.path, case.other)
        return
    kept = keep / f"kept-{case.path.name}"
    os.rename(case.path, kept)
    try:
        shutil.copy(kept, case.path)
        DAMAGES[case.damage](case.path, draw)
        yield
    finally:
        if case.path.is_dir() and not case.path.is_symlink():
            shutil.rmtree(case.path)
        else:
            case.path.unlink(missing_ok=True)
        os.replace(kept, case.path)


def _swap(a: Path, b: Path) -> None:
    between = a.with_name(f".{a.name}.swap")
    os.rename(a, between)
    os.rename(b, a)
    os.rename(between, b)
