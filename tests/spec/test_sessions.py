"""Classes that are defined in IPython cells, at a prompt, with `python -c` and through standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import InputError
from headtohead.spec import Spec
from helpers.registry import forgotten

pytest.importorskip("IPython", reason="IPython is not installed: pip install ipykernel")

# executes the cells of every session with IPython, and prints what the last expression of each cell gave or raised
RUNNER = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

said = {}
for name, cells in json.load(sys.stdin).items():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    shell.showtraceback = shell.showsyntaxerror = lambda *_, **__: None
    done = [shell.run_cell(cell, store_history=True, silent=False) for cell in cells]
    said[name] = [f"{type(d.error_in_exec).__name__}: {d.error_in_exec}" if d.error_in_exec else d.result for d in done]
print("SAID" + json.dumps(said, default=repr))
"""

IMPORTS = """
from headtohead.spec import Spec, code_of, knob  # without torch, which takes seconds

def sent(part):
    return part.id, part.to_json(), {name: text.decode() for name, text in code_of(part).items()}
"""
NEAR = '''
class Near(Spec):
    """Near ones."""
    by: int = knob(default=1, ge=1, help="how near")

    def allowed(self, i, j):
        return helper(i, j) & (j <= i)
'''
HELPER = "def helper(i, j):\n    return abs(i - j) < SCALE"
SESSION = [IMPORTS, "SCALE = 2", HELPER, NEAR]

SESSIONS = {
    "plain": [*SESSION, "sent(Near(by=3))"],
    "magics": [
        IMPORTS,
        "%%time\nSCALE = 2",
        f"%pwd\n!true\n{HELPER}",
        "a b c",
        "%%capture\n" + NEAR,
        "x = %pwd",
        "sent(Near(by=3))",
    ],
    "executed again": [*SESSION, "one = Near(by=3)", *SESSION, "sent(one)", "sent(Near(by=3))"],
    "a constant changed": [*SESSION, "one = Near(by=3)", "one.id", "SCALE = 3", "sent(one)", "SCALE = 2", "one.id"],
    "the class changed": [*SESSION, "one = Near(by=3)", NEAR.replace("<=", ">="), "sent(one)", "sent(Near(by=3))"],
    "a cell that failed": [*SESSION, "1 / 0\nSCALE = 3", "sent(Near())", "SCALE = 3", "sent(Near(by=3))"],
    "a function not defined": [*SESSION, f"1 / 0\n{HELPER.replace('<', '<=')}", "sent(Near())"],
    "exec": [*SESSION[:3], f"exec({NEAR!r})", "sent(Near())"],
    "exec of another": [*SESSION, f"exec({NEAR.replace('<=', '>=')!r})", "sent(Near())"],
    "a name from nowhere": [*SESSION[:1], *SESSION[2:], "globals().update(SCALE=2)", "sent(Near())"],
    "a name of IPython": [*SESSION[:2], "def helper(i, j):\n    return display(i)", NEAR, "sent(Near())"],
    "made by a function": [
        *SESSION[:3],
        "def make(Base):\n" + "\n".join(f"    {line}" for line in NEAR.split("\n")) + "\n    return Near",
        "Near = make(Spec)",
        "sent(Near(by=3))",
    ],
    "inside a function": [
        *SESSION[:3],
        "def make(Base):\n" + "\n".join(f"    {line}" for line in NEAR.split("\n")) + "\n    return Near",
        "sent(make(Spec)())",
    ],
    "inside another": [
        *SESSION,
        "class Both(Spec):\n    a: Near = knob(default=Near(), help='')\n    b: Near = knob(default=Near(), help='')",
        "sent(Both(a=Near(by=3), b=Near(by=2)))",
    ],
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("ipython")
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(SESSIONS),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "IPYTHONDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("SAID")[2])


def loaded(given: list[Any]) -> Any:
    """What a process that knows nothing of the session makes of it, and that it is the same."""
    id, data, code = given
    with forgotten():
        part = Spec.from_json(data, {name: text.encode() for name, text in code.items()})
        assert part.id == id
        assert part.to_json() == data
        return part


def test_a_class_of_cells_has_the_same_id_elsewhere(said: dict[str, list[Any]]):
    part = loaded(said["plain"][-1])
    assert part.by == 3
    assert [part.allowed(4, j) for j in range(6)] == [False, False, False, True, True, False]
    assert said["plain"][-1][1]["file"] is None


def test_a_class_is_stored_with_the_classes_of_its_fields(said: dict[str, list[Any]]):
    both = loaded(said["inside another"][-1])
    assert (both.a.by, both.b.by) == (3, 2)
    assert type(both.a) is type(both.b)
    assert len(said["inside another"][-1][2]) == 2


@pytest.mark.parametrize("session", ["magics", "made by a function"])
def test_other_ways_to_define_a_class_work(session: str, said: dict[str, list[Any]]):
    assert loaded(said[session][-1]).allowed(4, 3)


def test_rerunning_unchanged_cells_keeps_the_id(said: dict[str, list[Any]]):
    first = said["plain"][-1][0]
    assert [given[0] for given in said["executed again"][-2:]] == [first, first]
    assert said["magics"][-1][0] == first


def test_a_changed_constant_changes_the_id_of_existing_parts(said: dict[str, list[Any]]):
    """The class was not defined again, and computes something else now."""
    before, _, changed, _, back = said["a constant changed"][-5:]
    assert before == said["plain"][-1][0] == back
    assert changed[0] != before
    assert loaded(changed).allowed(4, 2)


def test_a_part_of_the_old_class_keeps_its_class(said: dict[str, list[Any]]):
    old, new = said["the class changed"][-2:]
    assert old[0] == said["plain"][-1][0] != new[0]
    assert loaded(old).allowed(4, 3)
    assert not loaded(new).allowed(4, 3)


REFUSED = {
    "exec": "Near has no source",
    "exec of another": "Near has no source",
    "inside a function": "Near has no source",
    "a name from nowhere": "Near uses SCALE, which the code of this session does not define",
    "a name of IPython": "Near uses display",
}


@pytest.mark.parametrize("session", REFUSED)
def test_a_class_without_source_is_refused_in_one_line(session: str, said: dict[str, list[Any]]):
    answer = said[session][-1]
    assert answer.startswith(f"InputError: {REFUSED[session]}")
    assert answer.endswith("write the class to a file, such as near.py, and import it from there")
    assert "\n" not in answer


def test_a_value_changed_outside_its_cell_is_refused(said: dict[str, list[Any]]):
    refused, _, right = said["a cell that failed"][-3:]
    assert refused.startswith("InputError: Near uses SCALE, whose value now is not the one that the code gives it last")
    assert loaded(right).allowed(4, 2)
    assert "Near uses helper, whose value now" in said["a function not defined"][-1]


# -- without IPython ---------------------------------------------------------------------------------------------------

SCRIPT = "\n".join([*SESSION, "import json", "print(json.dumps(sent(Near(by=3))))"])


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


@pytest.mark.parametrize("way", ["standard input", "-c", "a file"])
def test_a_class_of_a_script_has_the_same_id_elsewhere(way: str, said: dict[str, list[Any]], tmp_path: Path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    if way == "standard input":
        with file.open() as stream:
            done = python("-", stdin=stream)
    else:
        done = python("-c", SCRIPT) if way == "-c" else python(str(file))
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stdout)
    file.unlink()
    assert loaded(given).allowed(4, 3)
    assert given[0] == said["plain"][-1][0]


CONSOLE = f"import code\ncode.InteractiveConsole(globals()).runsource({SCRIPT!r}, '<console>', 'exec')"


@pytest.mark.parametrize("way", ["a pipe", "a console"])
def test_code_without_kept_source_is_refused(way: str):
    done = python("-", input=SCRIPT if way == "a pipe" else CONSOLE)
    assert "InputError: Near has no source, because Python keeps neither what is typed" in done.stderr
    assert "write the class to a file, such as near.py" in done.stderr.strip().split("\n")[-1]


def test_a_changed_copy_is_refused(said: dict[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    _, data, code = said["plain"][-1]
    (name,) = code
    (tmp_path / name).write_text(code[name].replace("SCALE = 2", "SCALE = 2\nopen('ran', 'w')"))
    with forgotten(), pytest.raises(InputError, match="is not the code that was stored") as error:
        Spec.from_json(data, tmp_path)
    assert name in str(error.value)
    assert not Path("ran").exists()
    with forgotten(), pytest.raises(InputError, match="there is no copy of its code"):
        Spec.from_json(data)
