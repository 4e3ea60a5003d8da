"""The page of a study: everything that it shows, as plain values. Imports no torch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from starlette.routing import Route

from headtohead.errors import InputError
from headtohead.figures.style import ARMS, DASHES
from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.outcome.wording import lines_under
from headtohead.report import facts, paste
from headtohead.run import store
from headtohead.run.progress import read_progress
from headtohead.run.store import Record
from headtohead.run.studies import read_study
from headtohead.web import audit_work
from headtohead.web.answers import answered
from headtohead.web.background import Tasks
from headtohead.web.bench import Bench
from headtohead.web.board import arm_rows, row_of
from headtohead.web.index import state_of

MOST_PROMPT = 2_000  # characters
KEPT = 16  # pages of studies in memory


def routes(bench: Bench) -> list[Route]:
    tasks = Tasks()

    pages: dict[str, tuple[str, dict[str, Any]]] = {}  # by study, with the state that they were made of
    making = threading.Lock()

    def study(name: str) -> dict[str, Any]:
        folder = bench.study_folder(name)
        with making:  # several pages that follow one study ask at the same moment
            state = state_of(bench.home, folder)
            if pages.get(name, ("", {}))[0] != state:
                pages.pop(name, None)
                if len(pages) >= KEPT:
                    pages.pop(next(iter(pages)))
                pages[name] = state, study_page(folder)
            page = pages[name][1]
        return page | {"progress": read_progress(folder), "read_only": bench.access.read_only}

    def curves_of(name: str, metric: str) -> dict[str, Any]:
        return curves(bench.study_folder(name), metric)

    def models(name: str, prompt: str = "The") -> dict[str, Any]:
        if len(prompt) > MOST_PROMPT:
            raise InputError(f"the prompt is longer than {MOST_PROMPT} characters: shorten it")
        folder = bench.study_folder(name)
        arms, refused = arms_with_code(bench, folder)
        text = prompt.encode("utf-8", "replace").decode()
        given = str(bench.home), name, arms, text, not bench.access.read_only
        state = tasks.ask(
            f"{name} {state_of(bench.home, folder)} {prompt}",
            lambda hear: bench.worker.run(audit_work.audit_and_sample, *given, hear=hear),
        )
        return {**state, "refused": refused}

    return [
        Route("/api/study", answered(study)),
        Route("/api/study/models", answered(models)),
        Route("/api/curves", answered(curves_of)),
    ]


def arms_with_code(bench: Bench, folder: Path) -> tuple[list[str], list[str]]:
    """The arms whose models may be built, and a sentence for each of the others."""
    arms, refused = [], []
    for arm in read_study(folder).tables[0].arms:
        records = [Record.at(bench.home, run) for run in arm.runs.values()]
        try:
            for record in records:
                if record.exists:
                    bench.check_code(record)
            arms.append(arm.name)
        except InputError as error:
            refused.append(f"{arm.name}: {error}")
    return arms, refused


def study_page(folder: Path) -> dict[str, Any]:
    """The study, table by table, with costs, settings, failures and runs."""
    outcome = load_outcome(folder)
    return store.plain(
        {
            **row_of(outcome),
            "tables": [_table(outcome, title) for title in outcome.titles],
            "curves": curve_names(outcome),
            "settings": facts.control_settings(outcome, outcome.titles[0]),
            "failures": [failure._asdict() for failure in facts.failures(outcome)],
            "confusions": [vars(c) for c in facts.confusions(outcome, outcome.titles[0])],
            "machines": [machine._asdict() for machine in facts.machines(outcome)],
            "warnings": outcome.warnings,
            "history": [analysis.to_json() for analysis in outcome.record.history],
            "run_rows": run_rows(outcome),
        }
    )


def _table(outcome: Outcome, title: str) -> dict[str, Any]:
    verdicts = outcome.table(title)
    return {
        "title": title,
        "arms": arm_rows(outcome, verdicts),
        "lines": lines_under(verdicts),
        "cells": paste.cells(verdicts),
        "markdown": paste.markdown(verdicts),
        "latex": paste.latex(verdicts),
        "differences": {
            arm: [setting._asdict() for setting in settings]
            for arm, settings in facts.configurations(outcome, title).items()
        },
        "costs": [
            {
                **vars(c),
                "parameters_text": c.parameters_text,
                "mean": c.mean,
                "mean_text": text_of(outcome.metric, c.mean),
            }
            for c in facts.costs(outcome, title)
        ],
    }


def run_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """One line for each run."""
    return [
        {
            "run": row.run,
            "arm": row.arm,
            "seed": row.seed,
            "status": row.status,
            "why": row.why,
            "value": row.value,
            "value_text": text_of(outcome.metric, row.value),
            "step_ms": row.step_ms,
            "steps": row.steps,
        }
        for row in facts.every_run(outcome)
    ]


# -- learning curves ---------------------------------------------------------------------------------------------------


def curve_names(outcome: Outcome) -> list[str]:
    """The figures that runs were evaluated by during training; the one of the metric first."""
    found: dict[str, None] = {}
    for rows in outcome.rows.values():
        done = next((row for row in rows if row.status == "complete"), None)
        for line in _evaluations(outcome, done.run) if done else ():
            found |= dict.fromkeys(key for key, value in line.items() if "/" in key and isinstance(value, float))
    last = outcome.metric.rpartition("/")[2]
    return sorted(found, key=lambda name: (name != outcome.metric, not name.endswith(f"/{last}"), name))


def curves(folder: Path, metric: str) -> dict[str, Any]:
    """One figure at every evaluation of every run, by arm and seed, with what turns steps into tokens, FLOPs and
    seconds."""
    outcome = load_outcome(folder)
    title = outcome.titles[0]
    arms = []
    for number, arm in enumerate(outcome.record.table(title).arms):
        rows = outcome.rows[title, arm.name]
        seeds = {row.seed: _points(outcome, row.run, metric) for row in rows if row.status != "missing"}
        first = next((row for row in rows if row.status == "complete"), None)
        result = Record.at(outcome.home, first.run).result if first else None
        arms.append(
            {
                "arm": arm.name,
                "colour": ARMS[number % len(ARMS)],
                "dash": list(DASHES[number % len(DASHES)]),
                "seeds": {seed: points for seed, points in seeds.items() if points},
                "tokens_per_step": result.tokens_per_step if result else None,
                "flops_per_step": result.flops_per_step if result else None,
                "step_seconds": first.step_ms / 1000 if first and first.step_ms else None,
            }
        )
    return store.plain({"metric": metric, "arms": arms})


def _points(outcome: Outcome, run: str, metric: str) -> list[list[float]]:
    return [[line["step"], line[metric]] for line in _evaluations(outcome, run) if line.get(metric) is not None]


def _evaluations(outcome: Outcome, run: str) -> list[dict[str, Any]]:
    try:
        return [line for line in Record.at(outcome.home, run).metrics if isinstance(line, dict) and "step" in line]
    except InputError:  # a damaged file: the table of runs names it
        return []
