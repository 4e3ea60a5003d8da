"""Read question, command, time and expected result of the studies in recipes from their source, without importing
torch. A file for which that is not possible is imported, if it is the package's own or approved by the user."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead.errors import InputError
from headtohead.spec.userfiles import RECIPES, load_found_file, read_source, recipe_names

TEXTS = ("question", "command", "takes", "expected")

Texts = dict[str, str]  # by field of Study


def recipe_rows() -> list[dict[str, Any]]:
    """One row per study of every recipe: its question, its command, its usual time."""
    rows = []
    for name, file in recipe_names().items():
        try:
            studies = studies_in_source(file)
            found = list(_imported(file) if studies is None else studies.values())
        except InputError as error:
            found = [{**dict.fromkeys(TEXTS, ""), "question": str(error)}]
        rows += [{"recipe": name, **texts} for texts in found]
    return rows


def _imported(file: Path) -> list[Texts]:
    from headtohead.study.study import Study

    studies = [value for value in vars(load_found_file(file)).values() if isinstance(value, Study)]
    return [{name: getattr(study, name) for name in TEXTS} for study in studies]


# -- reading the source ------------------------------------------------------------------------------------------------

KNOWN = sys.stdlib_module_names | {"headtohead", "numpy", "torch"}  # packages whose functions return no study
BEFORE_TEXTS = 11  # fields of a Study up to `command`; only the first of them, the question, is a text


def studies_in_source(file: Path) -> dict[str, Texts] | None:
    """The texts of a recipe's studies, by variable name; None if they are known only after running it."""
    names = _Names(file.parent)
    try:
        for statement in _parsed(read_source(file)):
            names.read(statement)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _Unclear):
        return None
    return {name: texts for name, texts in names.values.items() if texts is not None}


@lru_cache(maxsize=64)
def _parsed(source: bytes) -> list[ast.stmt]:
    """One file may be imported by many recipes."""
    return ast.parse(source).body


class _Unclear(Exception):  # noqa: N818
    """The source does not show whether a name stands for a study, or what its texts are."""


class _Names:
    """The top-level names of a file, in order. `values` has the texts of studies, and None for everything else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, Texts | None] = {}
        self.own: set[str] = set()  # functions of the file, and classes derived from Study: calls may return a study
        self.study = self.replace = ""  # the names of headtohead's Study and dataclasses' replace in this file

    def read(self, statement: ast.stmt) -> None:
        if any(isinstance(n, ast.NamedExpr) or (isinstance(n, ast.Name) and n.id in HIDDEN) for n in _top(statement)):
            raise _Unclear
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module = statement.module or "." if isinstance(statement, ast.ImportFrom) else ""
            for alias in statement.names:
                self._import(module, alias.name, alias.asname or alias.name.partition(".")[0])
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.values[statement.name] = None
            if not isinstance(statement, ast.ClassDef) or self.study in map(ast.unparse, statement.bases):
                self.own.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                if statement.value is not None:
                    self._assign(target, statement.value)
        elif not isinstance(statement, ast.Expr | ast.AugAssign | ast.Pass | ast.Assert) and not _is_guard(statement):
            raise _Unclear  # a loop or a condition may bind names

    def _import(self, module: str, name: str, known_as: str) -> None:
        package = (module or name).partition(".")[0]
        beside = self.folder / f"{package}.py"
        shipped = RECIPES.joinpath(*module.split(".")[2:]).with_suffix(".py")
        if beside.is_file() or module.startswith("headtohead.recipes."):
            studies = studies_in_source(beside if beside.is_file() else shipped)
            if studies is None or not module or name == "*":
                raise _Unclear
            self.values[known_as] = studies.get(name)
            return
        if package not in KNOWN or name == "*":
            raise _Unclear
        self.values[known_as] = None
        if (package, name) == ("headtohead", "Study"):
            self.study = known_as
        elif (module, name) == ("dataclasses", "replace"):
            self.replace = known_as
        elif (module, name) == ("", "dataclasses"):
            self.replace = f"{known_as}.replace"

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        texts = self._texts(value)
        if isinstance(target, ast.Name):
            self.values[target.id] = texts
        elif texts is not None or self._names_a_study(value):
            raise _Unclear
        else:
            self.values |= {n.id: None for n in ast.walk(target) if isinstance(n, ast.Name)}

    def _texts(self, value: ast.expr) -> Texts | None:
        """The texts of the study that an expression returns; None if it returns something else."""
        if isinstance(value, ast.Name):
            return self.values.get(value.id)
        if isinstance(value, ast.Call):
            return self._returned(value)
        if isinstance(value, ast.IfExp | ast.Subscript | ast.BoolOp) and self._names_a_study(value):
            raise _Unclear
        return None  # a number, a text, a field of a study, a list: a study in a list does not count

    def _returned(self, call: ast.Call) -> Texts | None:
        called = ast.unparse(call.func)
        if called == self.study:
            return dict.fromkeys(TEXTS, "") | _given(call, BEFORE_TEXTS)
        if called == self.replace:
            base = self._texts(call.args[0]) if call.args else None
            return None if base is None else base | _given(call, 1, of="")
        root: ast.expr = call
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        name = root.id if isinstance(root, ast.Name) else ""
        imported = name in self.values and self.values[name] is None  # a builtin may return what it is given
        if name in self.own or (not imported and self._names_a_study(call)):
            raise _Unclear
        return None

    def _names_a_study(self, value: ast.expr) -> bool:
        """Whether an expression may return a study. Fields of a study are not studies; its methods may return one."""
        methods = {n.func for n in ast.walk(value) if isinstance(n, ast.Call)}
        fields = {n.value for n in ast.walk(value) if isinstance(n, ast.Attribute) and n not in methods}
        names = (n for n in ast.walk(value) if isinstance(n, ast.Name) and n not in fields)
        return any(self.values.get(n.id) is not None for n in names)


HIDDEN = ("globals", "vars", "setattr", "exec", "eval")  # they bind names that the syntax does not show


def _top(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that run when the file is imported: bodies of functions do not."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from ast.walk(statement)


def _is_guard(statement: ast.stmt) -> bool:
    """`if __name__ == "__main__":` and `if TYPE_CHECKING:`, which do nothing when a recipe is imported."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    test = ast.unparse(statement.test)
    return test.startswith("__name__ == ") or test.rpartition(".")[2] == "TYPE_CHECKING"


def _given(call: ast.Call, most: int, of: str = "question") -> Texts:
    """The texts among the arguments of Study or replace; `of` is the field of the first position."""
    if (
        len(call.args) > most
        or any(isinstance(a, ast.Starred) for a in call.args)
        or any(keyword.arg is None for keyword in call.keywords)
    ):
        raise _Unclear
    given = {k.arg: k.value for k in call.keywords if k.arg in TEXTS}
    if of and call.args:
        given[of] = call.args[0]
    found: Texts = {}
    for name, value in given.items():
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            raise _Unclear
        found[str(name)] = value.value
    return found
