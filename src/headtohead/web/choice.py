"""What the user has chosen on the page Compose, the study that it describes, and what is wrong with it.

The study is made by the function that `h2h run` calls, from the same words. A choice names no file and no code: the
corpus is a known one or an uploaded text, and values that would load a Python file or a checkpoint are refused.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import read_amount
from headtohead.spec import Spec, split_values
from headtohead.study.recipes import study_for
from headtohead.study.study import PLACES, Study
from headtohead.training.arm import Arm
from headtohead.training.arms import arm_for
from headtohead.web import uploads
from headtohead.web.field_text import of_field, without_empty_knobs

TASKS = ("lm", "classifier")
USUAL = "sotu"  # the corpus of a command without --data
MOST_FIELDS, LONGEST = 80, 400  # settings of a choice; characters of a value
PATH = re.compile(r"[a-z_]+(\.[a-z_]+)*")
CLOSED = re.compile(r"data|start(\..*)?|data\.corpus(\.(path|content|hub|validation|test)(\..*)?)?")  # name files
OPTIONS = ("seeds", "max_pairs", "metric", "margin")


@dataclass(frozen=True)
class Choice:
    task: str = "lm"
    data: str = USUAL
    settings: dict[str, str] = field(default_factory=dict)  # by path
    vary: dict[str, str] = field(default_factory=dict)  # values separated by commas, by path
    seeds: str = ""
    max_pairs: str = ""
    metric: str = ""
    margin: str = ""
    effect: str = "1%"

    @classmethod
    def of(cls, **given: Any) -> Choice:
        """The choice that a request describes. Every field is a line of text, or texts by path."""
        unknown = given.keys() - {known.name for known in dataclasses.fields(cls)}
        if unknown:
            raise InputError(f"a choice has no field '{min(unknown)[:60]}': reload the page and try again")
        for name, value in given.items():
            texts = [*value.items()] if name in ("settings", "vary") and isinstance(value, dict) else [(name, value)]
            if len(texts) > MOST_FIELDS:
                raise InputError(f"a study has at most {MOST_FIELDS} settings here: use the command line for more")
            for path, text in texts:
                if not isinstance(text, str) or len(text) > LONGEST or not f"{path}{text}".isprintable():
                    raise InputError(f"{str(path)[:60]} is a line of at most {LONGEST} characters")
        fields: dict[str, Any] = {
            name: value.strip() if isinstance(value, str) else value for name, value in given.items()
        }
        choice = cls(**fields)
        if not isinstance(choice.settings, dict) or not isinstance(choice.vary, dict):
            raise InputError("settings and vary are texts by path: reload the page and try again")
        if choice.task not in TASKS:
            raise InputError(f"there is no task '{choice.task}': {nearest(choice.task, TASKS)}")
        return choice


@dataclass(frozen=True)
class Composed:
    """A choice as far as it could be understood. `problems` are one-line messages by field: data, a setting's path,
    vary.PATH, vary, seeds, max_pairs, metric, margin, effect."""

    problems: dict[str, str]
    control: Arm | None = None
    study: Study | None = None
    settings: tuple[str, ...] = ()  # PATH=VALUE, in an order in which each is valid
    todo: str = ""  # what is still to be chosen
    arguments: dict[str, Any] = field(default_factory=dict)  # of `study_for`


def compose(choice: Choice, home: Path) -> Composed:
    problems: dict[str, str] = {}
    choice = dataclasses.replace(
        choice,
        settings={path: without_empty_knobs(value) for path, value in choice.settings.items()},
        vary={path: without_empty_knobs(values) for path, values in choice.vary.items()},
    )

    def tried(name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except InputError as error:
            problems[name] = uploads.shown_error(error, home)
            return None

    tried("effect", lambda: read_amount(choice.effect))
    data = tried("data", lambda: data_option(choice.data, home))
    start: Arm | None = None if "data" in problems else tried("data", lambda: arm_for(choice.task, data))
    if start is None:
        return Composed(problems)
    control, settings = _control(start, choice.settings, problems, home)
    vary = []
    for path, values in choice.vary.items():
        for value in split_values(values):
            tried(f"vary.{path}", lambda path=path, value=value: _set(control, path, value, PLACES))  # type: ignore[misc]
        vary.append(f"{path}={values}")
    empty = next((path for path, values in choice.vary.items() if not split_values(values)), None)
    todo = "choose what is compared: a part or a setting, and its values" if not vary else ""
    todo = f"add a value of {empty}, or remove it" if empty is not None else todo
    if todo or problems.keys() - {"effect"}:
        return Composed(problems, control, None, tuple(settings), todo)
    given: dict[str, Any] = {"vary": vary, "data": data, "settings": settings}
    plain = tried("vary", lambda: study_for(choice.task, **given, seeds=None, metric=None, margin=None))
    if plain is None:
        return Composed(problems, control, None, tuple(settings))
    options = {name: tried(name, lambda name=name: _option(choice, name)) for name in OPTIONS}  # type: ignore[misc]
    for name, value in options.items():
        if value is not None:
            tried(name, lambda name=name, value=value: dataclasses.replace(plain, **{name: value}))  # type: ignore[misc]
    if problems.keys() - {"effect"}:
        return Composed(problems, control, None, tuple(settings))
    given |= {"name": choice.task, **options}
    study = tried("seeds", lambda: study_for(**given))
    return Composed(problems, control, study, tuple(settings), arguments=given)


def data_option(name: str, home: Path) -> str | None:
    """The value of --data; None for the corpus that a command without it has. No name is used as a path."""
    if name in ("", USUAL):
        return None
    if name.startswith(uploads.PREFIX):
        return str(uploads.find(home, name))
    known = corpus_names()
    if name not in known:
        raise InputError(f"no corpus is called '{name}': {nearest(name, known)}; or upload a text")
    return name


def corpus_names() -> list[str]:
    from headtohead.data.corpora import Files, corpora

    return [corpus.name for corpus in corpora() if not isinstance(corpus, Files)]


def _control(arm: Arm, settings: dict[str, str], problems: dict[str, str], home: Path) -> tuple[Arm, list[str]]:
    """Apply settings in an order in which each is valid: a width before the heads that divide it, or after them."""
    left, done = dict(settings), []
    while left:
        errors = {}
        for path, value in left.items():
            try:
                arm = _set(arm, path, value)
                done.append(f"{path}={value}")
            except InputError as error:
                errors[path] = uploads.shown_error(error, home)
        if len(errors) == len(left):
            problems |= errors
            break
        left = {path: left[path] for path in errors}
    return arm, done


def _set(arm: Arm, path: str, value: str, places: tuple[str, ...] = (*PLACES, "evaluate")) -> Arm:
    """The arm with one setting changed, if the page may change it."""
    if not value:
        raise InputError(f"{path} has no value: give one, or remove the setting")
    if not PATH.fullmatch(path) or path.split(".")[0] not in places or CLOSED.fullmatch(path):
        raise InputError(f"{path} cannot be set here: use the command line")
    if ".py:" in value.replace(" ", ""):
        raise InputError("parts of your own files are not loaded by the page: use the command line")
    try:
        arm = arm.settings([f"{path}={value}"])
    except InputError as error:
        raise of_field(error, path) from None
    if "Pieces" in str(arm.tokenizer):
        raise InputError("Pieces reads a pretrained checkpoint, which the page does not do: use the command line")
    return arm


def _option(choice: Choice, name: str) -> Any:
    text = getattr(choice, name)
    if not text or name in ("metric", "margin"):
        return text or None
    if name == "max_pairs" and choice.seeds:
        return None  # a fixed number of pairs was chosen
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InputError(f"the number of pairs is a whole number, such as 8, not '{text}'")
    return int(text)


# -- the same in Python, and back from a command -----------------------------------------------------------------------


def python_code(study: Study, settings: tuple[str, ...]) -> str:
    """A program that runs the same study."""
    control = study.control
    start = Arm.of(control.task)
    corpus = "" if start.data.corpus == control.data.corpus else f", {_python(control.data.corpus)}"
    made = f'Arm.of("{control.task}"{corpus})'
    if settings:
        made += ".settings(\n        [\n" + "".join(f"            {s!r},\n" for s in settings) + "        ]\n    )"
    assert isinstance(study.vary, dict)
    vary = {path: [control.set(path, value).get(path) for value in values] for path, values in study.vary.items()}
    lines = [f"    question={study.question!r},", f"    control={made},", "    vary={"]
    lines += [f"        {path!r}: [{', '.join(map(_python, values))}]," for path, values in vary.items()]
    lines += ["    },"]
    usual = {f.name: f.default for f in dataclasses.fields(Study)}
    for name in OPTIONS:
        if getattr(study, name) != usual[name] and not (name == "max_pairs" and study.seeds is not None):
            lines.append(f"    {name}={getattr(study, name)!r},")
    body = "\n".join(["study = Study(", *lines, ")", "outcome = study.run()", "print(outcome)"])
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    imported = sorted(names - {"study", "outcome", "print"})
    return f"from headtohead import {', '.join(imported)}\n\n{body}\n"


def _python(value: Any) -> str:
    """A value as Python code. The text form of a spec is the call that makes it."""
    return str(value) if isinstance(value, Spec) else repr(value)


def choice_of(command: str, home: Path) -> Choice:
    """The choice that a study's command describes, so that the page can change it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    options = {"--vary", "--set", "--data", "--seeds", "--max-pairs", "--metric", "--margin"}
    pairs = list(zip(words[3::2], words[4::2], strict=False))
    if words[:2] != ["h2h", "run"] or words[2:3] == [] or words[2] not in TASKS or len(words) % 2 == 0:
        raise InputError(f"this study is not one that the page can change: edit its recipe, or the command {command}")
    given: dict[str, Any] = {"task": words[2], "settings": {}, "vary": {}}
    for option, value in pairs:
        if option not in options:
            raise InputError(f"the page does not know {option}: change the command itself, {command}")
        if option in ("--set", "--vary"):
            path, _, text = value.partition("=")
            given["settings" if option == "--set" else "vary"][path.strip()] = text.strip()
        elif option == "--data":
            known = {str(path): name for name, path in uploads.listed(home).items()}
            given["data"] = known.get(value, value)
        else:
            given[option[2:].replace("-", "_")] = value
    return Choice.of(**given)
