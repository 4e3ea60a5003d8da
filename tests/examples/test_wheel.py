"""The wheel, installed into a new environment and used in an empty folder, without the checkout.

The environment sees the dependencies of this one. Packages of the extras are hidden, so the core must do without them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # three minutes; .ci/run runs it

ROOT = Path(__file__).parents[2]
EXTRAS = [
    "accelerate",
    "datasets",
    "optuna",
    "peft",
    "pyarrow",
    "ray",
    "tensorboard",
    "trackio",
    "transformers",
    "wandb",
]
HIDE = f"""
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    source = folder / "source"  # setuptools writes into the source folder
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([*build, str(source)], check=True)
    (wheel,) = folder.glob("headtohead-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    programs = folder / "env" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    (packages / "hide_extras.py").write_text(HIDE)
    # a path in a .pth file is not searched for further .pth files: the editable installation stays out of sight
    (packages / "dependencies.pth").write_text(f"import hide_extras\n{sysconfig.get_path('purelib')}\n")
    return programs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture
def h2h(installed, folder, tmp_path_factory):
    """Run a command in the empty folder and return its output."""
    cache = tmp_path_factory.getbasetemp() / "wheel-cache"
    hidden = {"PYTHONPATH", "HEADTOHEAD_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"HEADTOHEAD_CACHE": str(cache), "COLUMNS": "80"}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [installed / "h2h", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    run.environment = environment  # type: ignore[attr-defined]
    return run


def test_the_package_comes_from_the_wheel(installed, folder):
    code = "import headtohead, sys; print(headtohead.__file__)"
    done = subprocess.run([installed / "python", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert str(installed.parent) in done.stdout


@pytest.mark.parametrize("what", ["parts", "settings", "corpora", "recipes", "runs", "studies", "parameters"])
def test_list_works_when_installed(h2h, what):
    assert h2h("list", what)


def test_train_and_report_work_when_installed(h2h, folder):
    small = ["--set", "train.steps=8", "--set", "model.width=16", "--set", "model.layers=1"]
    assert "perplexity" in h2h("train", "lm", *small, "--set", "evaluate.windows=8")
    assert "RMSNorm" in h2h("run", "lm", "--vary", "model.norm=LayerNorm,RMSNorm", "--seeds", "2", *small)
    assert len(json.loads(h2h("list", "runs", "--json"))) >= 5
    page = Path(h2h("report", "latest", "--again").split("report: ")[1].strip())
    assert (folder / page).read_text().count("RMSNorm") > 3


def test_audit_and_puzzles_work_when_installed(h2h):
    assert "proved" in h2h("audit", "Rope")
    assert h2h("puzzles", "solve", "1")
    assert "broken" in h2h("audit", "Reweight(over=sequence)", code=1)


def test_stored_claims_are_shown_when_installed(h2h):
    assert "16 claims" in h2h("reproduce", "--stored")


def test_published_results_are_retrained_when_installed(h2h):
    if not os.environ.get("HEADTOHEAD_DATA"):
        pytest.skip("HEADTOHEAD_DATA names no folder with the speeches")
    assert "000: " in h2h("reproduce", "--quick", "000")


def test_the_demo_trains_when_installed(h2h, installed, folder):
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([installed / "h2h", "demo"], cwd=folder, env=h2h.environment, **output) as demo:
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
