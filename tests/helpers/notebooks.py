"""The notebooks of the documentation: their cells, and running them without a browser."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, NamedTuple

from helpers.docs import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PARAMETERS = "QUICK = False"


class Answer(NamedTuple):
    """What the check of an exercise printed: for the cell as it is in the notebook, and for its solution."""

    unanswered: str
    solved: str


class Executed(NamedTuple):
    cells: list[Any]
    answers: list[Answer]

    @property
    def printed(self) -> str:
        """All text that the cells show."""
        outputs = [out for cell in self.cells for out in cell.get("outputs", [])]
        return "\n".join(_text(out) for out in outputs)


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def tagged(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", [])


def solutions(book: Any) -> list[str]:
    """The code of the last cell's solutions, in the order of the exercises."""
    return re.findall(r"^```python\n(.*?)^```$", book.cells[-1].source + "\n", flags=re.MULTILINE | re.DOTALL)


def execute(path: Path, folder: Path, quick: bool, seconds: int = 900) -> Executed:
    """Run a notebook in a kernel, in `folder`. Each exercise is checked as it is, and again with its solution."""
    import nbclient
    import nbformat

    book = read(path)
    solved = solutions(book)
    cells: list[Any] = []
    for cell in book.cells:
        cell = copy.deepcopy(cell)
        if tagged(cell, "parameters"):
            cell.source = cell.source.replace(PARAMETERS, f"QUICK = {quick}")
        cells.append(cell)
        if tagged(cell, "check"):
            cells += [nbformat.v4.new_code_cell(solved.pop(0)), copy.deepcopy(cell)]
            cells[-1]["id"] = f"{cell['id']}-solved"
    assert solved == [], "there are more solutions than exercises"
    book.cells = cells
    nbclient.NotebookClient(book, timeout=seconds, resources={"metadata": {"path": str(folder)}}).execute()
    checks = ["".join(map(_text, cell.outputs)) for cell in book.cells if tagged(cell, "check")]
    return Executed(book.cells, [Answer(*pair) for pair in zip(checks[::2], checks[1::2], strict=True)])


def _text(output: Any) -> str:
    data = output.get("data", {})
    shown = data.get("text/plain", "") + "\n" + data.get("text/html", "")
    return output.get("text", "") + shown
