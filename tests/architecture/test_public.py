"""What can be imported, what importing costs, and what must not be in the repository."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import headtohead
from headtohead import Part, families
from headtohead.spec import is_builtin

ROOT = Path(__file__).parents[2]

STUB = Path(headtohead.__file__).with_suffix(".pyi")


def homes() -> list[tuple[str, str]]:
    """Every public name with the module that `__init__.pyi` imports it from."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return [
        (alias.name, node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]


def built_in() -> set[str]:
    """Parts, and the classes that their families are named by."""
    parts = {cls for members in families(None).values() for cls in members.values() if is_builtin(cls)}
    bases = {base for cls in parts for base in cls.__mro__ if issubclass(base, Part) and base is not Part}
    return {cls.__name__ for cls in bases}


def test_every_public_name_has_one_home():
    names = [name for name, _ in homes()]
    assert sorted(names) == sorted(set(names))
    assert set(headtohead.__all__) == {"__version__", *names}
    assert set(names) <= set(dir(headtohead))


@pytest.mark.parametrize(("name", "home"), homes())
def test_a_public_name_is_defined_in_its_home(name, home):
    value = getattr(headtohead, name)
    assert not isinstance(value, ModuleType)
    assert value is getattr(importlib.import_module(home), name)
    assert value.__name__ == name
    assert value.__module__ == home
    assert value.__doc__, f"{name} has no docstring"


def test_no_public_name_is_a_module_in_a_fresh_process():
    """Importing every module must not put a module in the place of a function of the same name."""
    names = [name for name, _ in homes()]
    code = (
        "import importlib, pkgutil, sys, types, headtohead\n"
        "for m in pkgutil.walk_packages(headtohead.__path__, 'headtohead.'):\n"
        "    if 'modeling' not in m.name and '.recipes' not in m.name: importlib.import_module(m.name)\n"
        f"print([n for n in {names!r} if isinstance(getattr(headtohead, n), types.ModuleType)])"
    )
    assert python(code) == "[]\n"


def test_every_part_is_public():
    for name in built_in():
        assert getattr(headtohead, name).__name__ == name


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Ropes'"):
        headtohead.Ropes  # noqa: B018
    assert not hasattr(headtohead, "_SPECS")


def python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import headtohead",
        "import headtohead.cli",
        "from headtohead import InputError, Spec, parse, load_file",
        "import headtohead.run.doctor; headtohead.run.doctor.examine()",
    ],
)
def test_importing_headtohead_loads_no_heavy_module(statement):
    loaded = json.loads(python(f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"))
    assert "headtohead" in loaded
    heavy = {"torch", "rich", "numpy", "scipy", "transformers", "matplotlib", "pandas"}
    assert not heavy & {name.partition(".")[0] for name in loaded}


def test_help_answers_in_half_a_second_of_cpu_time():
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = python("import sys\nfrom headtohead.cli import main\nsys.argv = ['h2h', '--help']\nmain()")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "audit" in out
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


# -- the repository ---------------------------------------------------------------------------------------------------


def tracked() -> list[Path]:
    """Files under version control, and new ones that are not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    files = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    return [f for f in files if f.is_file()]


def lines(pattern: str, suffixes: tuple[str, ...] | None = None) -> list[str]:
    found = []
    for file in tracked():
        data = file.read_bytes()
        if b"\0" in data[:4096] or (suffixes and not file.name.endswith(suffixes)):
            continue
        for n, line in enumerate(data.decode("utf-8").splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{file.relative_to(ROOT)}:{n}: {line.strip()[:120]}")
    return found


MACHINE_PATH = r"(?<![\w.~}])/(?:home|Users|root|work|mnt|srv|scratch|data|workspace)/\w|\b[A-Z]:\\Users\\"
PRIVATE_HOST = r"//(?:[\w-]+\.)*(?:internal|local|lan|corp|intranet|localdomain|svc|cluster)\b|//\d+\.\d+\.\d+\.\d+"
REGISTRY = r"index-url|extra-index|find-links|trusted-host|artifactory|nexus|devpi|_INDEX_URL"


def test_no_path_of_a_machine_is_committed():
    assert lines(MACHINE_PATH) == []


def test_no_private_host_is_committed():
    assert [line for line in lines(PRIVATE_HOST) if not re.search(r"//127\.0\.0\.1|//0\.0\.0\.0", line)] == []
    assert lines(REGISTRY, ("run", ".toml", ".txt", ".cfg", ".yml", ".yaml", ".sh", ".ini")) == []


def test_the_search_patterns_find_planted_paths_and_hosts():
    assert re.search(MACHINE_PATH, "see " + "/".join(["", "home", "anna", "x.py"]))
    assert re.search(MACHINE_PATH, "'" + "/".join(["", "Users", "anna"]) + "'")
    assert not re.search(MACHINE_PATH, "https://example.org/data/x and ../shared/data/x")
    assert re.search(PRIVATE_HOST, "https:" + "/" + "/pypi.corp/simple")
    assert re.search(PRIVATE_HOST, "http:" + "/" + "/10.0.0.7:8080/simple")
    assert not re.search(PRIVATE_HOST, "https://github.com/x")
