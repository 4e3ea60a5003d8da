"""The names of the store's files are written in one module."""

from __future__ import annotations

import ast
from pathlib import Path

import headtohead
from headtohead.run import files

SOURCE = Path(headtohead.__file__).parent
NAMES = {value for name, value in vars(files).items() if name.isupper()}
FOLDERS = {name for name in NAMES if "." not in name and name != files.LOCK}
OTHERS = {
    "data/pretrained_checkpoints.py": {files.WEIGHTS, files.TOKENIZER},  # transformers has files of the same names
    "spec/userfiles.py": {files.PUBLISHED},  # the folder of recipes
}


def literals(tree: ast.AST) -> set[str]:
    """File names as strings, and folder names where they are joined to a path; JSON keys have the same names."""
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    joined = {n.right.value for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.right, ast.Constant)}
    return (texts & (NAMES - FOLDERS)) | (joined & FOLDERS)


def test_store_file_names_are_in_one_module():
    found = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        names = literals(ast.parse(path.read_text(encoding="utf-8"))) - OTHERS.get(place, set())
        if names and place != "run/files.py":
            found[place] = names
    assert found == {}


def test_literal_file_names_are_found():
    code = 'a = folder / "result.json"; b = home / "runs" / id; c = {"runs": 1}; d = "a text on result.json"'
    assert literals(ast.parse(code)) == {files.RESULT, files.RUNS}
