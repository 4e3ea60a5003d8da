"""Copies of the user's code that are stored with runs: which is loaded, and what is checked before it is executed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headtohead import (
    Causal,
    InputError,
    Local,
    ModelSpec,
    Part,
    Rope,
    Spec,
    families,
    load_file,
    parse,
)
from headtohead.spec import code_of, trust
from headtohead.spec.userfiles import copy_name, source_digest
from helpers.registry import forgotten

MINE = """
from headtohead.spec import Spec, knob

SCALE = 2
with open("executed", "a") as mark:
    mark.write("x")


def unrelated():
    return 1


class Near(Spec):
    by: int = knob(default=1, ge=1, help="how near")

    def allowed(self, i, j):
        return abs(i - j) < SCALE * self.by
"""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A part of a file, as a run stores it: its JSON, its id, and the folder with its code."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    with forgotten():
        part = load_file("mine.py").Near(by=3)
        data, id, code = json.loads(json.dumps(part.to_json())), part.id, code_of(part)
    Path("code").mkdir()
    for name, text in code.items():
        Path("code", name).write_bytes(text)
    Path("executed").unlink()
    return data, id


def again(data: Any, code: Any = Path("code")) -> Any:
    with forgotten():
        part = Spec.from_json(data, code)
        assert part.allowed(0, 5)
        assert not part.allowed(0, 6)
        return part, part.id, part.to_json(), type(part).__module__


@pytest.mark.usefixtures("stored")
def test_a_copy_of_the_file_is_named_by_its_content():
    (copy,) = Path("code").iterdir()
    assert copy.read_text() == MINE
    assert copy.name == copy_name(MINE.encode())
    assert len(copy.stem) == 64


CHANGES = {
    "edited": MINE.replace("SCALE = 2", "SCALE = 7"),
    "without the class": "x = 1\n",
    "not python any more": "class Near(:\n",
    "gone": None,
}


@pytest.mark.parametrize("now", CHANGES.values(), ids=CHANGES)
def test_the_copy_is_loaded_when_the_file_has_changed(now: str | None, stored: Any):
    data, id = stored
    Path("mine.py").unlink()
    if now is not None:
        Path("mine.py").write_text(now)
    _, found, said, module = again(data)
    assert (found, said) == (id, data)
    assert module.startswith("h2h_file_copy_")


@pytest.mark.parametrize("comment", ["", "\n# later\n"])
def test_the_file_is_loaded_while_its_class_is_unchanged(comment: str, stored: Any):
    data, id = stored
    Path("mine.py").write_text(MINE + comment)
    _, found, said, module = again(data)
    assert (found, said) == (id, data)
    # only the file that the user ran is approved: after an edit elsewhere in it, the copy is loaded
    assert module.startswith("h2h_file_copy_" if comment else "h2h_file_mine_")


def test_nothing_is_executed_before_its_digest_is_right(stored: Any):
    """Neither an edited file nor a copy that was changed."""
    data, _ = stored
    Path("mine.py").unlink()
    (copy,) = Path("code").iterdir()
    copy.write_text(MINE.replace("return 1", "return 2"))  # the class is the same, the file is not
    with forgotten(), pytest.raises(InputError, match="is not the code that was stored") as error:
        Spec.from_json(data, Path("code"))
    assert copy.name in str(error.value)
    assert "\n" not in str(error.value)
    other = MINE.replace("SCALE = 2", "SCALE = 7").encode()
    with forgotten(), pytest.raises(InputError, match="no file"):  # its name is right, its class is another
        Spec.from_json(data, {copy_name(other): other})
    Path("mine.py").write_bytes(other)
    Path("code").joinpath(copy_name(MINE.encode())).write_text(MINE)
    again(data)
    assert Path("executed").read_text() == "x", "only the right copy was executed"


@pytest.mark.usefixtures("stored")
def test_a_copy_finds_modules_next_to_the_file():
    Path("beside.py").write_text("SCALE = 2\n")
    text = MINE.replace("SCALE = 2", "from beside import SCALE").encode()
    with forgotten():
        Path("mine.py").write_bytes(text)
        data, code = load_file("mine.py").Near(by=3).to_json(), {copy_name(text): text}
    Path("mine.py").unlink()
    again(data, code)


def test_a_copy_that_does_not_import_is_one_line(stored: Any):
    text = MINE.replace("SCALE = 2", "import nothing_of_that_name\nSCALE = 2").encode()
    data = {**stored[0], "file": None, "source": stored[0]["source"]}
    trust.allow({copy_name(text): text})
    with forgotten(), pytest.raises(InputError, match="code stored with this run cannot be imported") as error:
        Spec.from_json(data, {copy_name(text): text})
    assert "nothing_of_that_name" in str(error.value)
    assert "(line 4)" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_class_inside_a_function_of_a_file_cannot_be_stored(tmp_path: Path):
    code = "from headtohead.spec import Spec\n\ndef make():\n    class Hidden(Spec): ...\n    return Hidden\n"
    (tmp_path / "mine.py").write_text(code)
    with forgotten():
        part = load_file(tmp_path / "mine.py").make()()
        assert len(source_digest(type(part))) == 16
        with pytest.raises(InputError, match="Hidden is not at the top of its file: write the class to a file"):
            code_of(part)


def test_output_of_a_loaded_file_goes_to_stderr(tmp_path, capsys):
    file = tmp_path / "loud.py"
    file.write_text("print('hello')\n")
    load_file(file)
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "hello\n")


NEAR_FILE = '''
from typing import ClassVar
from headtohead import Pattern, knob

SCALE = 2


def helper(i, j):
    return abs(i - j) < SCALE


def unrelated():
    return 1


class Near(Pattern):
    """Near ones."""

    equation: ClassVar[str] = "near"
    reference: ClassVar[str] = "nobody"

    by: int = knob(default=1, ge=1, help="how near")

    def allowed(self, i, j):
        return helper(i, j) & (abs(i - j) < self.by)
'''


@pytest.fixture
def fresh() -> Iterator[None]:
    with forgotten():
        yield


def written(folder: Path, code: str = NEAR_FILE) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    return file


def identity(file: Path, text: str = "Near") -> str:
    """The id of a part of this file, in a process that has seen nothing else."""
    with forgotten():
        return parse(f"{file}:{text}").id


def changed(old: str, new: str, code: str = NEAR_FILE) -> str:
    assert code.count(old) == 1
    return code.replace(old, new)


SAME_CODE = {
    "a comment": changed("SCALE = 2", "SCALE = 2  # doubled"),
    "layout": changed("def unrelated", "\n\n\ndef unrelated"),
    "an unrelated function": changed("return 1", "return 2"),
    "an unrelated value": NEAR_FILE + "\nOTHER = 3\n",
    "an unrelated class": NEAR_FILE + '\n\nclass Far(Near):\n    """Far ones."""\n',
    "quotes": changed('"near"', "'near'"),
}
OTHER_CODE = {
    "the class": changed("< self.by", "<= self.by"),
    "a default": changed("default=1", "default=2"),
    "a helper": changed("< SCALE", "<= SCALE"),
    "a constant the helper uses": changed("SCALE = 2", "SCALE = 3"),
    "a helper's helper": changed("SCALE = 2", "def two():\n    return 2\n\n\nSCALE = two()"),
    "a decorator": changed("class Near", "def mark(cls):\n    return cls\n\n\n@mark\nclass Near"),
}
SPLIT = changed("SCALE = 2", "SCALE, OTHER = 2, 5")
BRANCH = changed("SCALE = 2", "if True:\n    SCALE = 2")
TWICE = changed("SCALE = 2", "SCALE = 2\nSCALE = SCALE + 1")
CALLED = changed("SCALE = 2", "VALUES = {}\nVALUES['scale'] = 2", changed("< SCALE", "< VALUES['scale']"))
RENAMED = changed("SCALE = 2", "from math import tau as SCALE")
NESTED = changed("(i - j) < SCALE", "(i - j) < (lambda: [SCALE for _ in range(1)][0])()")
MISSED = {
    "two at once": (SPLIT, changed("2, 5", "3, 5", SPLIT)),
    "inside an if": (BRANCH, changed("SCALE = 2", "SCALE = 3", BRANCH)),
    "in two steps": (TWICE, changed("SCALE = 2\n", "SCALE = 3\n", TWICE)),
    "into a dict": (CALLED, changed("= 2", "= 3", CALLED)),
    "an import": (RENAMED, changed("tau", "pi", RENAMED)),
    "in a nested function": (NESTED, changed("SCALE = 2", "SCALE = 3", NESTED)),
}
BOM = "utf-8-sig"
TWO_PARTS = """
from headtohead import Fusion, FusionHooks, Pattern, Rope, knob

class Gate(Fusion):
    rate: float = knob(default=1.0, help="how much")

    def build(self, dims, layer):
        return GateHooks()

class GateHooks(FusionHooks):
    pass

class Stripes(Pattern):
    def allowed(self, i, j):
        return (i - j) % 2 == 0
"""


@pytest.fixture
def gate(tmp_path, monkeypatch, fresh):  # noqa: ARG001
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.py").write_text(TWO_PARTS)
    return tmp_path / "gate.py"


def test_a_moved_file_keeps_its_ids(tmp_path):
    here = written(tmp_path / "here")
    before = identity(here), identity(here, "Near(by=3)")
    there = tmp_path / "there"
    shutil.move(here.parent, there)
    (there / "mine.py").rename(there / "renamed.py")
    assert (identity(there / "renamed.py"), identity(there / "renamed.py", "Near(by=3)")) == before
    assert before[0] != before[1]


@pytest.mark.parametrize("code", SAME_CODE.values(), ids=SAME_CODE)
def test_code_a_class_does_not_use_keeps_its_id(tmp_path, code):
    assert identity(written(tmp_path / "a")) == identity(written(tmp_path / "b", code))


@pytest.mark.parametrize("code", OTHER_CODE.values(), ids=OTHER_CODE)
def test_changed_code_changes_the_id_and_old_json_is_refused(tmp_path, code):
    file = written(tmp_path / "a")
    with forgotten():
        part = parse(f"{file}:Near")
        old, data = part.id, json.loads(json.dumps(part.to_json()))
        model = json.loads(json.dumps(ModelSpec(pattern=Causal() & part).to_json()))
    with forgotten():
        assert Part.from_json(data).id == old, "nothing has changed yet"
    written(tmp_path / "a", code)
    assert identity(file) != old
    for saved in (data, model):
        with forgotten(), pytest.raises(InputError, match="has changed since this was saved") as error:
            Spec.from_json(saved)
        assert "\n" not in str(error.value)
        assert "mine.py" in str(error.value)


@pytest.mark.parametrize(("before", "after"), MISSED.values(), ids=MISSED)
def test_a_constant_changed_in_another_way_changes_the_id(tmp_path, before, after):
    assert identity(written(tmp_path / "a", before)) != identity(written(tmp_path / "b", after))


def test_a_module_name_is_not_a_local_variable(tmp_path):
    """`i` is an argument of the class's method, whatever a file calls `i` beside it."""
    before, after = (f"{NEAR_FILE}\ni = {number}\n" for number in (1, 2))
    assert identity(written(tmp_path / "a", before)) == identity(written(tmp_path / "b", after))


@pytest.mark.usefixtures("fresh")
def test_the_id_names_the_code_that_was_loaded(tmp_path):
    """Edited while a process runs, the file no longer says what that process computes."""
    first, second = written(tmp_path / "a"), written(tmp_path / "b")
    part, edited = parse(f"{first}:Near"), load_file(second).Near()
    written(tmp_path / "b", changed("< SCALE", "<= SCALE"))
    assert edited.id == part.id


@pytest.mark.usefixtures("fresh")
def test_a_class_of_a_session_is_named_by_its_code_too(monkeypatch):
    """As in a notebook or `python -c`: a class changed and run again must not be taken for the old one."""
    ids = set()
    for code in (NEAR_FILE, OTHER_CODE["the class"]):
        session = ModuleType("session")
        monkeypatch.setitem(sys.modules, "session", session)
        exec(code, session.__dict__)
        ids.add(session.Near().id)
    assert len(ids) == 2


@pytest.mark.usefixtures("fresh")
def test_json_of_a_user_class_names_its_file(tmp_path, monkeypatch):
    file = written(tmp_path)
    part = parse(f"{file}:Near(by=2)")
    data = part.to_json()
    assert data["kind"] == "Near"
    assert data["by"] == 2
    assert Path(data["file"]) == file.resolve()
    assert len(data["source"]) == 16
    monkeypatch.chdir(tmp_path)
    assert part.to_json()["file"] == "mine.py", "inside the working folder, a path that moves with it"
    assert part.id == parse("Near(by=2)").id


def test_json_whose_file_is_gone_is_refused(tmp_path):
    file = written(tmp_path)
    with forgotten():
        data = parse(f"{file}:Near").to_json()
    file.unlink()
    with forgotten(), pytest.raises(InputError, match=r"no file .*mine\.py"):
        Part.from_json(data)


@pytest.mark.usefixtures("fresh")
def test_a_user_class_may_not_take_a_built_in_name(tmp_path):
    file = written(tmp_path, NEAR_FILE.replace("Near", "Local"))
    with pytest.raises(InputError, match="Local is the name of a built-in pattern: name yours differently") as error:
        load_file(file)
    assert "mine.py" in str(error.value)
    assert "\n" not in str(error.value)
    assert parse("Local()") == Local()
    assert type(parse("Local(2)")) is Local
    assert families()["pattern"]["Local"] is Local


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import nothing_of_that_name", ["ModuleNotFoundError", "line 1"]),
        ("x = 1\ny = (", ["SyntaxError", "line 2"]),
        ("x = 1\n\nraise SystemExit(3)", ["SystemExit", "line 3"]),
        ("x = 1\n1 / 0", ["ZeroDivisionError", "line 2"]),
        ("from headtohead import Local\nLocal(-1)", ["Local.window", "not -1"]),
    ],
)
def test_a_file_that_does_not_import_is_one_line(tmp_path, code, words):
    file = written(tmp_path, code)
    for _ in range(2):  # no half of it is kept
        with pytest.raises(InputError, match="cannot be imported") as error:
            load_file(file)
        assert all(word in str(error.value) for word in ("mine.py", *words))
        assert "\n" not in str(error.value)


@pytest.mark.usefixtures("fresh")
def test_a_file_is_loaded_again_when_edited(tmp_path):
    file = written(tmp_path)
    first = load_file(file)
    assert load_file(str(file)) is first
    written(tmp_path, OTHER_CODE["a default"])
    second = load_file(file)
    assert second is not first
    assert (first.Near().by, second.Near().by, parse("Near").by) == (1, 2, 2)
    assert first.Near(by=3).id != second.Near(by=3).id


@pytest.mark.usefixtures("fresh")
def test_a_file_that_is_not_python_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file"):
        load_file(tmp_path / "absent.py")
    with pytest.raises(InputError, match="no file"):
        load_file(tmp_path)
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="must end in"):
        load_file(tmp_path / "notes.txt")


@pytest.mark.usefixtures("fresh")
def test_two_files_may_share_a_class_name(tmp_path):
    one = parse(f"{written(tmp_path / 'a')}:Near")
    saved = one.to_json()
    other = parse(f"{written(tmp_path / 'b', OTHER_CODE['the class'])}:Near")
    assert one != other
    assert one.id != other.id
    for part, data in ((one, saved), (other, other.to_json()), (one, one.to_json())):
        again = Part.from_json(data)
        assert again == part
        assert type(again) is type(part)


@pytest.mark.usefixtures("fresh")
def test_a_class_removed_from_its_file_is_refused(tmp_path):
    file = written(tmp_path)
    with forgotten():
        data = parse(f"{file}:Near").to_json()
    written(tmp_path, NEAR_FILE.replace("Near", "Nearer"))
    with pytest.raises(
        InputError, match=r"Near was defined in .*mine\.py and is (no longer there|not there any more)"
    ) as error:
        Part.from_json(data)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", BOM])
def test_files_in_other_encodings_are_loaded(tmp_path, encoding):
    (tmp_path / "mine.py").write_bytes((f"# coding: {encoding}\n" + changed("Near ones", "Nähe")).encode(encoding))
    assert len(parse(f"{tmp_path / 'mine.py'}:Near").id) == 16


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gate.py:Nope", "gate.py has no part 'Nope': it has Gate, Stripes"),
        ("gate.py:Nope(rate=2)", "gate.py has no part 'Nope': it has Gate, Stripes"),
        ("gate.py:gat", "gate.py has no part 'gat': did you mean Gate? it has Gate, Stripes"),
        ("gate.py:GateHooks", "gate.py has no part 'GateHooks': did you mean Gate? it has Gate, Stripes"),
        ("gate.py:Alibi", "gate.py has no part 'Alibi': it has Gate, Stripes"),
        ("gate.py:Stripes & Nope", "gate.py has no part 'Nope': it has Gate, Stripes"),
        ("empty.py:Nope", "empty.py has no part 'Nope': it has none"),
    ],
)
def test_unknown_part_of_a_file_lists_its_parts(gate, text, says):
    gate.with_name("empty.py").write_text("x = 1\n")
    for attempt in (lambda: parse(text), lambda: ModelSpec().set("fusion", text)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value) == says


@pytest.mark.usefixtures("gate")
def test_known_part_of_a_file_is_parsed():
    assert parse("gate.py:Gate(rate=2)").rate == 2
    assert parse("gate.py:Rope(theta=500)") == Rope(theta=500), "it is imported there"
    assert str(parse("gate.py:Stripes & Causal")) == "(Stripes() & Causal())"
    assert str(parse("gate.py:Causal & Stripes")) == "(Causal() & Stripes())"


def test_a_name_in_two_files_is_taken_from_the_named_file(gate):
    other = gate.with_name("other.py")
    other.write_text(TWO_PARTS.replace("default=1.0", "default=5.0"))
    assert [parse(f"{name}.py:Gate").rate for name in ("gate", "other", "gate")] == [1, 5, 1]


@pytest.mark.usefixtures("fresh")
def test_a_family_cannot_be_declared_twice(tmp_path):
    """A user who writes `family="position"` must not make every position unknown."""
    file = written(tmp_path, 'from headtohead import Part\n\n\nclass Mine(Part, family="position"):\n    """Mine."""\n')
    with pytest.raises(InputError, match="the family position exists already"):
        load_file(file)
    assert "Rope" in families()["position"]
