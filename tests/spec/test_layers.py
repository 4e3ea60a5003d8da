"""Parts that differ from layer to layer: their text, JSON, identity and the layers that each part takes."""

import json

import pytest

from headtohead import Alibi, Causal, InputError, LayerNorm, Layers, Local, ModelSpec, NoPosition, Rope, Spec, parse
from headtohead.spec.spec import family_of

CASES = [
    ("3*Local(8) + Causal", 8, "LLLCLLLC"),
    ("Causal + Local", 5, "CLCLC"),
    ("2*Causal + 2*Local", 4, "CCLL"),
    ("Causal + ...*Local + Causal", 6, "CLLLLC"),
    ("...*Local + Causal", 3, "LLC"),
    ("2*Causal + ...*Local", 5, "CCLLL"),
    ("3 × Local(8) + 1 × Causal", 4, "LLLC"),
    ("2*(Causal & Local(3)) + Causal", 3, "AAC"),
]
cases = pytest.mark.parametrize(("text", "layers", "expected"), CASES, ids=[case[0] for case in CASES])


def letters(value: Layers, layers: int) -> str:
    return "".join(type(part).__name__[0] for part in value.over(layers))


@cases
def test_text_says_which_layers_have_which_part(text, layers, expected):
    assert letters(parse(text), layers) == expected


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_layers_survive_text_and_json(text):
    value = parse(text)
    assert parse(str(value)) == value
    again = Spec.from_json(json.loads(json.dumps(value.to_json())))
    assert (again, again.id, hash(again)) == (value, value.id, hash(value))


def test_layers_are_written_in_python_as_in_text():
    assert 3 * Local(8) + Causal() == parse("3*Local(8) + Causal")
    assert Causal() + ... * Local(8) + Causal() == parse("Causal + ...*Local(8) + Causal")
    assert Local(8) * 2 + Causal() == 2 * Local(8) + Causal()
    assert Local(8) + Local(8) + Causal() == 2 * Local(8) + Causal(), "neighbours that are equal are counted"
    assert Causal() + (Local(8) + Causal()) == Causal() + Local(8) + Causal()


def test_patterns_of_layers_are_combined_with_a_pattern():
    value = Causal() & (2 * Local(3) + Local(5))
    assert value.over(3) == (Causal() & Local(3), Causal() & Local(3), Causal() & Local(5))
    assert ((Local(3) + Local(5)) | Causal()).over(2) == (Local(3) | Causal(), Local(5) | Causal())


def test_one_value_of_a_knob_differs_and_so_does_the_id():
    a, b = ModelSpec(pattern=3 * Local(8) + Causal()), ModelSpec(pattern=3 * Local(9) + Causal())
    assert a.id != b.id
    assert [d.path for d in a.diff(b)] == ["pattern"]
    assert ModelSpec().diff(a)[0].path == "pattern"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3*Local + LayerNorm", "parts of one family, not of norm and pattern"),
        ("...*Local + ...*Causal", "only one can take the layers that are left"),
        ("0*Local + Causal", "count from 1"),
        ("2.5*Local + Causal", "a whole number or '...'"),
        ("True*Local", "a whole number or '...'"),
        ("3*Locale + Causal", "no part is called 'Locale': did you mean Local?"),
        ("2*3 + 4", "only names, numbers, calls of parts, &, |, * and +"),
        ("(Causal + Local) & (Local + Causal)", "combine the parts of each layer"),
        ("Causal + 3", "cannot read 'Causal + 3'"),
        ("Layers()", "at least one part"),
    ],
)
def test_mistakes_are_one_line(text, words):
    with pytest.raises(InputError) as error:
        parse(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("pattern", "3*Local + 2*Causal", "needs at least 5 layers, and the model has 4"),
        ("pattern", "2*Causal + ...*Local + 2*Causal", "needs at least 5 layers, and the model has 4"),
        ("pattern", "LayerNorm + RMSNorm", "model.pattern takes parts of the family pattern"),
        ("qk_norm", "Causal + Local", "model.qk_norm takes parts of the family norm"),
        ("pooling", "Mean + Max", "must be a Pooling"),
        ("width", "3*Local", "a whole number"),
    ],
)
def test_layers_that_do_not_fit_the_model_are_refused(path, text, words):
    with pytest.raises(InputError) as error:
        ModelSpec().set(path, text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_each_layer_knows_its_own_parts():
    spec = ModelSpec(layers=4, position=NoPosition() + Rope(), norm=... * LayerNorm() + LayerNorm(eps=1e-3))
    assert spec.each("position") == (NoPosition(), Rope(), NoPosition(), Rope())
    assert [spec.layer(n).position for n in range(4)] == list(spec.each("position"))
    assert spec.layer(3).norm == LayerNorm(eps=1e-3)
    assert spec.only(1) == ModelSpec(layers=1, position=Rope(), norm=LayerNorm())


def test_a_setting_knows_its_family():
    assert family_of(Rope) == family_of(Rope | Layers) == "position"
    assert family_of(int) == family_of(int | None) == ""


def test_layers_of_one_part_are_that_part_everywhere():
    assert ModelSpec(position=4 * Alibi()).each("position") == (Alibi(),) * 4
