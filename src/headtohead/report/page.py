"""The page of a study: verdicts, forest plot, curves. One file, nothing loaded from anywhere."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.metrics import UNITS, figure_of, text_of
from headtohead.outcome import Outcome, Verdicts
from headtohead.report import figures
from headtohead.wording import interval_text, lines_under, p_text, parameters_text, r_text, share_text, word


@lru_cache(maxsize=1)
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {f.__name__: f for f in (text_of, interval_text, share_text, word, p_text, r_text, parameters_text)}
    return made


def verdict_table(verdicts: Verdicts) -> str:
    """The table alone, for notebooks and pages."""
    unit = UNITS[figure_of(verdicts.metric)]
    return _templates().get_template("verdicts.html").render(v=verdicts, unit=unit, lines=lines_under(verdicts))


def page(outcome: Outcome) -> str:
    tables = []
    for title in outcome.titles:
        verdicts = outcome.verdicts(title)
        tables.append(
            {
                "title": title,
                "table": verdict_table(verdicts),
                "forest": figures.forest(verdicts),
                "curves": figures.curves(outcome, title),
                "band": verdicts.noise is not None and math.isfinite(verdicts.noise.verdict.low),
                "spread": len(verdicts) < figures.SPREADS,
            }
        )
    rows = outcome.all_rows
    return (
        _templates()
        .get_template("study.html")
        .render(study=outcome.said, tables=tables, rows=rows, metric=outcome.metric)
    )


def write_report(outcome: Outcome) -> Path:
    """report.html in the study's own folder."""
    path = outcome.folder / "report.html"
    store.write_whole(path, page(outcome))
    return path


def written_report(outcome: Outcome) -> Path:
    """As `write_report`, unless the one that is there is younger than the study and all its runs."""
    path = outcome.folder / "report.html"
    if not path.is_file():
        return write_report(outcome)
    runs = (row.finished for row in outcome.all_rows)
    newest = max((outcome.folder / "study.json").stat().st_mtime, *runs)
    if path.stat().st_mtime <= newest:
        return write_report(outcome)
    path.touch()  # it is the latest that was asked for
    return path
