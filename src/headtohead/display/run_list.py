"""What `h2h list runs` and `h2h list studies` show: rows read from the store, and filters on them. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from headtohead.display.catalogue import Catalogue, Json, catalogue, is_spec
from headtohead.display.shown import shown
from headtohead.display.training_screen import figures
from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import main_figure
from headtohead.run import store
from headtohead.run.studies import find_study, read_study, study_folders

STATES = ("complete", "diverged", "failed", "running", "stopped", "damaged", "unreadable")
WHOLE = ("seed", "threads")  # fields whose values are whole numbers


@dataclass(frozen=True)
class Listed:
    """One run: the row of `--json`, and a line on the screen."""

    row: dict[str, Any]
    spec: Json  # the content of run.json; None where it cannot be read
    cells: tuple[str, ...]  # id, state, task, corpus, seed, what differs, the main figure


def runs(
    study: str | None = None, where: Sequence[str] = (), last: int | None = None, home: Path | None = None
) -> list[Listed]:
    """Runs of the store, the latest last, filtered by study, by FIELD=VALUE conditions and to the last few."""
    known = catalogue()
    records = store.runs(home)
    if study is not None:
        own = set(read_study(find_study(study, home or store.home())).runs)
        records = [record for record in records if record.id in own]
    listed = [_listed(record, known) for record in records]
    conditions = [_condition(text, listed, known) for text in where]
    found = [one for one in listed if all(holds(one) for holds in conditions)]
    return found if last is None else found[-last:]


def run_rows(home: Path | None = None) -> list[dict[str, Any]]:
    """Every run in the store, the latest last."""
    return [one.row for one in runs(home=home)]


def _listed(record: store.Record, known: Catalogue) -> Listed:
    try:
        state = record.state
        return _described(record, state, known)
    except InputError as error:
        state = "damaged" if record.has_result and record.damage else "unreadable"
        row = {"run": record.id, "state": state, "what": str(error), "result": ""}
        return Listed(row, None, (record.id[:8], state, "", "", "", str(error), ""))


def _described(record: store.Record, state: str, known: Catalogue) -> Listed:
    """A run as its differences from the task's default arm, with its main figures."""
    said, result = record.spec, record.result
    try:
        arm, seed = said["arm"], said["seed"]
        corpus, train = arm["data"]["corpus"], arm["train"]
        name = known.corpus_name(corpus)
        differs = known.differences(arm)
        unset = {f"train.{k}" for k in ("steps", "epochs") if train.get(k) is None}  # the other one is given
    except (KeyError, TypeError, AttributeError):
        raise InputError("run.json does not hold a run's spec: it was not written by headtohead") from None
    changed = {path: value for path, value in differs.items() if path not in unset}
    more = "".join(f", {path}={known.text(value)}" for path, value in changed.items())
    values = result.values if result else {}
    held = {k: v for k, v in values.items() if not k.startswith("train/")}
    row = {
        "run": record.id,
        "state": state,
        "what": f"{arm['task']} on {corpus.get('path') or name}, seed {seed}{more}",
        "result": figures(held) if held else (result.ended if result else ""),
        "task": arm["task"],
        "corpus": name,
        "seed": seed,
        "steps": result.steps if result else None,
        "differs": {path: known.text(value) for path, value in differs.items()},
        "values": values,
    }
    where = PurePath(corpus.get("path") or name).name
    cells = (record.id[:8], state, row["task"], where, str(seed), _short(changed), main_figure(held))
    return Listed(row, said, cells)


def _short(changed: dict[str, Json]) -> str:
    """position=Rope, optimizer.lr=0.001: without the group."""
    names = [path.partition(".")[2] or path for path in changed]
    twice = {name for name in names if names.count(name) > 1}
    told = (path if name in twice else name for path, name in zip(changed, names, strict=True))
    return ", ".join(f"{name}={shown(value)}" for name, value in zip(told, changed.values(), strict=True))


# -- filters -----------------------------------------------------------------------------------------------------------


def _condition(text: str, listed: list[Listed], known: Catalogue) -> Callable[[Listed], bool]:
    """A condition FIELD=VALUE. An unknown field or part is an error, not an empty list."""
    field, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not field or not value:
        raise InputError(f"--where takes FIELD=VALUE, such as model.position=Rope or seed=3, not '{text}'")
    _check_field(field, listed, known)
    _check_value(field, value, listed, known)
    wanted = known.canonical(value)
    return lambda one: any(_matches(found, value, wanted, known) for found in _values(one, field))


def _values(one: Listed, field: str) -> list[Json]:
    """The values of a run in a field: of its row, or of its spec by path. A corpus has a name and perhaps a path."""
    if field in ("run", "state", "task", "seed"):
        return [one.row[field]] if field in one.row else []
    if one.spec is None:
        return []
    if field in ("corpus", "data.corpus"):
        corpus = one.spec["arm"]["data"]["corpus"]
        return [one.row["corpus"], corpus, *filter(None, [corpus.get("path")])]
    found: Json = one.spec if field in ("device", "threads") else one.spec["arm"]
    for name in field.split("."):
        if not isinstance(found, dict) or name not in found:
            return []
        found = found[name]
    return [found]


def _matches(found: Json, typed: str, wanted: str, known: Catalogue) -> bool:
    if is_spec(found) and typed == found["kind"]:
        return True  # a part's name matches it with any knobs
    if isinstance(found, int | float) and not isinstance(found, bool):
        return _number(typed) == found
    return known.text(found) in (typed, wanted)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_field(field: str, listed: list[Listed], known: Catalogue) -> None:
    names = {"run", "state", "task", "corpus", "seed", "device", "threads", *(s.name for s in known.settings)}
    family = next((s.type for s in known.settings if s.name == field.rpartition(".")[0]), None)
    knob = any(form.family == family and field.rpartition(".")[2] in form.knobs for form in known.forms.values())
    if field not in names and not knob and not any(_values(one, field) for one in listed):
        raise InputError(f"runs have no field '{field}': {_nearest(field, names)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    """The closest name, and the command that lists all names if there are many."""
    said = nearest(name, known)
    return said if len(said) < 200 else said.partition("known:")[0] + "see h2h list settings"


def _check_value(field: str, value: str, listed: list[Listed], known: Catalogue) -> None:
    setting = next((s for s in known.settings if s.name == field), None)
    kind = setting.type if setting else ""
    if field in WHOLE and not value.isdecimal():
        raise InputError(f"{field} is a whole number, such as {field}=3, not '{value}'")
    if re.fullmatch(r"(int|float)( \| None)?", kind) and _number(value) is None and value.lower() != "none":
        default = setting.default if setting else ""
        raise InputError(f"{field} is a number, such as {field}={default}, not '{value}'")
    names = _names(field, kind, known)
    if names:
        names |= {text for one in listed for found in _values(one, field) for text in _named(found)}
        first = re.split(r"[(&|\s]", value.lstrip("("), maxsplit=1)[0]  # the first part of several, without its knobs
        if value not in names and first not in names:
            what = kind if kind and " or " not in kind else field
            raise InputError(f"no {what} is called '{first}': {nearest(first, names)}")


def _names(field: str, kind: str, known: Catalogue) -> set[str]:
    """The names that a field can have as values."""
    if field == "state":
        return set(STATES)
    if field == "task":
        return set(known.arms)
    if " or " in kind:
        return set(kind.split(" or "))
    family = "corpus" if field == "corpus" else kind
    forms = {name: form for name, form in known.forms.items() if form.family and form.family == family}
    return {form.name or name for name, form in forms.items()} | set(forms)


def _named(found: Json) -> list[str]:
    """The names of a value: a part is named by its class."""
    return [found["kind"]] if is_spec(found) else [str(found)]


# -- studies -----------------------------------------------------------------------------------------------------------


def study_rows(home: Path | None = None) -> list[dict[str, Any]]:
    rows = []
    for folder in study_folders(home or store.home()):
        try:
            study = read_study(folder)
            arms, seeds = len(study.tables[0].arms), len(study.seeds)
            rows.append(
                {"study": folder.name, "question": study.question, "arms": arms, "seeds": seeds}
                | {"metric": study.metric}
            )
        except InputError as error:
            rows.append({"study": folder.name, "question": str(error), "arms": 0, "seeds": 0, "metric": ""})
    return rows
