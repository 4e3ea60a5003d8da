"""Tests for otter-grader: one file per part, in its format of functions that raise exceptions.

otter knows only test cases that pass or fail. So a check that can give a part of its points becomes several test cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headtohead import __version__
from headtohead.disk.writing import write_whole
from headtohead.grading.gradescope import own_rubric
from headtohead.grading.rubric import Item, Part, read_rubric
from headtohead.grading.scoring import WRITTEN, files_of

HEAD = '''"""Tests of the part '{part}', {written}. The submission runs in processes with limits."""

from headtohead.grading import reached
from otter.test_files import test_case

OK_FORMAT = False
name = "{name}"
points = None
'''
CASE = """

@test_case(points={points}, name={shown!r})
def {function}():
    reached({part!r}, {check!r}, {least:g}, rubric="rubric", submission=".")
"""


def write_tests(rubric: Path, folder: Path) -> list[Path]:
    """Write tests/, a copy of the rubric and requirements.txt into a folder, and return the test files."""
    read = read_rubric(rubric)
    own = files_of(rubric, read)
    for path in own:
        name = "rubric.toml" if path == own_rubric(rubric, read) else path.relative_to(read.folder)
        write_whole(folder / "rubric" / name, path.read_bytes())
    write_whole(folder / "requirements.txt", "\n".join([f"headtohead=={__version__}", *read.imports, ""]))
    written = []
    for part in read.parts:
        path = folder / "tests" / f"{identifier(part.name)}.py"
        write_whole(path, test_file(part))
        written.append(path)
    return written


def test_file(part: Part) -> str:
    text = HEAD.format(part=part.name, written=WRITTEN, name=identifier(part.name))
    for item in part.items:
        cases = list(steps(item))
        for n, (gain, least) in enumerate(cases, 1):
            shown = item.name if len(cases) == 1 else f"{item.name}, {least:g} of {item.points:g}"
            function = identifier(item.name) + (f"_{n}" if len(cases) > 1 else "")
            text += CASE.format(
                points=repr(gain), shown=shown, function=function, part=part.name, check=item.name, least=least
            )
    return text


def steps(item: Item) -> Iterator[tuple[float, float]]:
    """The points of each test case, and how many the check must give for it."""
    count = {
        "audit": round(item.points / (item.given.get("per_broken") or item.points / 3 or 1)),
        "cache": 3,
        "figure": 5,
        "function": len(item.given.get("cases", ())),
        "attention": len(item.given.get("answers", ())),
    }.get(item.kind, 1)
    count = max(1, count)
    for n in range(1, count + 1):
        gain = item.points / count
        yield int(gain) if gain == int(gain) else gain, item.points * n / count


def identifier(name: str) -> str:
    """A name that Python and file systems take."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return found if found and not found[0].isdigit() else f"part_{found}"
