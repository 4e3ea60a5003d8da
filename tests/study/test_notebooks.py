"""Studies of parts that are defined in a notebook or in a script: trained in processes, loaded afterwards by others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.runs import SMALL, results, without_checksums
from helpers.terminal import h2h

IMPORTS = "from headtohead import Arm, Files, Pattern, Study, knob"
CONSTANT = "WINDOW = 4"
HELPER = "def near(i, j, by):\n    return abs(i - j) < WINDOW * by"
PART = '''
class Near(Pattern):
    """Keys that are near enough, none of the future."""

    equation = "allowed(i, j) = j <= i < j + 4·by"
    reference = "a notebook"

    by: int = knob(default=1, ge=1, help="how many windows")

    def allowed(self, i, j):
        return (j <= i) & near(i, j, self.by)
'''
STUDY = f"""
control = Arm.of("lm", Files(path="mine.txt")).settings({[*SMALL, "train.steps=6", "evaluate.every=3"]})
study = Study(
    question="Is it enough to look near?",
    control=control,
    vary={{"model.pattern": [Near(by=2)]}},
    seeds=2,
    name="near",
    again=False,
)
"""
RUN = "outcome = study.run(jobs=2, progress=False)"


def trained(home: Path) -> dict[str, Path]:
    """The runs of the study by arm and seed, all of them complete; those of the new part have its code."""
    from headtohead.outcome.outcome import load_outcome

    rows = load_outcome(home / "studies" / "near").all_rows
    assert [(row.arm, row.status, row.why) for row in rows] == [
        (arm, "complete", "") for arm in ("Causal", "Near(by=2)") for _ in range(2)
    ]
    found = {f"{row.arm}@{row.seed}": home / "runs" / row.run for row in rows}
    for name, folder in found.items():
        assert len(list(folder.glob("code/*.py"))) == (0 if name.startswith("Causal") else 1)
    return found


def loads(run: str) -> None:
    """In a process that has neither the session nor the script."""
    done = h2h("score", run, "we the people", "--json")
    assert done.code == 0, done.err
    assert done.json["perplexity"] > 1


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install nbclient ipykernel")
    import nbformat

    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))

    def execute(*cells: str) -> list[Any]:
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return [cell.outputs for cell in book.cells]

    return execute


@pytest.mark.filterwarnings("ignore")  # the kernel's sockets are closed when the process ends
@pytest.mark.usefixtures("text")
def test_a_notebook_trains_its_own_part_in_two_workers(jupyter: Any, home: Path, tmp_path: Path):
    shown = jupyter(IMPORTS, CONSTANT, HELPER, PART, STUDY, RUN, "outcome.verdicts")
    page = shown[-1][0]["data"]["text/html"]
    assert "h2h-verdicts" in page
    assert "Near(by=2)" in page
    runs, away = trained(home), tmp_path / "away"  # the folder of one run is enough
    (home / "runs").rename(away)
    (home / "runs").mkdir()
    one = runs["Near(by=2)@1"]
    (away / one.name).rename(one)
    loads(one.name)
    assert [row["differs"]["model.pattern"] for row in h2h("list", "runs", "--json").json] == ["Near(by=2)"]


# no guard around what trains; a mark for every time that the script is executed
SCRIPT = "\n".join([IMPORTS, "open('executed', 'a').write('x')", CONSTANT, HELPER, PART, STUDY, RUN])


def python(home: Path, *arguments: str, **options: Any) -> None:
    environment = {**os.environ, "HEADTOHEAD_HOME": str(home)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, **options)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("text")
def test_a_script_without_a_guard_trains_its_own_part(home: Path, tmp_path: Path):
    script, piped = Path("script.py"), tmp_path / "piped"
    script.write_text(SCRIPT)
    python(home, str(script))
    with script.open() as stream:
        python(piped, "-", stdin=stream)
    runs, same = trained(home), trained(piped)
    for name, folder in runs.items():
        one, other = results(without_checksums(folder)), results(without_checksums(same[name]))  # of their code
        assert {k: v for k, v in one.items() if k != "run.json"} == {k: v for k, v in other.items() if k != "run.json"}
    loads(runs["Near(by=2)@0"].name)
    assert Path("executed").read_text() == "xx", "neither workers nor later commands execute the script"
    script.write_text(SCRIPT.replace("WINDOW = 4", "WINDOW = 5"))
    loads(runs["Near(by=2)@1"].name)


@pytest.mark.slow
@pytest.mark.usefixtures("text")
def test_ray_nodes_without_script_and_store_train_it(home: Path, tmp_path: Path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'headtohead[ray]'")
    elsewhere = """
import contextlib
from headtohead.run.executors import ray
ray._marker = lambda where: contextlib.nullcontext(where / ".not-there")  # as on a machine without this folder
"""
    script = tmp_path / "script.py"
    script.write_text(elsewhere + SCRIPT.replace("jobs=2", "jobs=2, on='ray'"))
    with script.open() as stream:
        python(home, "-", stdin=stream)
    loads(trained(home)["Near(by=2)@0"].name)
    assert Path("executed").read_text() == "x"


@pytest.mark.usefixtures("text")
def test_a_part_without_source_is_refused_before_training(home: Path):
    done = subprocess.run([sys.executable, "-"], input=SCRIPT, capture_output=True, text=True)  # a pipe
    assert done.returncode != 0
    last = done.stderr.strip().split("\n")[-1]
    assert "Near has no source" in last
    assert "write the class to a file, such as near.py, and import it from there" in last
    assert not list(home.glob("runs/*"))


TRAINS_AT_ITS_TOP = f"""
from headtohead import Arm, Files, NoPosition, Study
SETTINGS = {[*SMALL, "train.steps=4"]!r}
PART
study = Study(
    question="?",
    control=Arm.of("lm", Files(path="mine.txt")).settings(SETTINGS),
    vary={{"model.position": [VALUES]}},
    seeds=2,
    again=False,
    name="script",
)
for row in study.run(jobs=2).verdicts:
    print(row.arm, row.verdict.pairs, row.excluded)
"""


@pytest.mark.usefixtures("text")
def test_a_script_that_trains_at_module_level_runs():
    part = "class Mine(NoPosition): ..."
    Path("script.py").write_text(TRAINS_AT_ITS_TOP.replace("PART", part).replace("VALUES", "Mine(), 'Rope'"))
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Mine 2 ()", "Rope 2 ()"]
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("text")
def test_a_script_read_from_a_pipe_runs():
    script = TRAINS_AT_ITS_TOP.replace("PART", "").replace("VALUES", "'Rope'")
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["Rope 2 ()"], done.stderr
