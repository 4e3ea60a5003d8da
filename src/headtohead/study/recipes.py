"""Studies by name: a Python file, a recipe, or a task with `--vary`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.run import store
from headtohead.run.studies import has_study
from headtohead.spec import split_values
from headtohead.spec.userfiles import find_recipe, load_file, recipe_names
from headtohead.study.execution import folder_of
from headtohead.study.study import Study, folder_name, task_name
from headtohead.training.arm import Arm
from headtohead.training.arms import arm_for


def load_study(recipe: str) -> Study:
    """Load the study of a Python file, or FILE.py:NAME if it has several. An unnamed study gets the file's name."""
    file, which = find_recipe(recipe)
    studies = {k: v for k, v in vars(load_file(file)).items() if isinstance(v, Study)}
    if which and which not in studies:
        raise InputError(f"{file} has no study '{which}': {nearest(which, studies)}")
    if not which and len(studies) != 1:
        problem = "has no Study" if not studies else f"has {len(studies)} studies"
        remedy = f"choose one: {file}:{next(iter(studies))}" if studies else "write one: study = Study(question=…, …)"
        raise InputError(f"{file} {problem}: {remedy}")
    name = which or next(iter(studies))
    study, stem = studies[name], Path(file).stem
    return study if study.name else dataclasses.replace(study, name=stem if len(studies) == 1 else f"{stem}-{name}")


def recipe(name: str) -> Study:
    """Load a study by the path of its file, FILE.py:NAME, or the name of a recipe: demo, published/window:window."""
    if ".py" in name or find_recipe(name)[0].is_file():
        return load_study(name)
    raise InputError(f"no recipe '{name}': {nearest(name, recipe_names())}; or give the path of a Python file")


def vary_in(control: Arm, vary: list[str]) -> Study:
    """The study of `--vary FIELD=VALUE,VALUE` options."""
    fields: dict[str, list[str]] = {}
    for option in vary:
        path, equals, values = option.partition("=")
        if not equals or not split_values(values):
            raise InputError(f"--vary takes FIELD=VALUE,VALUE, such as model.position=Learned,Rope, not '{option}'")
        if path.strip() in fields:
            raise InputError(f"--vary {path.strip()} is given twice: give all values in one list, separated by commas")
        fields[path.strip()] = split_values(values)
    return Study(
        question=f"Which {' and '.join(fields)} is best for a {task_name(control)}?",
        control=control,
        vary=fields,
        name=folder_name(control, list(fields)),
    )


def study_for(
    name: str,
    *,
    vary: list[str] | None,
    data: str | None,
    settings: list[str],
    seeds: int | None,
    metric: str | None,
    margin: str | None,
    until: str | None = None,
    max_pairs: int | None = None,
    futility: bool = False,
    rule: str | None = None,
    published: float | None = None,
) -> Study:
    """The study that the arguments of `h2h run` describe."""
    if until not in (None, "resolved"):
        raise InputError(f"--until takes the word resolved, not '{until}'")
    if seeds is not None and (until or max_pairs or futility):
        raise InputError(
            "--seeds fixes the number of pairs: leave it out, or leave out --until, --max-pairs, --futility"
        )
    if name in ("lm", "classifier"):
        if not vary:
            raise InputError(f"say what to vary: h2h run {name} --vary model.position=Learned,Rope")
        control = arm_for(name, data, None, None, None, None, settings)
        study = vary_in(control, vary)
    else:
        if vary or data:
            raise InputError("--vary and --data are for lm or classifier: leave them out, a recipe has its own")
        study = recipe(name).set(*settings)
    given: dict[str, Any] = {"vary": vary, "data": data, "set": settings, "seeds": seeds}
    given |= {"metric": metric, "margin": margin, "rule": rule, "published": published}
    given |= {"until": until, "max-pairs": max_pairs, "futility": futility or None}
    changes: dict[str, Any] = {
        k: given[k] for k in ("seeds", "metric", "margin", "rule", "published") if given[k] is not None
    }
    if until or max_pairs or futility:
        changes |= {"seeds": None, "futility": futility} | ({"max_pairs": max_pairs} if max_pairs else {})
    if any(given.values()) or not study.command:
        changes["command"] = _typed(name, given)
    return dataclasses.replace(study, **changes)


def _typed(name: str, given: dict[str, Any]) -> str:
    """The command that runs this study again."""
    words = ["h2h", "run", name]
    for option, value in given.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{option}"] if one is True else [f"--{option}", str(one)]
    return shlex.join(words)


def folder_named(file: str) -> Path:
    """The store's folder of the study that a recipe describes now."""
    folder = folder_of(recipe(file), store.home())
    if not has_study(folder):
        raise InputError(f"{file} has not been run here yet: h2h run {file}")
    return folder
