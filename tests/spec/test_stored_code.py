"""Code that stored JSON names: what is executed, from where, and what is refused before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from headtohead import InputError, Spec, load_file
from headtohead.spec import code_of, trust
from headtohead.spec.stored_code import load_class, unapproved
from headtohead.spec.trust import NotApproved
from headtohead.spec.userfiles import RECIPES, copy_name, source_digest
from helpers.registry import forgotten

MINE = """
from pathlib import Path
from headtohead.spec import Spec, knob
Path("executed").touch()

class Near(Spec):
    by: int = knob(default=1, help="how near")
"""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The JSON of a part whose file is gone; its code is in runs/abc/code and is not approved."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    with forgotten():
        part = load_file("mine.py").Near()
        data, code = part.to_json(), code_of(part)
    folder = Path("runs/abc/code")
    folder.mkdir(parents=True)
    for name, text in code.items():
        (folder / name).write_bytes(text)
    Path("mine.py").unlink()
    Path("executed").unlink()
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    monkeypatch.setattr(trust, "_HERE", {})
    return data


CODE = Path("runs/abc/code")


def refused(data: Any, code: Any = CODE) -> str:
    before = list(sys.path)
    with forgotten(), pytest.raises(NotApproved) as error:
        Spec.from_json(data, code)
    assert not Path("executed").exists()
    assert sys.path == before
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_copy_is_executed_after_approval(stored: Any) -> None:
    assert "run abc needs code that you have not approved, Near of mine.py" in refused(stored)
    assert "h2h trust abc" in refused(stored)
    trust.approve(MINE.encode(), "mine.py")
    with forgotten():
        assert Spec.from_json(stored, CODE).by == 1
    assert Path("executed").exists()


def test_the_same_class_in_another_file_needs_its_own_approval(stored: Any) -> None:
    """The digest covers the class; approval covers the whole file."""
    trust.approve(MINE.encode(), "mine.py")
    trap = MINE + "\nPath('trap').touch()\n"
    Path("mine.py").write_text(trap)
    with forgotten():
        Spec.from_json(stored, CODE)  # from the approved copy
    assert not Path("trap").exists()
    assert "h2h trust" in refused_file(stored)


def refused_file(data: Any) -> str:
    with forgotten(), pytest.raises(NotApproved) as error:
        Spec.from_json(data)
    return str(error.value)


def test_a_file_that_does_not_match_is_not_executed(stored: Any) -> None:
    Path("mine.py").write_text(MINE.replace("default=1", "default=2"))
    trust.approve(Path("mine.py").read_bytes(), "mine.py")
    with forgotten(), pytest.raises(InputError, match="has changed since this was saved"):
        Spec.from_json(stored)
    assert not Path("executed").exists()


def test_a_copy_with_another_name_than_its_sha256_is_damaged(stored: Any) -> None:
    (copy,) = CODE.iterdir()
    trust.approve(copy.read_bytes(), "mine.py")
    copy.rename(CODE / f"{'0' * 64}.py")
    with forgotten(), pytest.raises(InputError, match="its sha256 is not its name"):
        Spec.from_json(stored, CODE)
    assert not Path("executed").exists()


def test_only_the_folder_of_the_users_list_is_searched(stored: Any, tmp_path: Path) -> None:
    """JSON may name any folder as the place of an approved file: modules there are not imported."""
    hostile, mine = tmp_path / "hostile", tmp_path / "mine"
    text = MINE.replace("from pathlib", "import beside\nfrom pathlib").encode()
    for folder in (hostile, mine):
        folder.mkdir()
        (folder / "mine.py").write_bytes(text)
        (folder / "beside.py").write_text(f"from pathlib import Path\nPath({folder.name + '-ran'!r}).touch()\n")
    with forgotten():
        trust.approve(text, "mine.py")
        data = {**stored, "file": str(hostile / "mine.py")}
        (CODE / copy_name(text)).write_bytes(text)
        with pytest.raises(InputError, match=r"No module named 'beside'.*h2h trust FILE\.py") as error:
            load_class("Near", digest_of(text), data["file"], CODE)
        assert "\n" not in str(error.value)
    trust.approve(text, "mine.py", mine)
    with forgotten():
        load_class("Near", digest_of(text), data["file"], CODE)
        del sys.modules["beside"]
        assert str(hostile) not in sys.path
    assert Path("mine-ran").exists()
    assert not Path("hostile-ran").exists()


def digest_of(text: bytes) -> str:
    from headtohead.spec.statements import digest

    return digest(text, "Near")


def test_recipes_of_the_package_are_trusted() -> None:
    from headtohead.spec.statements import digest

    file = RECIPES / "published" / "padding.py"
    with forgotten():
        found = load_class("Filled", digest(file.read_bytes(), "Filled"), "recipes/published/padding.py")
        assert len(source_digest(found)) == 16


@pytest.mark.parametrize(
    "file", ["recipes/mine.py", "recipes/../mine.py", "./recipes/mine.py", "recipes/../../mine.py", "recipes/link.py"]
)
def test_recipes_of_the_working_folder_are_checked(stored: Any, file: str) -> None:
    Path("recipes").mkdir()
    for name in ("recipes/mine.py", "mine.py"):
        Path(name).write_text(MINE)
    Path("recipes/link.py").symlink_to(Path("mine.py").absolute())
    with forgotten(), pytest.raises(InputError):
        Spec.from_json({**stored, "file": file})
    assert not Path("executed").exists()


WRONG = [5, [], {}, True, "\0", "a" * 5000, "\ud800", "/dev/zero", ".", "..", "", "fifo.py", "x" * 300 + ".py"]


@pytest.mark.parametrize("file", WRONG, ids=lambda f: repr(f)[:20])
def test_a_wrong_name_of_a_file_is_one_line(stored: Any, file: Any) -> None:
    import os

    os.mkfifo("fifo.py")
    for source in (stored["source"], "0000", 7, ["a"], {"b": 1}):
        with forgotten(), pytest.raises(InputError) as error:
            Spec.from_json({**stored, "file": file, "source": source}, None)
        assert str(error.value).isprintable()
        assert "\n" not in str(error.value)
    assert not Path("executed").exists()


SOURCES = {
    "nested": "(" * 5000 + ")" * 5000,
    "a long sum": "x = " + "+".join("1" * 30_000),
    "deep attributes": "x = a" + ".b" * 20_000,
    "zero bytes": "x = 1\0",
    "another encoding": "# coding: nonsense\nx = 1\n",
    "too large": "x = 1\n" * 300_000,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_source_that_cannot_be_parsed_is_no_class(stored: Any, source: str) -> None:
    text = source.encode()
    for path in CODE.iterdir():
        path.unlink()
    (CODE / copy_name(text)).write_bytes(text)
    with forgotten(), pytest.raises(InputError) as error:
        Spec.from_json(stored, CODE)
    assert "\n" not in str(error.value)


def test_unapproved_code_is_found_at_any_depth(stored: Any) -> None:
    data = {"kind": "A", "list": [1, {"x": [{"kind": "B", "part": stored}]}], "again": stored}
    (found,) = unapproved(data, CODE)
    assert (found.name, found.file, found.text) == ("Near", "mine.py", MINE.encode())
    trust.approve(MINE.encode(), "mine.py")
    assert unapproved(data, CODE) == []
    deep: Any = stored
    for _ in range(100_000):
        deep = [deep]
    assert unapproved(deep, CODE) == []


def test_code_that_a_process_was_sent_is_approved_there(stored: Any) -> None:
    trust.allow({copy_name(MINE.encode()): MINE.encode()})
    with forgotten():
        Spec.from_json(stored, {copy_name(MINE.encode()): MINE.encode()})
    assert trust.approvals() == {}
