"""The pages about Python: every public name is on one page, and programs and examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path

import pytest

import headtohead
from headtohead import families
from headtohead.spec import is_builtin
from helpers.corpora import write_text
from helpers.docs import ROOT, blocks
from helpers.stores import Shelf

FOLDER = ROOT / "docs" / "reference" / "api"
PAGES = sorted(FOLDER.glob("*.md"))
LISTED = re.compile(r"^<!-- api: (.+?) -->$", re.MULTILINE | re.DOTALL)
STUB = ast.parse(Path(headtohead.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
PUBLIC = [alias.name for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names]
WITH_EXAMPLES = [name for name in PUBLIC if ">>>" in (getattr(headtohead, name).__doc__ or "")]


def listed() -> list[str]:
    return [name for page in PAGES for found in LISTED.findall(page.read_text()) for name in found.split()]


def test_every_public_name_is_on_one_page() -> None:
    assert sorted(listed()) == sorted(PUBLIC)


def test_the_site_shows_every_name_with_its_description(site: Path) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in (site / "reference" / "api").glob("*.html"))
    for name in PUBLIC:
        assert f'id="headtohead.{name}"' in shown
    parts = [cls for members in families(None).values() for cls in members.values() if is_builtin(cls)]
    for part in parts:
        assert f'id="headtohead.{part.__name__}"' in shown
    assert "base of the angle" in shown or "wavelength" in shown  # the help of a knob
    assert "None: pairs are added until every arm is decided" in shown  # the comment of a field


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of_a_page_run(page: Path, home: Path, tmp_path: Path) -> None:  # noqa: ARG001
    write_text(tmp_path).rename(tmp_path / "my.txt")
    programs = [text for kind, text in blocks(page) if kind == "python"]
    assert programs
    for program in programs:
        exec(compile(program, str(page), "exec"), {"__name__": "program"})


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_a_docstring_run(name: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(shelf.home))
    known = {"h2h": headtohead, "run": headtohead.load(shelf.lm.id), "reviews": headtohead.load(shelf.classifier.id)}
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in finder.find(getattr(headtohead, name), name, globs=known):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_every_public_class_and_function_says_what_it_is() -> None:
    """In the source: a dataclass without a docstring gets its signature for one."""
    silent = []
    for name in PUBLIC:
        value = getattr(headtohead, name)
        tree = ast.parse(inspect.getsource(value))
        if not ast.get_docstring(tree.body[0]):  # type: ignore[arg-type]
            silent.append(name)
    assert silent == []
