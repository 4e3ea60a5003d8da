"""Compose a study: what can be chosen, what a choice means and costs, and its start.

Everything that needs torch is imported when it is asked for, so that the server starts at once.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Strict
from starlette.routing import Route

from headtohead.display.catalogue import Catalogue, catalogue, is_spec
from headtohead.display.shown import shown
from headtohead.errors import InputError
from headtohead.outcome.metrics import FIGURES, check_set
from headtohead.run import files, store
from headtohead.run.studies import read_study
from headtohead.web import jobs, measuring, uploads
from headtohead.web.answers import answered
from headtohead.web.bench import Bench
from headtohead.web.measuring import Measurer, Recent

if TYPE_CHECKING:
    from headtohead.study.added import AddedArms
    from headtohead.web.choice import Choice, Composed


def routes(bench: Bench) -> list[Route]:
    measurer, composed = Measurer(bench.home), Recent(20)
    bench.at_end.append(measurer.stop)

    def start() -> dict[str, Any]:
        measurer.ask([])  # starts the process, which loads torch while the user looks around
        return {**what_there_is(bench.home), "read_only": bench.access.read_only}

    def look(**given: Any) -> dict[str, Any]:
        from headtohead.web.choice import Choice

        return look_at(Choice.of(**given), measurer, composed)

    def run(**given: Any) -> dict[str, Any]:
        from headtohead.web.choice import Choice

        return start_study(Choice.of(**given), bench.home)

    def upload(name: str, content: Annotated[bytes, Strict()]) -> dict[str, Any]:
        kept = uploads.keep(bench.home, name, content)
        return {"data": kept, "uploads": _uploads(bench.home)}

    def preview(data: str, task: str, text: str = "", label: str = "") -> dict[str, Any]:
        return uploads.preview(uploads.find(bench.home, data), task, text, label)

    def of_study(name: str) -> dict[str, Any]:
        from headtohead.web.choice import choice_of

        return asdict(choice_of(read_study(bench.study_folder(name)).command, bench.home))

    return [
        Route("/api/compose", answered(start)),
        Route("/api/compose/look", answered(look), methods=["POST"]),
        Route("/api/compose/run", answered(run), methods=["POST"]),
        Route("/api/compose/upload", answered(upload), methods=["POST"]),
        Route("/api/compose/preview", answered(preview)),
        Route("/api/compose/study", answered(of_study)),
    ]


# -- what can be chosen ------------------------------------------------------------------------------------------------


def what_there_is(home: Path) -> dict[str, Any]:
    """Corpora, parts and settings with their documentation, and the default arm of each task."""
    from headtohead.data.corpora import Files, corpora
    from headtohead.display.reference import summary

    known = catalogue()
    named = [corpus for corpus in corpora() if not isinstance(corpus, Files)]
    families: dict[str, list[dict[str, Any]]] = {}
    for part in known.parts:
        families.setdefault(part.family, []).append(part.to_json())
    return {
        "corpora": [
            {"name": c.name, "tasks": c.tasks, "says": summary(type(c)), "lacks": c.lacks(), "from": c.reference}
            for c in named
        ],
        "uploads": _uploads(home),
        "kinds": uploads.KINDS,
        "families": families,
        "settings": [asdict(setting) for setting in known.settings],
        "arms": {task: default_values(known, arm) for task, arm in known.arms.items()},
        "figures": FIGURES,
    }


def _uploads(home: Path) -> list[dict[str, Any]]:
    return [
        {"data": name, "name": path.name, "bytes": path.stat().st_size} for name, path in uploads.listed(home).items()
    ]


def default_values(known: Catalogue, arm: Any, path: str = "") -> dict[str, Any]:
    """The value of each setting of an arm, as text; a part also has its kind and knobs."""
    found: dict[str, Any] = {}
    for name, value in arm.items():
        if name in ("kind", "file", "source"):
            continue
        where = f"{path}{name}"
        form = known.form(value) if is_spec(value) else None
        if form is not None and form.family:
            knobs = {k: known.text(v) for k, v in value.items() if k != "kind"}
            found[where] = {"text": known.text(value).removesuffix("()"), "kind": value["kind"], "knobs": knobs}
        elif form is not None:
            found |= default_values(known, value, f"{where}.")
        else:
            found[where] = {"text": known.text(value)}
    return found


# -- what a choice means and costs -------------------------------------------------------------------------------------


def look_at(choice: Choice, measurer: Measurer, composed: Recent) -> dict[str, Any]:
    """The difference between the arms, their cost, the command and the code: as far as they are known now. The page
    asks again while something is measured."""
    from headtohead.web.choice import compose

    made = composed(json.dumps(asdict(choice)), lambda: compose(choice, measurer.home))
    said: dict[str, Any] = {"problems": dict(made.problems), "todo": made.todo, "study": None, "arms": [], "data": None}
    if made.control is None:
        return {**said, "measuring": None}
    asked = Asked(made, measurer)
    said |= {"data": asked.data, "arms": asked.arms()}
    said["problems"] |= asked.problems()
    if made.study is not None:
        said["study"] = asked.study(choice.effect)
    return store.plain({**said, "measuring": asked.progress})


class Asked:
    """What is known about the arms of a choice now."""

    def __init__(self, made: Composed, measurer: Measurer) -> None:
        from headtohead.study.study import Variant

        assert made.control is not None
        self.made, self.measurer = made, measurer
        self.variants = made.study.variants if made.study is not None else (Variant("control", made.control, {}),)
        self._data = measuring.data_of(made.control)
        self._sizes = [measuring.size_of(v.arm, v.name) for v in self.variants]
        self._audits = [measuring.audit_of(v.arm, v.name) for v in self.variants]
        self._times = [measuring.time_of(v.arm, v.name) for v in self.variants]
        self._runs = [measuring.runs_of(made.arguments)] if made.study is not None else []
        self._wishes = [self._data, *self._runs, *self._sizes, *self._audits, *self._times]
        self.answer = measurer.ask(self._wishes)

    @property
    def data(self) -> Any:
        return self.answer.values.get(self._data.key)

    @property
    def progress(self) -> dict[str, Any] | None:
        answer = self.answer
        return {"done": answer.done, "of": answer.of, "now": answer.now} if answer.done < answer.of else None

    def problems(self) -> dict[str, str]:
        """What only the data shows."""
        wrong = self.answer.errors.get(self._data.key)
        if wrong:
            return {"data": uploads.shown_error(InputError(wrong), self.measurer.home)}
        if self.made.study is not None and self.data is not None:
            try:
                check_set(self.made.study.measured, self.data)
            except InputError as error:
                return {"metric": str(error)}
        return {}

    def arms(self) -> list[dict[str, Any]]:
        from headtohead.spec.spec import encode

        value = self.answer.values.get
        return [
            {
                "name": v.name,
                "differences": [
                    {"path": d.path, "control": shown(encode(d.left)), "arm": shown(encode(d.right))}
                    for d in self.variants[0].arm.diff(v.arm)
                ],
                "size": value(size.key),
                "size_error": self._error(size.key),
                "audit": value(audit.key),
                "audit_error": self._error(audit.key),
                "seconds": value(timing.key),
                "time_error": self._error(timing.key),
            }
            for v, size, audit, timing in zip(self.variants, self._sizes, self._audits, self._times, strict=True)
        ]

    def _error(self, key: str) -> str | None:
        """An error of the data is shown once, beside the corpus."""
        found = self.answer.errors.get(key)
        return None if found == self.answer.errors.get(self._data.key) else found

    def study(self, effect: str) -> dict[str, Any]:
        from headtohead.study.added import NOT_PLANNED, added_arms
        from headtohead.study.execution import folder_of
        from headtohead.web.choice import python_code

        study = self.made.study
        assert study is not None
        added = added_arms(study, self.measurer.home)
        seconds = [self.answer.values.get(timing.key) for timing in self._times]
        said = {
            "question": study.question,
            "folder": folder_of(study, self.measurer.home).name,
            "metric": study.measured,
            "better": study.better,
            "command": study.command,
            "python": python_code(study, self.made.settings),
            "sequential": study.is_sequential,
            "jobs": os.cpu_count() or 1,
            "points": self.points({v.name: s for v, s in zip(self.variants, seconds, strict=True)}, added),
            "added": added.says() if added is not None else "",
            "plan": None,
        }
        if self.progress is None and seconds[0] is not None and "effect" not in self.made.problems:
            plan = measuring.plan_of(self.made.arguments, effect, seconds[0])
            self._wishes.append(plan)
            self.answer = self.measurer.ask(self._wishes)
            lines = self.answer.values.get(plan.key)
            said["plan"] = [*lines, NOT_PLANNED] if lines and added is not None else lines
        return said

    def points(self, seconds: dict[str, float | None], added: AddedArms | None = None) -> list[dict[str, Any]]:
        """Runs and minutes until each planned analysis, without the runs that the store has. Analyses that cannot
        decide an added arm are left out, but not the last."""
        found = []
        usual, done = seconds[self.variants[0].name], self.measurer.home / files.RUNS
        points = self.answer.values.get(self._runs[0].key, ())
        for pairs, runs in points:
            if added is not None and pairs != points[-1][0] and (added.least is None or pairs < added.least):
                continue
            new = [arm for run, arm in runs if not (done / run / files.RESULT).is_file()]
            taken = [seconds.get(arm, usual) for arm in new]
            minutes = None if None in taken else math.fsum(t or 0.0 for t in taken) / (os.cpu_count() or 1) / 60
            found.append({"pairs": pairs, "runs": len(runs), "new": len(new), "minutes": minutes})
        return found


# -- start -------------------------------------------------------------------------------------------------------------


def start_study(choice: Choice, home: Path) -> dict[str, Any]:
    """Start the command that the page shows. Its study's page follows it."""
    from headtohead.study.execution import folder_of
    from headtohead.web.choice import compose

    made = compose(choice, home)
    if made.study is None:
        raise InputError(next(iter(made.problems.values()), made.todo))
    folder = folder_of(made.study, home)
    job = jobs.start(home, shlex.split(made.study.command)[1:], folder.name)
    return {"job": job.to_json(), "study": folder.name}
