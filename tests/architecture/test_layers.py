"""Imports go one way: from the command line down to the spec."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import headtohead

ROOT = Path(__file__).parents[2]
SOURCE = Path(headtohead.__file__).parent

LINT = "import sys\nfrom importlinter.cli import lint_imports_command\nlint_imports_command(sys.argv[1:])"


def lint(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, "--config", str(config), "--no-cache"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_import_contracts_hold():
    done = lint(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
    kept = int(done.stdout.partition(" kept")[0].rpartition(" ")[2])
    assert kept >= 3, done.stdout


def test_a_broken_import_contract_is_found(tmp_path):
    """The linter sees the imports there are: turned upside down, the layers do not hold."""
    (tmp_path / "upside_down.toml").write_text(
        '[tool.importlinter]\nroot_package = "headtohead"\n'
        '[[tool.importlinter.contracts]]\nname = "upside down"\ntype = "layers"\n'
        'layers = ["headtohead.spec", "headtohead.parts", "headtohead.model.transformer"]\n',
        encoding="utf-8",
    )
    done = lint(tmp_path / "upside_down.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "headtohead.model.transformer" in done.stdout


def contracts() -> list[dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return config["tool"]["importlinter"]["contracts"]


def layers() -> list[str]:
    (found,) = (contract["layers"] for contract in contracts() if contract["type"] == "layers")
    return found


def test_every_package_has_a_layer():
    """A new package cannot stay outside the contract."""
    named = {name.strip() for layer in layers() for name in re.split(r"[|:]", layer)}
    modules = [p for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()]
    assert {p.stem for p in modules} - {"__init__"} == named
    families = next(c for c in contracts() if c["type"] == "independence")["modules"]
    parts = {f"headtohead.parts.{p.stem}" for p in (SOURCE / "parts").glob("*.py")} - {"headtohead.parts.__init__"}
    assert set(families) == parts - {"headtohead.parts.auxiliary"}  # no family: every part may add terms to the loss


def test_at_most_ten_layers_and_no_exceptions():
    assert len(layers()) <= 10
    assert not any("ignore_imports" in contract for contract in contracts())


def test_at_most_three_files_lie_at_the_top():
    assert len(list(SOURCE.glob("*.py"))) <= 3


def test_no_file_is_named_after_commands():
    assert list(SOURCE.rglob("*_commands.py")) == []


def test_records_are_typed_and_not_indexed_by_string():
    indexed = re.compile(r"\.said\[|record\.(result|times|environment)(\[| or \{)")
    found = [f for f in SOURCE.rglob("*.py") if indexed.search(f.read_text(encoding="utf-8"))]
    assert found == []
