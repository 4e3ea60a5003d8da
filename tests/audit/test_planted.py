"""The auditor finds every planted bug, by the right check, and accuses no correct module."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from headtohead.cli import app
from headtohead.userfiles import load_file

HERE = Path(__file__).parent


def modules(folder: str) -> list[Path]:
    found = sorted((HERE / folder).glob("*.py"))
    return [file for file in found if "CLASS = " in file.read_text(encoding="utf-8")]


def audit(file: Path, module: ModuleType, *more: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code and findings by check, from the command as a user types it."""
    result = CliRunner().invoke(app, ["audit", f"{file}:{module.CLASS}", *module.FLAGS, *more, "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    (report,) = json.loads(result.stdout)
    return result.exit_code, {f["check"]: f for f in report["findings"]}


def broken(findings: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: f["evidence"] for name, f in findings.items() if f["status"] == "broken"}


@pytest.mark.parametrize("file", modules("planted"), ids=lambda f: f.stem)
def test_every_planted_bug_is_found(file: Path) -> None:
    module = load_file(file)
    code, findings = audit(file, module, *(word for check in sorted(module.CAUGHT_BY) for word in ("--only", check)))
    assert findings.keys() <= module.CAUGHT_BY
    assert module.CAUGHT_BY & broken(findings).keys(), f"{module.__doc__}\nbroken: {broken(findings)}"
    assert code == 1


@pytest.mark.parametrize("file", modules("correct"), ids=lambda f: f.stem)
def test_no_correct_module_is_accused(file: Path) -> None:
    code, findings = audit(file, load_file(file))
    assert broken(findings) == {}
    assert code == 0
    assert sum(f["status"] == "proved" for f in findings.values()) >= 4


def test_the_docs_count_them_rightly() -> None:
    root = Path(__file__).parents[2]
    for page, says in (
        ("README.md", "finds all {} bugs planted in the tests and accuses none of their {} correct modules"),
        ("docs/explanation/audit.md", "The audit finds all {} by the check meant for them and accuses none of the {}."),
    ):
        words = " ".join((root / page).read_text(encoding="utf-8").split())
        assert says.format(len(modules("planted")), len(modules("correct"))) in words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Rope", "--only", "cach"], "no check is called 'cach': did you mean cache?"),
        ([f"{HERE}/correct/bag_of_words.py:BagOfWords", "--only", "rotation"], "rotation: not a check that is made of"),
        (["--all", "--only", "cache"], "--only is for what is named"),
    ],
)
def test_a_check_that_is_not_made_proves_nothing(words: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["audit", *words])
    assert says in f"{result.exception} {result.output}"
