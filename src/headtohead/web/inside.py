"""The page Inside: two models on one text. Its addresses, and which runs there are to choose from.

What a model computes is in web/models.py, which is loaded with torch when it is needed first.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import validate_call
from starlette.routing import Route

from headtohead.data.samples import SAMPLES
from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.store import Record
from headtohead.run.studies import read_study
from headtohead.web.answers import Tell, answered, streamed
from headtohead.web.bench import Bench, NotFound

if TYPE_CHECKING:
    from headtohead.web.models import Models

MOST_RUNS = 200  # of those that are listed without a study
MOST_TEXT = 50_000  # characters


def routes(bench: Bench) -> list[Route]:
    kept: list[Models] = []

    def models() -> Models:
        from headtohead.web.models import Models

        if not kept:
            kept.append(Models())
        return kept[0]

    @validate_call
    def side_of(arm: str, seed: Any, study: str = "", step: Any = None, operations: str = "") -> Any:
        from headtohead.web.models import Side

        record = chosen_run(bench, study, arm, whole(seed, "seed"))
        bench.check_code(record)
        return Side(record, None if step in (None, "") else whole(step, "step"), text_of(operations))

    def choices() -> dict[str, Any]:
        rows = sorted(bench.index.rows().values(), key=lambda row: -(row.get("changed") or 0))
        studies = [{"name": row["name"], "question": row.get("question", "")} for row in rows]
        return {"studies": studies, "samples": SAMPLES}

    def arms(study: str = "") -> dict[str, Any]:
        return {"arms": study_arms(bench, study) if study else single_runs(bench.home)}

    def look(text: str, **chosen: Any) -> dict[str, Any]:
        return models().look(side_of(**chosen), text_of(text))

    def head(text: str, layer: Any, head: Any, region: str = "", **chosen: Any) -> dict[str, Any]:
        place = whole(layer, "layer"), whole(head, "head")
        return models().head(side_of(**chosen), text_of(text), *place, text_of(region))

    def held_out(**chosen: Any) -> dict[str, Any]:
        return models().held_out(side_of(**chosen))

    def effect(tell: Tell, stop: threading.Event, set: str = "", **chosen: Any) -> None:
        from headtohead.web.effects import tell_effect

        tell_effect(models(), side_of(**chosen), text_of(set), tell, stop)

    def generate(
        tell: Tell, stop: threading.Event, text: str, tokens: Any, decoding: Any = None, **chosen: Any
    ) -> None:
        models().generate(side_of(**chosen), text_of(text), whole(tokens, "tokens"), decoding or {}, tell, stop)

    both = ["GET", "POST"]  # a short question is in the address, so that a saved page can answer it
    return [
        Route("/api/inside", answered(choices)),
        Route("/api/inside/arms", answered(arms)),
        Route("/api/inside/side/look", answered(look), methods=both),
        Route("/api/inside/head/look", answered(head), methods=both),
        Route("/api/inside/held/look", answered(held_out), methods=both),
        Route("/api/inside/effect/look", streamed(effect), methods=["POST"]),
        Route("/api/inside/generate/look", streamed(generate), methods=["POST"]),
    ]


def whole(value: Any, name: str) -> int:
    """A whole number, 0 or more, from JSON or from an address."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15:
        return value
    raise InputError(f"{name} must be a whole number, 0 or more: choose it on the page")


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError("the request has no text where it needs one: reload the page")
    if len(value) > MOST_TEXT:
        raise InputError(f"the text has {len(value):,} characters: give at most {MOST_TEXT:,}")
    return value.encode("utf-8", "replace").decode()  # half of a surrogate pair is no character


# -- runs to choose from -----------------------------------------------------------------------------------------------


def chosen_run(bench: Bench, study: str, arm: str, seed: int) -> Record:
    """A run of a study by arm and seed, or, without a study, by its id. Only what the store has is taken."""
    if not study:
        runs = bench.home / files.RUNS
        if not isinstance(arm, str) or arm not in (os.listdir(runs) if runs.is_dir() else ()):
            raise NotFound(f"there is no run '{str(arm)[:40]}' in {bench.home}: it may have been deleted")
        return Record.at(bench.home, arm)
    arms = {a.name: a.runs for a in read_study(bench.study_folder(study)).arms}
    if arm not in arms:
        raise NotFound(f"study '{study}' has no arm '{str(arm)[:80]}': choose another")
    if seed not in arms[arm]:
        raise NotFound(f"{study}/{arm} has no seed {seed}: it has {', '.join(map(str, sorted(arms[arm])))}")
    record = Record.at(bench.home, arms[arm][seed])
    if not record.exists:
        raise InputError(f"{study}/{arm}@{seed} is not trained yet: continue the study first")
    return record


def study_arms(bench: Bench, study: str) -> list[dict[str, Any]]:
    """The arms of a study with their seeds, and the steps of each run that have weights."""
    found: dict[str, dict[str, Any]] = {}
    for arm in read_study(bench.study_folder(study)).arms:
        seeds = [
            {"seed": seed, **facts(Record.at(bench.home, run), f"{study}/{arm.name}@{seed}")}
            for seed, run in sorted(arm.runs.items())
        ]
        found.setdefault(arm.name, {"arm": arm.name, "label": arm.name, "seeds": seeds})
    return list(found.values())


def single_runs(home: Path) -> list[dict[str, Any]]:
    """The newest runs of the store, each as an arm with one seed."""
    found = []
    for record in reversed(store.runs(home)[-MOST_RUNS:]):
        known = facts(record, record.id)
        found.append({"arm": record.id, "label": f"{record.id[:8]}: {known['what']}", "seeds": [{"seed": 0, **known}]})
    return found


def facts(record: Record, name: str) -> dict[str, Any]:
    """What the page must know of a run before it is loaded: its steps, or one sentence on why it cannot be shown."""
    from headtohead.run.load import snapshot_steps

    known: dict[str, Any] = {"run": record.id, "name": name, "what": "", "steps": [], "says": ""}
    if not record.exists:
        return known | {"says": f"{name} is not trained yet: continue the study first"}
    try:
        spec, result = record.spec, record.require_result()
        corpus = spec["arm"]["data"]["corpus"]
        known["what"] = f"{spec['arm']['task']} on {corpus.get('name') or corpus['kind']}, seed {spec['seed']}"
        if not result.is_complete:
            return known | {"says": f"run {record.id} {result.ended}: its weights are not numbers"}
        return known | {"steps": sorted({0, result.weights_of, *snapshot_steps(record)}), "last": result.weights_of}
    except InputError as error:
        return known | {"says": str(error)}
    except (KeyError, TypeError, AttributeError):
        return known | {"says": str(store.unreadable(record.folder / files.RUN, "train again"))}
