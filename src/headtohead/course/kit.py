"""The kit of the course as a folder: assignment, starter files, slides, rubric and, if asked for, the solution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headtohead.course import pictures, slides
from headtohead.disk.writing import write_whole
from headtohead.errors import InputError

HERE = Path(__file__).parent
COPIED = {"README.md": "teacher.md", **{name: name for name in ("assignment.md", "hidden.py", "slides.md")}}


def write_kit(folder: Path, *, solution: bool = False, seed: int | None = None) -> list[Path]:
    """Write the kit into a new folder and return its files. Another seed draws other hidden texts, weights and data."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: give a new folder with --out")
    written = []
    for name, text in contents(solution=solution, seed=seed):
        write_whole(folder / name, text)
        written.append(folder / name)
    return written


def contents(*, solution: bool = False, seed: int | None = None) -> Iterator[tuple[str, str]]:
    """Each file's name and text."""
    for name, source in COPIED.items():
        yield name, _read(source)
    yield "rubric.toml", _read("rubric.toml") if seed is None else with_seed(_read("rubric.toml"), seed)
    for name in pictures.PICTURES:
        yield f"pictures/{name}.svg", pictures.draw(name).replace("<svg ", '<svg color="#555" ', 1)
    yield "slides.html", slides.page(_read("slides.md"), pictures.draw)
    for place in ("starter", *(["solution"] if solution else [])):
        for path in sorted((HERE / place).iterdir()):
            if path.is_file():
                yield f"{place}/{path.name}", path.read_text(encoding="utf-8")


def with_seed(rubric: str, seed: int) -> str:
    return re.sub(r"^seed = .*$", f"seed = {seed}", rubric, count=1, flags=re.MULTILINE)


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def rewrite(folder: str | Path) -> Path:
    """Write slides.html again from slides.md and pictures/ of a kit."""
    place = Path(folder)
    try:
        markdown = (place / "slides.md").read_text(encoding="utf-8")
        shown = slides.page(markdown, lambda name: (place / "pictures" / f"{name}.svg").read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: give the folder with slides.md and its pictures") from None
    write_whole(place / "slides.html", shown.replace('<svg color="#555" ', "<svg ").replace('color="#555" ', ""))
    return place / "slides.html"
