"""The plugin in a real pytest, in a project that uses nothing else of headtohead."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from helpers.docs import ROOT

TESTS = """
import torch
from torch import nn
from headtohead.testing import assert_causal


class Model(nn.Module):
    def __init__(self, ahead=0, vocab=12, width=8):
        super().__init__()
        self.ahead = ahead
        self.tokens, self.out = nn.Embedding(vocab, width), nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        seen = torch.ones(T, T).tril(self.ahead)
        return self.out(seen @ self.tokens(ids) / seen.sum(dim=-1, keepdim=True))


def test_sound():
    assert_causal(Model)


def test_leak():
    assert_causal(lambda: Model(ahead=1))


def test_fixture(audit):
    report = audit(Model(), causal=True, skip=["seed"])
    assert report.ok


def test_not_a_model():
    assert_causal(nn.ReLU)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a test file, and headtohead's entry point as pip would install it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_model.py").write_text(TESTS)
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = folder / "site" / "h2h_of_this_checkout-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: h2h-of-this-checkout\nVersion: 1\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    return folder


def pytest_in(folder: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(folder / "site"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "300", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_a_failure_is_one_line_with_the_counterexample(project: Path) -> None:
    out = pytest_in(project, "test_model.py")
    assert "2 failed, 2 passed" in out
    errors = [line for line in out.splitlines() if line.startswith("E  ")]
    assert len(errors) == 2, out
    assert re.search(r"AssertionError: <lambda>: future-gradient is broken .*position 0 saw position 1", errors[0])
    assert "InputError: ReLU gives one row of logits per text" in errors[1]
    assert "headtohead/" not in out.replace("headtohead/errors.py", ""), "no frame of headtohead is shown"


def test_pytest_starts_without_torch(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import sys\ndef pytest_report_header(config):\n"
        "    return 'heavy: ' + str(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))\n"
    )
    (project / "test_nothing.py").write_text("def test_nothing(): pass\n")
    out = pytest_in(project, "test_nothing.py")
    assert "heavy: []" in out
    assert "1 passed" in out
    assert "audit [session scope]" in pytest_in(project, "--fixtures", "test_nothing.py")
