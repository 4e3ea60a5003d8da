"""Imports are read from the source."""

from pathlib import Path

from headtohead.testing.imports import imported_files, package_top, parsed


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_direct_relative_and_nested_imports_are_followed(tmp_path: Path) -> None:
    write(
        tmp_path,
        src__pack__a="from .b import B\nimport torch",
        src__pack__b="def f():\n    from pack.deep import c",
        src__pack__deep__c="import helper",
        src__pack__other="",
        helper="import src.pack.a",
    )
    for folder in ("src/pack", "src/pack/deep"):
        (tmp_path / folder / "__init__.py").touch()
    found = imported_files(tmp_path / "src/pack/a.py", tmp_path)
    names = {f.relative_to(tmp_path).as_posix() for f in found}
    assert {"src/pack/a.py", "src/pack/b.py", "src/pack/deep/__init__.py", "src/pack/deep/c.py", "helper.py"} <= names
    assert "src/pack/other.py" not in names
    assert package_top(tmp_path / "src/pack/deep/c.py") == tmp_path / "src"
    assert package_top(tmp_path / "helper.py") == tmp_path


def test_a_file_that_is_no_python_imports_nothing(tmp_path: Path) -> None:
    write(tmp_path, broken="def (")
    assert parsed(tmp_path / "broken.py") is None
    assert imported_files(tmp_path / "broken.py", tmp_path) == {tmp_path / "broken.py"}
    assert parsed(tmp_path / "absent.py") is None
