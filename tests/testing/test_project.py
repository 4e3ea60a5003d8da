"""Settings in pyproject.toml, and classes that are found without them."""

import sys
from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.testing.project import candidates, is_excluded, is_test, load, read_rules, rule_for


def settings(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(f"[tool.headtohead.audit]\n{text}\n")
    return folder


def test_an_exact_rule_wins_over_later_patterns(tmp_path: Path) -> None:
    text = '"m.py:GPT" = {causal = true, skip = ["seed"]}\n"*.py:*" = {block = 8}\n"old/*" = false'
    rules = read_rules(settings(tmp_path, text))
    rule = rule_for(rules, "m.py", "GPT")
    assert rule is not None
    assert (dict(rule.claims), rule.skip) == ({"causal": True}, ("seed",))
    other = rule_for(rules, "m.py", "Other")
    assert other is not None
    assert dict(other.claims) == {"block": 8}
    assert is_excluded(rules, "old/m.py")
    assert not is_excluded(rules, "m.py")
    assert rule_for(rules, "m.txt", "GPT") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"m.py:A" = {causl = true}', "has no 'causl': did you mean causal?"),
        ('"m.py:A" = {causal = 1}', "causal must be bool"),
        ('"m.py:A" = {block = true}', "block must be int"),
        ('"m.py:A" = {skip = "seed"}', "skip must be a list of names"),
        ('"m.py:A" = 3', "must be true, false or a table"),
        ("= 3", "pyproject.toml cannot be read"),
    ],
)
def test_wrong_settings_are_one_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        read_rules(settings(tmp_path, text))


def test_without_a_table_there_are_no_rules(tmp_path: Path) -> None:
    assert read_rules(tmp_path) == []
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_rules(tmp_path) == []


def test_candidates_are_found_without_executing_the_file(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "raise SystemExit\nclass A(torch.nn.Module): pass\nclass B(A): pass\nclass _Hidden(nn.Module): pass\n"
        "class C(_Hidden): pass\nclass Other: pass\nclass L(LightningModule): pass\n"
    )
    assert candidates(file) == ["A", "B", "C", "L"]
    assert [name for name in ("test_a.py", "x/a_test.py", "conftest.py", "a.py") if not is_test(name)] == ["a.py"]


def test_a_file_in_a_package_is_imported_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "src" / "h2h_loaded_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from .b import value\nprint('hello')\n")
    (package / "b.py").write_text("value = 3\n")
    (package / "c.py").write_text("import no_such_module\n")
    before = list(sys.path)
    try:
        module = load(package / "a.py", tmp_path)
        assert (module.__name__, module.value) == ("h2h_loaded_package.a", 3)
        with pytest.raises(InputError, match=r"ModuleNotFoundError: No module named 'no_such_module' \(line 1\)"):
            load(package / "c.py", tmp_path)
    finally:
        sys.path[:] = before
