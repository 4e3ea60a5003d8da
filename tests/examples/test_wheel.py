"""The wheel and the sdist, installed into new environments and used in an empty folder, without the checkout.

An environment has the packages that the wheel's metadata names, as links to those of this environment, and no other.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import release
from helpers.environments import environment, needed

pytestmark = pytest.mark.slow  # minutes; .ci/run runs it

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "install.md"
EXTRAS = ("hf", "tune", "parquet", "ray", "track", "web", "notebook", "optim")
SMALL = ["--set", "train.steps=8", "--set", "model.width=16", "--set", "model.layers=1"]


def tracked(folder: str = ".") -> list[str]:
    """Files under version control, and new ones that are not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [name for name in map(os.fsdecode, listed.split(b"\0")) if name and (ROOT / name).is_file()]


class Built(NamedTuple):
    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of the checkout, and the wheel that is built from it."""
    pytest.importorskip("build", reason="build is not installed: pip install build twine")
    folder = tmp_path_factory.mktemp("build")
    for name in tracked():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    return Built(*release.build(folder / "source", folder / "dist", 1_700_000_000))


def requirements(wheel: Path, *extras: str) -> list[str]:
    """What the metadata of the wheel asks for, with these extras."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        lines = message_from_bytes(files.read(name)).get_all("Requires-Dist") or []
    wanted = [line for line in lines if "extra ==" not in line]
    return wanted + [line.partition(";")[0] for line in lines for extra in extras if f'extra == "{extra}"' in line]


@pytest.fixture(scope="module")
def core(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with `headtohead`."""
    return environment(tmp_path_factory.mktemp("core") / "env", needed(requirements(built.wheel)).values(), built.wheel)


@pytest.fixture(scope="module")
def extras(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with `headtohead[all]`."""
    packages = needed(requirements(built.wheel, *EXTRAS)).values()
    return environment(tmp_path_factory.mktemp("extras") / "env", packages, built.wheel)


# -- what is in the files ----------------------------------------------------------------------------------------------


def test_wheel_has_the_files_of_the_sources(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as files:
        inside = {name for name in files.namelist() if not name.endswith("/")}
        (licence,) = (name for name in inside if name.endswith("/licenses/LICENSE"))
        assert files.read(licence) == (ROOT / "LICENSE").read_bytes()
        (entry,) = (name for name in inside if name.endswith("/entry_points.txt"))
        assert "h2h = headtohead.cli:main" in files.read(entry).decode()
    packaged = {name for name in inside if ".dist-info/" not in name}
    assert packaged == {name.removeprefix("src/") for name in tracked("src")}


def test_sdist_has_the_files_of_the_checkout(built: Built) -> None:
    with tarfile.open(built.sdist) as files:
        inside = {name.partition("/")[2] for name in files.getnames() if not files.getmember(name).isdir()}
    made = {"PKG-INFO", "setup.cfg"}
    assert {name for name in inside if ".egg-info/" not in name} - made == set(tracked()) - {".ci/run", ".gitignore"}


def test_metadata_passes_twine(built: Built) -> None:
    pytest.importorskip("twine", reason="twine is not installed: pip install build twine")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built], check=True)


def test_the_extra_all_has_every_extra_for_users(built: Built) -> None:
    (line,) = [line for line in requirements(built.wheel, "all") if line.startswith("headtohead[")]
    assert sorted(line.partition("[")[2].rstrip("] ").split(",")) == sorted(EXTRAS)


# -- which commands work -----------------------------------------------------------------------------------------------

Type = Callable[..., str]


def typing(programs: Path, folder: Path) -> Type:
    """A function that runs a command of an environment in a folder and returns its output."""
    hidden = {"PYTHONPATH", "HEADTOHEAD_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"HEADTOHEAD_CACHE": str(folder.parent / "cache"), "COLUMNS": "80"}
    environment |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [programs / "h2h", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code in (0, 1) else done.stderr

    run.environment = environment  # type: ignore[attr-defined]
    run.folder = folder  # type: ignore[attr-defined]
    return run


@pytest.fixture(scope="module")
def h2h(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Type:
    return typing(core, tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def h2h_all(extras: Path, tmp_path_factory: pytest.TempPathFactory) -> Type:
    return typing(extras, tmp_path_factory.mktemp("empty-too"))


def commands() -> list[tuple[str, str]]:
    """The commands of the table in the reference, each with the extra that it needs, or none."""
    rows = re.findall(r"^\| `(h2h [^`]+)` \| (works|needs `(\w+)`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(command, extra) for command, _, extra in rows]


def files_for(folder: Path, extra: bool) -> None:
    """The reader's own files that the commands of the table name."""
    rows = [f'"{word} film number {n}",{label}' for n in range(30) for word, label in (("good", "pos"), ("bad", "neg"))]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *rows, ""]))
    (folder / "speech.txt").write_text("The people of our union will not tire, we will not falter.\n" * 400)
    (folder / "results.csv").write_text("method,seed,loss\n" + "".join(f"a,{n},2.{n}\nb,{n},1.{n}\n" for n in range(8)))
    if extra:
        import pandas as pd

        pd.read_csv(folder / "reviews.csv").to_parquet(folder / "reviews.parquet")
    else:
        (folder / "reviews.parquet").write_bytes(b"PAR1")


DRIVER = """
import contextlib, io, json, sys
from headtohead.cli import main

def run(words):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = words
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return ended.code or 0, out.getvalue(), err.getvalue()

if __name__ == "__main__":
    print("\\n" + json.dumps([run(words) for words in json.load(open(sys.argv[1]))]))
"""


def results(run: Any, programs: Path, rows: list[tuple[str, str]]) -> dict[str, tuple[int, str, str]]:
    """Exit code, output and errors of each command. One process runs them all, which saves most of the time."""
    typed = []
    for command, _ in rows:
        words = shlex.split(command)
        trains = words[1] in ("train", "run", "search", "plan")
        typed.append([*words, *(SMALL if trains else []), *(["--set", "evaluate.windows=8"] if trains else [])])
    (run.folder / "driver.py").write_text(DRIVER)
    (run.folder / "typed.json").write_text(json.dumps(typed))
    call = [programs / "python", "driver.py", "typed.json"]
    done = subprocess.run(call, cwd=run.folder, env=run.environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {command: tuple(result) for (command, _), result in zip(rows, found, strict=True)}


def test_without_extras_commands_work_or_name_the_extra(core: Path, tmp_path: Path) -> None:
    run = typing(core, tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    files_for(tmp_path / "empty", extra=False)
    found = results(run, core, commands())
    for command, extra in commands():
        code, _out, err = found[command]
        if not extra:
            assert code == 0, (command, err)
        else:
            assert code == 3, (command, err)
            line = err.splitlines()[-1]  # training on Ray says first how many runs there are
            assert line.partition(f" needs the extra {extra}: pip install 'headtohead[{extra}]'")[1], (command, line)


def test_with_extras_all_commands_work(extras: Path, tmp_path: Path) -> None:
    run = typing(extras, tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    files_for(tmp_path / "empty", extra=True)
    rows = [row for row in commands() if row[0] != "h2h serve"]
    for command, (code, _out, err) in results(run, extras, rows).items():
        assert code == 0, (command, err)


def test_every_command_is_in_the_table() -> None:
    from headtohead.cli import COMMANDS

    listed = {command.split()[1] for command, _ in commands()}
    assert set(COMMANDS) - {"demo", "finetune"} <= listed  # the demo has a test below; the other one needs a download


def test_serve_answers_with_its_extra(extras: Path, h2h_all: Any) -> None:
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([extras / "h2h", "serve"], cwd=h2h_all.folder, env=h2h_all.environment, **output) as server:
        try:
            assert any("http://127.0.0.1" in line for line in server.stdout or ())
        finally:
            server.kill()


# -- the core alone, command by command --------------------------------------------------------------------------------


def test_the_package_comes_from_the_wheel(core: Path, h2h: Any) -> None:
    code = "import headtohead, sys; print(headtohead.__file__)"
    call = [core / "python", "-c", code]
    done = subprocess.run(call, cwd=h2h.folder, env=h2h.environment, capture_output=True, text=True, check=True)
    assert str(core.parent) in done.stdout


@pytest.mark.parametrize("what", ["parts", "settings", "corpora", "recipes", "runs", "studies", "parameters"])
def test_list_works_when_installed(h2h: Type, what: str) -> None:
    assert h2h("list", what)


def test_train_and_report_work_when_installed(h2h: Any) -> None:
    assert "perplexity" in h2h("train", "lm", *SMALL, "--set", "evaluate.windows=8")
    assert "RMSNorm" in h2h("run", "lm", "--vary", "model.norm=LayerNorm,RMSNorm", "--seeds", "2", *SMALL)
    assert len(json.loads(h2h("list", "runs", "--json"))) >= 5
    page = Path(h2h("report", "latest", "--again").split("report: ")[1].strip())
    assert (h2h.folder / page).read_text().count("RMSNorm") > 3


def test_audit_and_puzzles_work_when_installed(h2h: Type) -> None:
    assert "proved" in h2h("audit", "Rope")
    assert h2h("puzzles", "solve", "1")
    assert "broken" in h2h("audit", "Reweight(over=sequence)", code=1)


def test_stored_claims_are_shown_when_installed(h2h: Type) -> None:
    assert "16 claims" in h2h("reproduce", "--stored")


def test_published_results_are_retrained_when_installed(h2h: Type) -> None:
    if not os.environ.get("HEADTOHEAD_DATA"):
        pytest.skip("HEADTOHEAD_DATA names no folder with the speeches")
    assert "000: " in h2h("reproduce", "--quick", "000")


def test_the_demo_trains_when_installed(h2h: Any, core: Path) -> None:
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([core / "h2h", "demo"], cwd=h2h.folder, env=h2h.environment, **output) as demo:
        try:
            for line in demo.stdout or ():
                if "seed 0: test/loss" in line:  # the first run is complete
                    break
            demo.send_signal(signal.SIGINT)
            out = demo.communicate(timeout=120)[0]
        finally:
            demo.kill()
    assert demo.returncode == 130, out
    assert "Type the same command again to continue" in out
    states = [row["state"] for row in json.loads(h2h("list", "runs", "--study", "demo", "--json"))]
    assert "complete" in states
