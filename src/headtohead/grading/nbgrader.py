"""A notebook for nbgrader: one cell per part with autograder tests.

The tests are in a hidden region: nbgrader takes it out of the students' version and puts it back when it grades. It
gives a cell 30 seconds unless its configuration says more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headtohead.disk.writing import write_whole
from headtohead.grading.otter import identifier
from headtohead.grading.rubric import Part, read_rubric

INTRODUCTION = """# {title}

Hand in these files beside this notebook: {files}. The cells below are filled in when your work is graded."""
CELL = """# {name}: {out_of:g} points for {checks}
### BEGIN HIDDEN TESTS
from headtohead.grading import points

points({name!r}, rubric={rubric!r}, submission=".", within={within:g})
### END HIDDEN TESTS"""


def write_notebook(rubric: Path, to: Path, within: float = 600.0) -> list[str]:
    """Write the notebook and return the names of its graded cells. A cell takes at most about `within` seconds."""
    read = read_rubric(rubric)
    place = str((rubric if rubric.is_file() else rubric / "rubric.toml").resolve())
    files = ", ".join(f"`{name}`" for name in dict.fromkeys(part.file for part in read.parts))
    cells = [
        {
            "cell_type": "markdown",
            "id": "introduction",
            "metadata": {},
            "source": INTRODUCTION.format(title=read.title, files=files),
        },
        *(_cell(part, place, within) for part in read.parts),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    write_whole(to, json.dumps(notebook, indent=1) + "\n")
    return [identifier(part.name) for part in read.parts]


def _cell(part: Part, rubric: str, within: float) -> dict[str, Any]:
    name = identifier(part.name)
    checks = ", ".join(item.name for item in part.items)
    points = int(part.points) if part.points == int(part.points) else part.points
    graded = {
        "grade": True,
        "grade_id": name,
        "locked": True,
        "points": points,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name[:60],
        "metadata": {"nbgrader": graded},
        "outputs": [],
        "source": CELL.format(name=part.name, out_of=part.points, checks=checks, rubric=rubric, within=within),
    }
