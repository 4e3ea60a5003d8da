"""Remove outputs, counts and foreign metadata from the notebooks of the documentation.

python tools/clean_notebooks.py            # docs/notebooks/*.ipynb; needs nbformat
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
TAGS = ("parameters", "exercise", "check")


def cleaned(text: str) -> str:
    """A notebook as it belongs into the repository."""
    import nbformat

    book = nbformat.reads(text, as_version=4)
    book.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict(_metadata(cell.metadata))
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.validate(book)
    return str(nbformat.writes(book)) + "\n"


def _metadata(found: Any) -> dict[str, Any]:
    tags = [tag for tag in found.get("tags", []) if tag in TAGS]
    return {"tags": tags} if tags else {}


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        before = path.read_text(encoding="utf-8")
        after = cleaned(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"cleaned {path.name}")


if __name__ == "__main__":
    main()
