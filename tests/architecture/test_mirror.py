"""tests/ mirrors src/headtohead/: the tests of src/headtohead/x/y.py are in tests/x/test_y.py.

Tests of a command from end to end are in tests/cli/, named by the command.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import headtohead
from headtohead.cli import app

TESTS = Path(__file__).parents[1]
SOURCE = Path(headtohead.__file__).parent
COMMANDS = set(get_command(app).commands)  # type: ignore[attr-defined]
LONGEST = 60  # characters of a test's name after test_

# folders that mirror no package
OTHERS = {
    "architecture",
    "benchmarks",
    "calibration",
    "conformance",
    "docs_site",
    "examples",
    "golden",
    "helpers",
    "tools",
}
OTHERS |= {"corrupt", "faults", "fuzz", "hostile", "storm"}  # damage, failing disks, bad input, hostile stores, kills
# folders of modules that are audited
AUDITED = {"auditor/planted", "auditor/correct", "auditor/large"}
# files whose tests follow a run through several source files
ACROSS = {
    "run/test_resume.py",  # session, store and executors: runs that were stopped, killed or damaged
    "run/test_same_bits.py",  # the same bits however a run was trained
    "search/test_killed.py",
    "study/test_killed.py",
    "study/test_notebooks.py",  # parts of notebooks and scripts: spec, executors and store
    "web/test_access.py",  # axe on all pages
    "web/test_firefox.py",
    "web/test_places.py",  # behind a proxy, in a notebook's frame
    "web/test_sharing_page.py",
    # pages in a real browser
    *(f"web/test_{page}_page.py" for page in ("audits", "board", "compose", "inside", "ledger", "puzzles")),
    *(f"web/test_{page}_page.py" for page in ("inside_inputs", "restart", "security", "study_training")),
    "web/test_leaving_pages.py",
    "web/test_security_advisories.py",  # every address of the server
    "web/test_security_requests.py",
}


def test_files_and_folders_mirror_the_source() -> None:
    assert list(misplaced(TESTS, SOURCE)) == []


def test_exceptions_exist() -> None:
    assert [name for name in (*ACROSS, *AUDITED, *OTHERS) if not (TESTS / name).exists()] == []


def test_names_of_tests_are_short() -> None:
    assert [name for file in TESTS.rglob("test_*.py") for name in names_in(file) if len(name) >= LONGEST] == []


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("model/test_cache.py", ""),
        ("model/test_model.py", ""),
        ("model/conftest.py", ""),
        ("test_errors.py", ""),
        ("cli/test_train.py", ""),
        ("golden/copying.py", ""),
        ("helpers/models.py", ""),
        ("models/test_cache.py", "models/ mirrors no package"),
        ("model/deep/test_cache.py", "model/deep/ mirrors no package"),
        ("model/test_cash.py", "model/test_cash.py: there is no model/cash.py"),
        ("test_cash.py", "test_cash.py: there is no cash.py"),
        ("cli/test_frobnicate.py", "cli/test_frobnicate.py: there is no cli/frobnicate.py and no command frobnicate"),
        ("model/small.py", "model/small.py: helpers are in tests/helpers/"),
        ("golden/small.py", "golden/small.py: helpers are in tests/helpers/"),
    ],
)
def test_a_misplaced_file_is_found(file: str, problem: str, tmp_path: Path) -> None:
    for name in ("tests", "source/model", "source/cli"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("errors.py", "model/cache.py", "cli/entry.py"):
        (tmp_path / "source" / name).touch()
    planted = tmp_path / "tests" / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.touch()
    assert list(misplaced(tmp_path / "tests", tmp_path / "source")) == [problem] * bool(problem)


def misplaced(tests: Path, source: Path) -> Iterator[str]:
    """What keeps `tests` from mirroring `source`, a line each."""
    for file in sorted(tests.rglob("*.py")):
        path = file.relative_to(tests)
        folder = path.parent
        if folder.as_posix() in AUDITED or path.as_posix() in ACROSS:
            continue
        if path.name == "small.py" and folder.name != "helpers":
            yield f"{path}: helpers are in tests/helpers/"
        elif path.parts[0] in OTHERS or path.name in ("__init__.py", "conftest.py"):
            continue
        elif not (source / folder).is_dir():
            yield f"{folder}/ mirrors no package"
        elif not path.name.startswith("test_"):
            yield f"{path}: helpers are in tests/helpers/"
        else:
            yield from _without_source(path, source)


def _without_source(path: Path, source: Path) -> Iterator[str]:
    folder, name = path.parent, path.stem.removeprefix("test_")
    is_command = folder.as_posix() == "cli" and name in COMMANDS
    if not ((source / folder / f"{name}.py").is_file() or folder.name == name or is_command):
        no_command = f" and no command {name}" if folder.as_posix() == "cli" else ""
        yield f"{path}: there is no {(folder / name).as_posix()}.py{no_command}"


def names_in(file: Path) -> Iterator[str]:
    """The names of a file's tests, without test_."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name.removeprefix("test_")
