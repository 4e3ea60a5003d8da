"""`headtohead.audit` and `headtohead.stats` need torch, numpy and scipy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.environments import environment, modules, needed

ROOT = Path(__file__).parents[2]
CORE = ["torch", "numpy", "scipy"]

BLOCK = """
import sys
ALLOWED = {allowed!r} | set(sys.stdlib_module_names) | {{"headtohead"}}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED and not name.startswith(("__editable__", "_sysconfigdata")):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""

USE = """
import importlib, pkgutil
import torch
import headtohead as h2h
import headtohead.stats

for module in pkgutil.iter_modules(headtohead.stats.__path__):
    importlib.import_module(f"headtohead.stats.{module.name}")
control = [2.31, 2.28, 2.35, 2.30, 2.29, 2.33]
(verdict,) = h2h.compare_all(control, {"a": [loss - 0.2 - loss / 100 for loss in control]}).values()
assert verdict.verdict == "better", verdict
assert headtohead.stats.pairs_for(1.0) > 2

class Bigram(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.next = torch.nn.Embedding(17, 17)
    def forward(self, ids):
        return self.next(ids)

class Leak(Bigram):
    def forward(self, ids):
        return self.next(ids).flip(1)

assert "future-gradient" in str(h2h.audit(Bigram, vocab=17, causal=True))
assert not h2h.audit(Leak, vocab=17, causal=True).ok
assert h2h.audit("Rope", only=["cache"]).ok
assert h2h.audit(h2h.ModelSpec(width=8, heads=2, layers=1), only=["future-gradient"]).ok
try:
    h2h.ModelSpec(width="wide")
except h2h.InputError as error:
    assert "ModelSpec.width must be a whole number" in str(error)
print("works")
"""


def test_audits_and_statistics_need_three_packages() -> None:
    allowed = modules(needed(CORE).values())
    assert {"torch", "numpy", "scipy"} <= allowed
    assert not {"pydantic", "rich", "typer", "pandas", "matplotlib", "tokenizers", "safetensors"} & allowed
    code = BLOCK.format(allowed=allowed) + USE
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "works\n"), done.stderr


@pytest.mark.slow
def test_they_work_where_nothing_else_is_installed(tmp_path: Path) -> None:
    python = environment(tmp_path / "env", needed(CORE).values()) / "python"
    command = [python, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{USE}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "works\n"), done.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import headtohead; headtohead.load_study", "headtohead.load_study needs the package safetensors"),
        ("import sys; sys.argv = ['h2h']; import headtohead.cli", "the program h2h needs the package typer"),
    ],
)
def test_the_rest_names_what_is_missing(code: str, says: str) -> None:
    blocked = BLOCK.format(allowed=modules(needed(CORE).values())) + code
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode
    assert says in done.stderr.splitlines()[-1]
    assert done.stderr.endswith("which is not installed: pip install headtohead\n")
