"""Specs: what they refuse and how they say so, their paths, their text and JSON, and whose code they name."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.registry import forgotten
from headtohead import (
    Alibi,
    And,
    Biases,
    Causal,
    Disentangled,
    Full,
    Gated,
    HeadSpec,
    InitSpec,
    InputError,
    LayerNorm,
    Learned,
    Local,
    ModelSpec,
    NoPosition,
    Or,
    Part,
    Prefix,
    RelativeBias,
    Reweight,
    RMSNorm,
    Rope,
    Shuffle,
    Sinks,
    Spec,
    TrainSpec,
    families,
    load_file,
    parse,
)
from headtohead.spec import alternatives, find, is_builtin, knobs

# -- what is refused, in one line with the remedy ---------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, list[str]]] = {
    "width and heads": (lambda: ModelSpec(width=10, heads=3), ["width 10", "3 heads", "multiple of 3", "head_width"]),
    "kv_heads": (lambda: ModelSpec(heads=4, kv_heads=3), ["4 heads", "3 kv_heads", "must divide"]),
    "kv_heads above heads": (lambda: ModelSpec(heads=2, kv_heads=4), ["kv_heads must divide heads"]),
    "unknown knob": (lambda: Rope(thetta=1), ["Rope", "'thetta'", "did you mean theta?", "known: fraction, theta"]),
    "unknown setting": (lambda: ModelSpec(postion=Rope()), ["'postion'", "did you mean position?"]),
    "unknown part": (lambda: parse("Rop()"), ["'Rop'", "did you mean Rope?", "Alibi"]),
    "unknown part, lower case": (lambda: parse("alibi()"), ["'alibi'", "did you mean Alibi?"]),
    "unknown part in a setting": (
        lambda: ModelSpec().set("position", "rope"),
        ["no position is called 'rope'", "did you mean Rope?", "Sinusoidal"],
    ),
    "unknown part in a pattern": (lambda: parse("Causal & Locl"), ["'Locl'", "did you mean Local?"]),
    "unknown class": (lambda: find("Nothing"), ["no part is called 'Nothing'"]),
    "nothing near": (lambda: parse("Xyzzyq()"), ["known: Adagrad, Adam"]),
    "wrong family": (lambda: ModelSpec(position=Local()), ["ModelSpec.position", "a Position", "not Local()"]),
    "wrong family by text": (lambda: ModelSpec().set("norm", "Rope"), ["ModelSpec.norm", "a Norm", "not Rope()"]),
    "no spec at all": (lambda: ModelSpec(position=3), ["ModelSpec.position", "a Position", "not 3"]),
    "wrong family inside": (lambda: And(Causal(), Rope()), ["And.b", "a Pattern", "not Rope()"]),
    "not a pattern": (lambda: parse("Causal & Rope"), ["Rope() is no pattern"]),
    "not even a part": (lambda: parse("Causal | 3"), ["3 is no pattern"]),
    "negative window": (lambda: Local(-1), ["Local.window", "greater than or equal to 1", "not -1"]),
    "negative window by name": (lambda: Sinks(window=-2), ["Sinks.window", "not -2"]),
    "window of nothing": (lambda: parse("Local(0)"), ["Local.window", "not 0"]),
    "NaN": (lambda: Rope(theta=math.nan), ["Rope.theta", "finite", "not nan"]),
    "infinity": (lambda: Alibi(slope=math.inf), ["Alibi.slope", "finite", "not inf"]),
    "infinity by text": (lambda: parse("Rope(theta=1e999)"), ["Rope.theta", "finite"]),
    "NaN by text": (lambda: ModelSpec().set("dropout", "nan"), ["ModelSpec.dropout", "finite"]),
    "dropout of all": (lambda: ModelSpec(dropout=1.0), ["ModelSpec.dropout", "less than 1"]),
    "negative dropout": (lambda: ModelSpec(dropout=-0.1), ["ModelSpec.dropout", "not -0.1"]),
    "no layers": (lambda: ModelSpec(layers=0), ["ModelSpec.layers", "not 0"]),
    "std of zero": (lambda: InitSpec(embedding_std=0), ["InitSpec.embedding_std", "greater than 0"]),
    "a word that is no choice": (lambda: Reweight(over="all"), ["Reweight.over", "'token' or 'sequence'", "not 'all'"]),
    "a word for a number": (lambda: ModelSpec().set("width", "wide"), ["ModelSpec.width", "integer", "not 'wide'"]),
    "a fraction for a count": (lambda: ModelSpec(layers=1.5), ["ModelSpec.layers", "integer", "not 1.5"]),
    "too many": (lambda: Rope(2.0, 1.0, 3.0), ["Rope takes at most 2 settings: theta, fraction"]),
    "odd buckets": (lambda: RelativeBias(buckets=7), ["even number of buckets", "not 7"]),
    "near distance": (lambda: RelativeBias(max_distance=3), ["max_distance above 8", "and 3"]),
    "no such path": (lambda: ModelSpec().get("positon"), ["no setting 'positon'", "did you mean position?"]),
    "no such knob on a path": (lambda: ModelSpec(position=Rope()).set("position.theat", 2), ["did you mean theta?"]),
    "a setting of a part": (
        lambda: ModelSpec(position=Rope()).set("theta", 2),
        ["no setting 'theta'", "it belongs to Rope", "did you mean position.theta in place of theta?"],
    ),
    "a setting of a part not chosen": (lambda: ModelSpec().get("theta"), ["position.theta", "with position=Rope?"]),
    "a setting of the optimizer": (lambda: TrainSpec().set("lr", "0.1"), ["did you mean optimizer.lr"]),
    "a path into a number": (lambda: ModelSpec().get("width.x"), ["ModelSpec.width has no settings of its own", "'x'"]),
    "setting into a number": (lambda: ModelSpec().set("width.x", 1), ["ModelSpec.width has no settings", "'x'"]),
    "syntax": (lambda: parse("Rope(theta="), ["cannot read 'Rope(theta='", "write a name, a number, or a part"]),
    "nothing": (lambda: parse(""), ["cannot read ''"]),
    "arithmetic": (lambda: parse("1 + 2"), ["cannot read '1 + 2'", "only names"]),
    "code": (lambda: parse("__import__('os').getcwd()"), ["cannot read"]),
    "a comprehension": (lambda: parse("[x for x in y]"), ["cannot read"]),
    "no such file": (lambda: parse("nowhere.py:Rope"), ["no file nowhere.py", "give the path of a Python file"]),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said_in_one_line(make, words):
    with pytest.raises(InputError) as error:
        make()
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
    assert error.value.__cause__ is None


@pytest.mark.parametrize("make", [make for make, _words in REFUSED.values()], ids=REFUSED)
def test_nothing_of_the_validator_shows(make):
    with pytest.raises(InputError) as error:
        make()
    assert not any(word in str(error.value) for word in ("pydantic", "Input should", "validation error", "type="))


def test_json_is_checked_like_anything_else():
    data = Local(3).to_json()
    with pytest.raises(InputError, match=r"Local\.window"):
        Part.from_json({**data, "window": -3})
    with pytest.raises(InputError, match="no knob 'windoww': did you mean window"):
        Part.from_json({**data, "windoww": 3})
    with pytest.raises(InputError, match="did you mean Local"):
        Part.from_json({**data, "kind": "Locall"})
    with pytest.raises(InputError, match="width 10"):
        ModelSpec.from_json({**ModelSpec().to_json(), "width": 10, "heads": 3})


def test_minus_a_word_is_refused():
    with pytest.raises(InputError):
        parse("-'a'")


def test_a_text_of_several_lines_is_refused_in_one():
    with pytest.raises(InputError) as error:
        parse("Rope(\n]")
    assert "\n" not in str(error.value)


# -- paths ------------------------------------------------------------------------------------------------------------

SPEC = ModelSpec(width=32, heads=4, position=Disentangled(), fusion=Shuffle(), pattern=Causal() & Local(4))


def test_get():
    assert SPEC.get("width") == 32
    assert SPEC.get("position") == Disentangled()
    assert SPEC.get("position.span") == 16
    assert SPEC.get("pattern.b.window") == 4
    assert SPEC.get("init.embedding_std") == 0.02
    assert SPEC.get("kv_heads") is None


SET = [
    ("width", 64, 64),
    ("width", "64", 64),
    ("kv_heads", "2", 2),
    ("kv_heads", "none", None),
    ("kv_heads", "None", None),
    ("tied", "true", True),
    ("tied", "False", False),
    ("tied", True, True),
    ("dropout", "0.25", 0.25),
    ("dropout", "1e-2", 0.01),
    ("position", "Rope(theta=500)", Rope(theta=500)),
    ("position", "Rope", Rope()),
    ("position", "Rope()", Rope()),
    ("position", " Rope( 500 , fraction = 0.5 ) ", Rope(500.0, 0.5)),
    ("position", Alibi(slope=1), Alibi(slope=1.0)),
    ("position", "Alibi(slope=none)", Alibi()),
    ("position.terms", "content-to-position", "content-to-position"),
    ("position.span", "3", 3),
    ("fusion.order", "each forward", "each forward"),
    ("fusion", "Shuffle(order='each forward', seed=3)", Shuffle(order="each forward", seed=3)),
    ("fusion", "Reweight(over=sequence)", Reweight(over="sequence")),
    ("pattern", "Causal & Local(8)", Causal() & Local(8)),
    ("pattern", "Causal() | Prefix(2) & Full", Causal() | (Prefix(2) & Full())),
    ("pattern", "(Causal | Prefix(2)) & Full", (Causal() | Prefix(2)) & Full()),
    ("pattern.b.window", "9", 9),
    ("pattern.b", "Sinks(first=1)", Sinks(first=1)),
    ("biases.q", "true", True),
    ("biases", "Biases(q=true, out=false)", Biases(q=True, out=False)),
    ("init.linear", "xavier", "xavier"),
    ("init.linear", "torch", "torch"),
    ("init", "InitSpec(linear='torch')", InitSpec(linear="torch")),
    ("head.hidden", "7", 7),
    ("head.activation", "tanh", "tanh"),
    ("norm.eps", "1e-12", 1e-12),
    ("feedforward", "Gated(hidden=3, bias=true)", Gated(hidden=3, bias=True)),
]


@pytest.mark.parametrize(("path", "value", "expected"), SET, ids=lambda v: str(v))
def test_set(path, value, expected):
    before = SPEC.to_json()
    changed = SPEC.set(path, value)
    assert changed.get(path) == expected
    assert type(changed.get(path)) is type(expected)
    assert SPEC.to_json() == before, "a spec is a value"
    if expected == SPEC.get(path):
        assert changed == SPEC
        assert changed.id == SPEC.id
    else:
        assert changed.id != SPEC.id
        assert [d.path for d in SPEC.diff(changed)] != []
        assert all(d.path == path or d.path.startswith(f"{path}.") for d in SPEC.diff(changed))
    assert changed.set(path, SPEC.get(path)) == SPEC


def test_setting_something_checks_the_whole():
    with pytest.raises(InputError, match="multiple of 4"):
        SPEC.set("width", "30")
    with pytest.raises(InputError, match="kv_heads must divide"):
        SPEC.set("kv_heads", 3)


def test_diff():
    assert SPEC.diff(SPEC) == []
    other = SPEC.set("position", Rope()).set("width", 64).set("pattern.b.window", 5).set("kv_heads", 2)
    found = {d.path: (d.left, d.right) for d in SPEC.diff(other)}
    assert found == {
        "width": (32, 64),
        "kv_heads": (None, 2),
        "position": (Disentangled(), Rope()),
        "pattern.b.window": (4, 5),
    }
    assert [(d.path, d.left, d.right) for d in Rope().diff(Alibi())] == [("", Rope(), Alibi())]
    assert [d.path for d in SPEC.diff(SPEC.set("pattern", Full()))] == ["pattern"]


def test_diff_leads_from_one_to_the_other():
    other = SPEC.set("position", Rope()).set("init", InitSpec.torch()).set("biases.q", True).set("pattern", Full())
    walked = SPEC
    for difference in SPEC.diff(other):
        walked = walked.set(difference.path, difference.right)
    assert walked == other


# -- text, JSON, identity ---------------------------------------------------------------------------------------------


def test_text_names_only_what_is_changed():
    assert str(Rope()) == "Rope()"
    assert str(Rope(theta=500)) == "Rope(theta=500.0)"
    assert str(Causal() & Local(8) | Prefix(2)) == "((Causal() & Local()) | Prefix(n=2))"
    assert str(ModelSpec(width=32, position=Rope())) == "ModelSpec(width=32, position=Rope())"
    assert str(HeadSpec()) == "HeadSpec()"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("-2.5", -2.5),
        ("'a b'", "a b"),
        ("word", "word"),
        ("TRUE", True),
        ("none", None),
        ("(1, 2)", (1, 2)),
        ("[1, Rope]", (1, Rope())),
        ("Causal", Causal()),
        ("  Local( 3 )  ", Local(3)),
        ("And(Causal(), Local(3))", Causal() & Local(3)),
        ("Or(a=Causal, b=Prefix)", Or(Causal(), Prefix())),
    ],
)
def test_parse(text, value):
    assert parse(text) == value
    assert type(parse(text)) is type(value)


def test_json_says_everything():
    data = ModelSpec(position=Rope()).to_json()
    assert data["kind"] == "ModelSpec"
    assert data["position"] == {"kind": "Rope", "theta": 10_000.0, "fraction": 1.0}
    assert data["kv_heads"] is None
    assert data.keys() == {"kind", *(k.name for k in knobs(ModelSpec))}
    assert "file" not in data
    json.dumps(data, allow_nan=False)


def test_ids():
    assert ModelSpec().id == ModelSpec(width=64).id == ModelSpec.from_json(ModelSpec().to_json()).id
    assert len(ModelSpec().id) == 16
    assert set(ModelSpec().id) <= set("0123456789abcdef")
    assert (Causal() & Local()).id != (Causal() | Local()).id
    assert (Causal() & Local()).id != (Local() & Causal()).id
    assert NoPosition().id != Learned().id
    assert Rope(theta=500).id == Rope(theta=500.0).id


def test_an_id_is_the_same_in_every_process_and_release():
    """Runs are found by it: when this changes, every stored run is lost. The canonical form is spelled out here."""
    import hashlib

    canonical = '{"fraction":1.0,"kind":"Rope","theta":10000.0}'
    assert Rope().id == hashlib.sha256(canonical.encode()).hexdigest()[:16]


def test_zero_has_one_id():
    assert ModelSpec(dropout=-0.0) == ModelSpec(dropout=0.0)
    assert ModelSpec(dropout=-0.0).id == ModelSpec(dropout=0.0).id


def test_alternatives_change_one_knob():
    for members in families().values():
        for cls in filter(is_builtin, members.values()):
            part = cls()
            for name, other in alternatives(part):
                assert [d.path for d in part.diff(other)] == [name]
    assert {str(other) for _name, other in alternatives(Shuffle())} == {
        "Shuffle(order='each forward')",
        "Shuffle(seed=1)",
    }
    assert [other for _name, other in alternatives(Biases())] == [
        Biases(q=True),
        Biases(k=True),
        Biases(v=True),
        Biases(out=False),
    ]
    assert {other.slope for _name, other in alternatives(Alibi(slope=2))} == {None}


def test_every_simple_knob_has_an_alternative():
    """The audit tries these: a knob without one is never proved to matter."""
    missing = []
    for members in families().values():
        for cls in filter(is_builtin, members.values()):
            simple = {k.name for k in knobs(cls) if not isinstance(k.default, Spec)}
            missing += [f"{cls.__name__}.{name}" for name in simple - {name for name, _ in alternatives(cls())}]
    assert missing == []


# -- any spec at all --------------------------------------------------------------------------------------------------


def values(kind: Any, default: Any) -> st.SearchStrategy[Any]:
    """Legal and illegal values of a knob; what does not fit is left out by `built`."""
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if isinstance(default, Spec):
        return st.just(default)
    if bool in (kind, *get_args(kind)):
        return st.booleans()
    if int in (kind, *get_args(kind)):
        numbers: st.SearchStrategy[Any] = st.integers(1, 64).map(lambda n: 2 * n)
    else:
        numbers = st.floats(1e-8, 1e8, allow_nan=False) | st.floats(0.01, 1.0)
    return st.none() | numbers if type(None) in get_args(kind) else numbers


@st.composite
def built(draw: st.DrawFn, cls: type[Spec]) -> Spec:
    part = cls()
    for knob in knobs(cls):
        if draw(st.booleans()):
            try:
                part = part.set(knob.name, draw(values(knob.type, knob.default)))
            except InputError:
                continue
    return part


def members(family: str) -> st.SearchStrategy[Any]:
    classes = [c for c in families()[family].values() if is_builtin(c)]
    one = st.sampled_from(classes).flatmap(built)
    if family != "pattern":
        return one
    return st.recursive(one, lambda p: st.builds(And, p, p) | st.builds(Or, p, p), max_leaves=5)


@st.composite
def model_specs(draw: st.DrawFn) -> ModelSpec:
    heads = draw(st.sampled_from([1, 2, 4, 6]))
    spec = ModelSpec(
        heads=heads,
        width=heads * draw(st.integers(1, 8)) * 2,
        kv_heads=draw(st.sampled_from([None, *(n for n in range(1, heads + 1) if heads % n == 0)])),
        head_width=draw(st.none() | st.integers(1, 20)),
        layers=draw(st.integers(1, 9)),
        block=draw(st.integers(1, 4096)),
        dropout=draw(st.floats(0, 1, exclude_max=True)),
        tied=draw(st.booleans()),
        head_bias=draw(st.booleans()),
        biases=draw(built(Biases)),
        head=draw(built(HeadSpec)),
        init=draw(built(InitSpec)),
    )
    for family in ("position", "pattern", "fusion", "norm", "residual", "feedforward", "pooling"):
        spec = spec.set(family, draw(members(family)))
    return spec.set("qk_norm", draw(members("norm"))).set("embedding_norm", draw(members("norm")))


often = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@often
@given(model_specs())
def test_any_spec_survives_text_and_json(spec):
    assert parse(str(spec)) == spec
    again = Spec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.id == spec.id
    assert str(again) == str(spec)


@often
@given(model_specs(), model_specs())
def test_any_two_specs_differ_by_what_diff_says(a, b):
    found = a.diff(b)
    assert (found == []) == (a == b) == (a.id == b.id)
    for path, left, right in found:
        assert a.get(path) == left != right == b.get(path)
    assert sorted(d.path for d in b.diff(a)) == sorted(d.path for d in found)


# -- classes of the user's own ----------------------------------------------------------------------------------------

MINE = '''
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


def written(folder: Path, code: str = MINE) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    return file


def identity(file: Path, text: str = "Near") -> str:
    """The id of a part of this file, in a process that has seen nothing else."""
    with forgotten():
        return parse(f"{file}:{text}").id


def changed(old: str, new: str, code: str = MINE) -> str:
    assert code.count(old) == 1
    return code.replace(old, new)


def test_a_moved_file_keeps_its_ids(tmp_path):
    here = written(tmp_path / "here")
    before = identity(here), identity(here, "Near(by=3)")
    there = tmp_path / "there"
    shutil.move(here.parent, there)
    (there / "mine.py").rename(there / "renamed.py")
    assert (identity(there / "renamed.py"), identity(there / "renamed.py", "Near(by=3)")) == before
    assert before[0] != before[1]


SAME_CODE = {
    "a comment": changed("SCALE = 2", "SCALE = 2  # doubled"),
    "layout": changed("def unrelated", "\n\n\ndef unrelated"),
    "an unrelated function": changed("return 1", "return 2"),
    "an unrelated value": MINE + "\nOTHER = 3\n",
    "an unrelated class": MINE + '\n\nclass Far(Near):\n    """Far ones."""\n',
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


@pytest.mark.parametrize("code", SAME_CODE.values(), ids=SAME_CODE)
def test_what_is_not_its_code_does_not_change_the_id(tmp_path, code):
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
        with forgotten(), pytest.raises(InputError, match="no longer the code") as error:
            Spec.from_json(saved)
        assert "\n" not in str(error.value)
        assert "mine.py" in str(error.value)


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


@pytest.mark.parametrize(("before", "after"), MISSED.values(), ids=MISSED)
def test_a_constant_changed_in_another_way_changes_the_id(tmp_path, before, after):
    assert identity(written(tmp_path / "a", before)) != identity(written(tmp_path / "b", after))


def test_a_name_at_the_top_is_not_a_function_s_own_variable(tmp_path):
    """`i` is an argument of the class's method, whatever a file calls `i` beside it."""
    before, after = (f"{MINE}\ni = {number}\n" for number in (1, 2))
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
    for code in (MINE, OTHER_CODE["the class"]):
        session = ModuleType("session")
        monkeypatch.setitem(sys.modules, "session", session)
        exec(code, session.__dict__)
        ids.add(session.Near().id)
    assert len(ids) == 2


@pytest.mark.usefixtures("fresh")
def test_json_of_a_users_class_says_where_it_is(tmp_path, monkeypatch):
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
def test_a_users_class_may_not_take_the_name_of_a_built_in_one(tmp_path):
    file = written(tmp_path, MINE.replace("Near", "Local"))
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
def test_a_file_that_does_not_import(tmp_path, code, words):
    file = written(tmp_path, code)
    for _ in range(2):  # no half of it is kept
        with pytest.raises(InputError, match="does not import") as error:
            load_file(file)
        assert all(word in str(error.value) for word in ("mine.py", *words))
        assert "\n" not in str(error.value)


@pytest.mark.usefixtures("fresh")
def test_a_file_is_loaded_once_and_again_when_it_is_edited(tmp_path):
    file = written(tmp_path)
    first = load_file(file)
    assert load_file(str(file)) is first
    written(tmp_path, OTHER_CODE["a default"])
    second = load_file(file)
    assert second is not first
    assert (first.Near().by, second.Near().by, parse("Near").by) == (1, 2, 2)
    assert first.Near(by=3).id != second.Near(by=3).id


@pytest.mark.usefixtures("fresh")
def test_what_is_no_python_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file"):
        load_file(tmp_path / "absent.py")
    with pytest.raises(InputError, match="no file"):
        load_file(tmp_path)
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="must end in"):
        load_file(tmp_path / "notes.txt")


@pytest.mark.usefixtures("fresh")
def test_two_files_with_one_class_name_are_never_mixed_up(tmp_path):
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
def test_a_class_that_its_file_no_longer_has(tmp_path):
    file = written(tmp_path)
    with forgotten():
        data = parse(f"{file}:Near").to_json()
    written(tmp_path, MINE.replace("Near", "Nearer"))
    with pytest.raises(InputError, match=r"Near was defined in .*mine\.py and is not there any more") as error:
        Part.from_json(data)
    assert "\n" not in str(error.value)


BOM = "utf-8-sig"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", BOM])
def test_files_in_other_encodings(tmp_path, encoding):
    (tmp_path / "mine.py").write_bytes((f"# coding: {encoding}\n" + changed("Near ones", "Nähe")).encode(encoding))
    assert len(parse(f"{tmp_path / 'mine.py'}:Near").id) == 16


@pytest.mark.usefixtures("fresh")
def test_a_family_cannot_be_declared_twice(tmp_path):
    """A user who writes `family="position"` must not make every position unknown."""
    file = written(tmp_path, 'from headtohead import Part\n\n\nclass Mine(Part, family="position"):\n    """Mine."""\n')
    with pytest.raises(InputError, match="position is a family already"):
        load_file(file)
    assert "Rope" in families()["position"]


def test_specs_use_plain_values_only():
    for cls in (ModelSpec, InitSpec, HeadSpec, Biases):
        for knob in knobs(cls):
            assert knob.help, f"{cls.__name__}.{knob.name}"
            assert isinstance(knob.default, Spec | int | float | str | bool | None)
    assert ModelSpec(norm=RMSNorm()) != ModelSpec(norm=LayerNorm())
