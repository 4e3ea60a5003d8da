"""What the commands for studies do, without a terminal: names to recipes, options to studies."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import Arm
from headtohead.audit.kept import audit_once
from headtohead.commands import arm_for
from headtohead.errors import InputError, describe, nearest
from headtohead.outcome import load_outcome
from headtohead.study import Study, load_study, split_values
from headtohead.userfiles import load_file

RECIPES = Path("recipes")


def recipes() -> dict[str, Path]:
    """Recipes of this folder by name; those of the reports are `published/window` and so on."""
    found = [*sorted(RECIPES.glob("*.py")), *sorted((RECIPES / "published").glob("*.py"))] if RECIPES.is_dir() else []
    return {f.relative_to(RECIPES).with_suffix("").as_posix(): f for f in found}


def recipe(name: str) -> Study:
    """A study by the path of its file, FILE.py:NAME, the name of a file in recipes/, or demo."""
    if name == "demo":
        from headtohead.demo import demo

        return demo
    if name.endswith(".py") or ".py:" in name:
        return load_study(name)
    known = recipes()
    if name in known:
        return load_study(str(known[name]))
    raise InputError(f"no recipe '{name}': {nearest(name, ['demo', *known])}; or give the path of a Python file")


def vary_in(control: Arm, vary: list[str]) -> Study:
    fields: dict[str, list[str]] = {}
    for said in vary:
        path, equals, values = said.partition("=")
        if not equals or not split_values(values):
            raise InputError(f"--vary takes FIELD=VALUE,VALUE, such as model.position=Learned,Rope, not '{said}'")
        if path.strip() in fields:
            raise InputError(f"--vary {path.strip()} is given twice: name all its values in one, parted by commas")
        fields[path.strip()] = split_values(values)
    corpus = control.data.corpus
    own = Path(corpus.path).stem if corpus.path else corpus.name
    what = " and ".join(fields)
    return Study(
        question=f"Which {what} is best for a {'language model' if control.task == 'lm' else control.task}?",
        control=control,
        vary=fields,
        name="-".join([control.task, own.strip(".") or "file", *(path.rpartition(".")[2] for path in fields)]),
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
) -> Study:
    if name in ("lm", "classifier"):
        if not vary:
            raise InputError(f"say what to vary: h2h run {name} --vary model.position=Learned,Rope")
        control = arm_for(name, data, None, None, None, None, settings)
        study = vary_in(control, vary)
    else:
        if vary or data:
            raise InputError("--vary and --data go with lm or classifier; a recipe says itself what it varies")
        study = recipe(name).set(*settings)
    given = {"vary": vary, "data": data, "set": settings, "seeds": seeds, "metric": metric, "margin": margin}
    changes: dict[str, Any] = {k: given[k] for k in ("seeds", "metric", "margin") if given[k] is not None}
    if any(given.values()) or not study.command:
        changes["command"] = _typed(name, given)
    return dataclasses.replace(study, **changes)


def _typed(name: str, given: dict[str, Any]) -> str:
    """The command that asks for this study again."""
    words = ["h2h", "run", name]
    for option, value in given.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{option}", str(one)]
    return shlex.join(words)


def audited(study: Study) -> Iterator[float | list[str]]:
    """Every model of the study, before it is trained: the share that is done, then what is wrong, a line each."""
    import torch

    torch.set_num_threads(1)  # of many small operations
    arms = {variant.arm.model.id: variant for variant in reversed(study.variants)}  # by its first name
    wrong: list[str] = []
    for done, variant in enumerate(reversed(arms.values()), start=1):
        try:
            report = audit_once(variant.arm.model, variant.name, causal=variant.arm.task == "lm", home=store.home())
        except Exception as error:  # of a part that cannot be built: its runs fail, and the others go on
            wrong.append(f"warning: {variant.name} cannot be audited: {describe(error)}")
        else:
            if report.broken:
                first, *more = report.broken
                rest = f", and {len(more)} more" if more else ""
                wrong.append(
                    f"warning: the audit of {variant.name} finds {first.check} broken{rest}: {first.evidence}; "
                    f"{first.meaning}"
                )
        yield done / len(arms)
    yield wrong


def folder_named(file: str) -> Path:
    """Where the store has the study of a recipe as it stands."""
    from headtohead.carry import folder_of

    folder = folder_of(recipe(file), store.home())
    if not (folder / "study.json").is_file():
        raise InputError(f"{file} has not been run here yet: h2h run {file}")
    return folder


def study_rows() -> list[dict[str, Any]]:
    base = store.home() / "studies"
    rows = []
    for folder in sorted(base.iterdir()) if base.is_dir() else []:
        if not (folder / "study.json").is_file():
            continue
        try:
            said = load_outcome(folder).said
            arms = len(said["tables"][0]["arms"])
            rows.append(
                {"study": folder.name, "question": said["question"], "arms": arms, "seeds": len(said["seeds"])}
                | {"metric": said["metric"]}
            )
        except InputError as error:
            rows.append({"study": folder.name, "question": str(error), "arms": 0, "seeds": 0, "metric": ""})
    return rows


def recipe_rows() -> list[dict[str, Any]]:
    """Every recipe here: what it asks, its command, its usual time."""
    rows = []
    for name, file in [("demo", None), *recipes().items()]:
        try:
            studies = (
                [recipe("demo")]
                if file is None
                else [v for v in vars(load_file(file)).values() if isinstance(v, Study)]
            )
        except InputError as error:
            rows.append({"recipe": name, "question": str(error), "command": "", "takes": "", "expected": ""})
            continue
        rows += [
            {"recipe": name, "question": s.question, "command": s.command, "takes": s.takes, "expected": s.expected}
            for s in studies
        ]
    return rows
