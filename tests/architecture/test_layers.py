"""Imports go one way: from the command line down to the spec."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import headtohead

ROOT = Path(__file__).parents[2]

LINT = "import sys\nfrom importlinter.cli import lint_imports_command\nlint_imports_command(sys.argv[1:])"


def lint(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, "--config", str(config), "--no-cache"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_contracts_hold():
    done = lint(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
    kept = int(done.stdout.partition(" kept")[0].rpartition(" ")[2])
    assert kept >= 3, done.stdout


def test_a_broken_contract_is_noticed(tmp_path):
    """The linter sees the imports there are: turned upside down, the layers do not hold."""
    (tmp_path / "upside_down.toml").write_text(
        '[tool.importlinter]\nroot_package = "headtohead"\n'
        '[[tool.importlinter.contracts]]\nname = "upside down"\ntype = "layers"\n'
        'layers = ["headtohead.spec", "headtohead.parts", "headtohead.model"]\n',
        encoding="utf-8",
    )
    done = lint(tmp_path / "upside_down.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "headtohead.model" in done.stdout


def test_every_module_has_its_layer():
    """A new file cannot stay outside the contract."""
    source = Path(headtohead.__file__).parent
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    named = {
        module.strip().removeprefix("headtohead.")
        for contract in contracts
        if contract["type"] == "layers"
        for layer in contract["layers"]
        for module in layer.split("|")
    }
    modules = [p for p in source.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()]
    assert {p.stem for p in modules} - {"__init__"} == named
    families = next(c for c in contracts if c["type"] == "independence")["modules"]
    parts = {f"headtohead.parts.{p.stem}" for p in (source / "parts").glob("*.py")} - {"headtohead.parts.__init__"}
    assert set(families) == parts
