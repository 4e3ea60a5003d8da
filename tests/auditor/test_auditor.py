"""The auditor finds every planted bug, by the right check, and accuses no correct module."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from headtohead.cli import app
from headtohead.spec.userfiles import load_file

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
def test_every_planted_bug_is_found_by_its_check(file: Path) -> None:
    module = load_file(file)
    code, findings = audit(file, module, *(word for check in sorted(module.CAUGHT_BY) for word in ("--only", check)))
    assert findings.keys() <= module.CAUGHT_BY
    status = getattr(module, "STATUS", "broken")
    found = {name for name, f in findings.items() if f["status"] == status}
    assert module.CAUGHT_BY & found, f"{module.__doc__}\nfound: {findings}"
    assert code == (1 if status == "broken" else 0)


@pytest.mark.parametrize(
    "words",
    [
        "gpt_base.py:GPT --causal",
        "rotary_base.py:Llama --causal --relative",
        "recurrent_base.py:Recurrent --causal",
        "experts_base.py:Experts --causal",
        "paths_base.py:TwoPaths --causal",
        "classifier_base.py:Encoder --relative",
        "rope_part_base.py:Turned",
    ],
)
def test_modules_that_bugs_are_planted_in_are_correct(words: str) -> None:
    result = CliRunner().invoke(app, ["audit", *f"{HERE}/planted/{words}".split(), "--json"])
    (report,) = json.loads(result.stdout)
    assert [f for f in report["findings"] if f["status"] == "broken"] == []
    assert result.exit_code == 0


@pytest.mark.parametrize("file", modules("correct"), ids=lambda f: f.stem)
def test_correct_modules_have_no_broken_check(file: Path) -> None:
    code, findings = audit(file, load_file(file))
    assert broken(findings) == {}
    assert code == 0
    assert sum(f["status"] == "proved" for f in findings.values()) >= 4


def test_docs_state_the_number_of_planted_bugs() -> None:
    root = Path(__file__).parents[2]
    for page, says in (
        ("README.md", "all {} bugs planted in the tests, with no false alarm on {} correct modules"),
        ("docs/explanation/audit.md", "The audit finds all {} by the check meant for them and accuses none of the {}."),
    ):
        words = " ".join((root / page).read_text(encoding="utf-8").split())
        assert says.format(len(modules("planted")), len(modules("correct"))) in words
