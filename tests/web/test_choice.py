"""A choice of the page is the study of the command; what is wrong with it stands beside its field."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from headtohead import Study
from headtohead.errors import InputError
from headtohead.spec import families
from headtohead.spec.spec import is_builtin
from headtohead.study.layout import layout_of
from headtohead.study.recipes import study_for
from headtohead.web import uploads
from headtohead.web.choice import Choice, choice_of, compose, python_code

ROPE = {"model.position": "Rope(theta=500),NoPosition"}


def ids(study: Study) -> list[str]:
    return [spec.id for spec in layout_of(study, {}, "cpu", 1).in_order()]


def by_command(command: str) -> Study:
    """The study that `h2h run` makes of the words of a command."""
    words = shlex.split(command)[2:]
    given: dict[str, Any] = {"vary": [], "settings": [], "data": None, "seeds": None, "metric": None, "margin": None}
    for option, value in zip(words[1::2], words[2::2], strict=True):
        name = {"--set": "settings"}.get(option, option[2:].replace("-", "_"))
        given[name] = [*given[name], value] if name in ("vary", "settings") else value
    for name in ("seeds", "max_pairs"):
        if given.get(name):
            given[name] = int(given[name])
    return study_for(words[0], **given)


@pytest.mark.parametrize(
    "given",
    [
        {"vary": ROPE},
        {"vary": ROPE | {"train.optimizer.lr": "0.001,0.01"}, "settings": {"model.heads": "3", "model.width": "48"}},
        {"vary": {"model.pattern": "Causal & Local(4)"}, "seeds": "8", "margin": "1%", "metric": "obama/perplexity"},
        {"vary": {"model.position": "Disentangled(terms='content-to-position')"}, "max_pairs": "30"},
        {"task": "classifier", "vary": {"model.pooling": "First,Max"}, "settings": {"train.epochs": "2"}},
    ],
)
def test_page_command_and_code_are_the_same_study(given: Any, home: Path, monkeypatch: pytest.MonkeyPatch):
    made = compose(Choice.of(**given), home)
    assert made.problems == {}
    assert made.study is not None
    assert ids(by_command(made.study.command)) == ids(made.study)
    run: list[Study] = []
    monkeypatch.setattr(Study, "run", lambda study: run.append(study))
    exec(python_code(made.study, made.settings), {})
    assert ids(run[0]) == ids(made.study)
    assert (run[0].id, run[0].folder_name) == (made.study.id, made.study.folder_name)
    again = compose(choice_of(made.study.command, home), home).study
    assert again is not None
    assert again.command == made.study.command


def test_every_part_can_be_imported_and_written_as_code():
    import headtohead

    parts = [
        part
        for of in ("model", "train", "data")
        for members in families(of).values()
        for part in members.values()
        if is_builtin(part)  # other tests define parts of their own
    ]
    names = {part.__name__: getattr(headtohead, part.__name__) for part in parts}
    for part in parts:
        assert eval(str(part()), names.copy()) == part()


def test_an_uploaded_text_is_named_by_its_path_in_the_store(text: Path, home: Path):
    data = uploads.keep(home, "Mine & yours.txt", text.read_bytes())
    made = compose(Choice.of(data=data, vary=ROPE), home)
    assert made.study is not None
    assert shlex.split(made.study.command)[-1] == str(uploads.find(home, data))
    assert made.study.folder_name == "lm-Mine-yours-position"
    assert choice_of(made.study.command, home).data == data


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"settings": {"model.heads": "3"}}, "model.heads", "not divisible by 3 heads"),
        ({"settings": {"model.position": "Ropee"}}, "model.position", "did you mean Rope"),
        ({"settings": {"model.widht": "3"}}, "model.widht", "did you mean width"),
        ({"settings": {"train.batch": ""}}, "train.batch", "has no value"),
        (
            {"vary": {"model.position": "Rope(theta=x)"}},
            "vary.model.position",
            "theta of Rope: a number above 1, not 'x'",
        ),
        ({"settings": {"model.width": "abc"}}, "model.width", "width: a whole number from 1 to 65,536, not 'abc'"),
        ({"settings": {"model.biases.out": "7"}}, "model.biases.out", "biases.out: True or False, not 7"),
        ({"settings": {"train.optimizer.betas": "-1"}}, "train.optimizer.betas", "betas: 2 values, such as (0.9"),
        ({"vary": {"model.position": "Learned"}}, "vary", "only values that the control has"),
        ({"vary": {"evaluate.every": "3,4"}}, "vary.evaluate.every", "cannot be set here"),
        ({"vary": ROPE, "seeds": "1"}, "seeds", "at least 2 seeds"),
        ({"vary": ROPE, "seeds": "six"}, "seeds", "whole number"),
        ({"vary": ROPE, "max_pairs": "2"}, "max_pairs", "pairs"),
        ({"vary": ROPE, "metric": "test/accuracy"}, "metric", "has no 'accuracy'"),
        ({"vary": ROPE, "margin": "a bit"}, "margin", "a margin or effect is"),
        ({"vary": ROPE, "effect": "-1"}, "effect", "above zero"),
        ({"task": "classifier", "data": "shakespeare"}, "data", "no labels"),
        ({"data": "sotuu"}, "data", "did you mean sotu"),
    ],
)
def test_problems_stand_beside_their_field(given: Any, field: str, said: str, home: Path):
    found = compose(Choice.of(**given), home).problems
    assert list(found) == [field]
    assert said in found[field]
    assert "\n" not in found[field]


def test_an_empty_knob_has_its_default(home: Path):
    for typed in ("Rope(theta=)", "Rope(theta=, fraction= )", "Rope( fraction=,theta=)"):
        made = compose(Choice.of(vary={"model.position": typed}), home)
        assert (made.problems, [str(v.arm.model.position) for v in made.study.variants[1:]]) == ({}, ["Rope()"])
    made = compose(Choice.of(vary={"model.position": "Rope(theta=, fraction=0.5)"}), home)
    assert str(made.study.variants[1].arm.model.position) == "Rope(fraction=0.5)"


def test_a_running_text_has_no_labels(text: Path, home: Path):
    data = uploads.keep(home, "mine.txt", text.read_bytes())
    found = compose(Choice.of(task="classifier", data=data), home).problems
    assert found["data"].startswith("mine.txt is running text")  # without its path


@pytest.mark.parametrize("order", [["model.width", "model.heads"], ["model.heads", "model.width"]])
def test_settings_are_put_into_an_order_in_which_each_is_valid(order: list[str], home: Path):
    values = {"model.width": "48", "model.heads": "3"}
    made = compose(Choice.of(settings={path: values[path] for path in order}, vary=ROPE), home)
    assert made.settings == ("model.width=48", "model.heads=3")


def test_what_is_still_to_be_chosen_is_no_problem(home: Path):
    nothing, empty = compose(Choice.of(), home), compose(Choice.of(vary={"model.position": ""}), home)
    assert (nothing.problems, empty.problems) == ({}, {})
    assert "choose what is compared" in nothing.todo
    assert "add a value of model.position" in empty.todo


# -- no path and no code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.position", "FILE:Wobble"),
        ("model.position", " FILE :Wobble"),
        ("model.pattern", "Causal & FILE:Wobble"),
        ("start", "Pretrained(checkpoint='/etc')"),
        ("start.checkpoint", "/etc"),
        ("tokenizer", "Pieces(checkpoint='/etc')"),
        ("data", "DataSpec(corpus=Files(path='/etc/passwd'))"),
        ("data.corpus", "Files(path='/etc/passwd')"),
        ("data.corpus ", "Files(path='/etc/passwd')"),
        (" data.corpus", "Files(path='/etc/passwd')"),
        ("data.corpus.path", "/etc/passwd"),
        ("data.corpus.validation.path", "/etc/passwd"),
        ("data.corpus.test", "Held(path='/etc/passwd')"),
        ("data.corpus.hub", "/etc"),
        ("task", "classifier"),
    ],
)
def test_no_setting_names_a_file_or_code(path: str, value: str, home: Path, tmp_path: Path):
    mine = tmp_path / "mine.py"
    mine.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    value = value.replace("FILE", str(mine))
    for given in ({"settings": {path: value}}, {"vary": {path: value}}):
        made = compose(Choice.of(**given), home)
        assert made.study is None
        assert len(made.problems) == 1
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("data", ["/etc/passwd", "../x.txt", "upload-../x", "a file of yours", "a\0b"])
def test_no_corpus_is_a_path(data: str, home: Path):
    try:
        found = compose(Choice.of(data=data), home).problems
    except InputError:
        return  # not a line of text
    assert list(found) == ["data"]


@pytest.mark.parametrize(
    "given",
    [
        {"settings": []},
        {"settings": {"model.width": 3}},
        {"vary": "model.position=Rope"},
        {"seeds": 3},
        {"task": None},
        {"task": "lmm"},
        {"metric": "x" * 500},
        {"margin": "1\n2"},
        {"settings": {f"model.x{n}": "1" for n in range(100)}},
    ],
)
def test_odd_requests_are_one_line(given: Any):
    with pytest.raises(InputError) as error:
        Choice.of(**given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "h2h run",
        "h2h run mine.py",
        "rm -rf /",
        "h2h run lm --jobs 2",
        "h2h run lm --vary",
        "h2h run lm '",
        "h2h demo",
    ],
)
def test_other_commands_are_no_choice(command: str, home: Path):
    with pytest.raises(InputError):
        choice_of(command, home)
