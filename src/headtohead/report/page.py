"""The page of a study: what was asked, what came of it, and all that is needed to doubt it. One file, nothing loaded
from anywhere."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.metrics import UNITS, figure_of, text_of
from headtohead.outcome import Outcome, Verdicts
from headtohead.report import along, cost, facts, figures, heads, interactive, paste
from headtohead.report.extras import Extras
from headtohead.report.sentence import sentence
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


def page(outcome: Outcome, extras: Extras | None = None) -> str:
    """With what `extras` found in the models; without, it says how to have it."""
    tables = [_table(outcome, title) for title in outcome.titles]
    first = outcome.titles[0]
    live = any(table["chart"] for table in tables)
    return (
        _templates()
        .get_template("study.html")
        .render(
            study=outcome.said,
            tables=tables,
            metric=outcome.metric,
            rows=outcome.all_rows,
            runs=facts.every_run(outcome),
            warnings=facts.warnings(outcome),
            failures=facts.failures(outcome),
            confusions=facts.confusions(outcome, first),
            settings=facts.control_settings(outcome, first),
            machines=facts.machines(outcome),
            extras=extras,
            broken=[audit for audit in extras.audits if audit.broken] if extras else [],
            evolution=_evolution(extras),
            vega=interactive.vega() if live else "",
        )
    )


def _table(outcome: Outcome, title: str) -> dict[str, Any]:
    """What is said of one table of arms; of a tuned study there are two."""
    verdicts = outcome.verdicts(title)
    learned, paid = along.along(outcome, title), facts.costs(outcome, title)
    bought = cost.drawing(paid, verdicts.metric, verdicts.better)
    return {
        "title": title,
        "verdicts": verdicts,
        "sentence": sentence(verdicts),
        "table": verdict_table(verdicts),
        "forest": _forest(outcome, verdicts) if len(verdicts) else None,
        "band": verdicts.noise is not None and math.isfinite(verdicts.noise.verdict.low),
        "along": learned,
        "more_seeds": learned is not None and verdicts.seeds > along.CURVE_SEEDS,
        "chart": None if learned is None else interactive.chart(learned),
        "curves": None if learned is None else along.drawing(learned).svg(along.says(learned)),
        "costs": paid,
        "cost": None if bought is None else bought.svg(cost.says(paid, verdicts.metric)),
        "differs": facts.configurations(outcome, title),
        "methods": paste.methods(outcome, verdicts),
        "latex": paste.latex(verdicts),
        "markdown": paste.markdown(verdicts),
    }


def _forest(outcome: Outcome, verdicts: Verdicts) -> str:
    return figures.forest_drawing(verdicts, outcome.differences(verdicts.title)).svg(_forest_says(verdicts))


def _forest_says(verdicts: Verdicts) -> str:
    told = [
        f"{row.arm} {text_of(verdicts.metric, row.verdict.difference, signed=True)} "
        f"({interval_text(verdicts.metric, row.verdict.low, row.verdict.high)}), {word(row)}"
        for row in verdicts
    ]
    return f"Differences from {verdicts.control} in {verdicts.metric}, with 95 % intervals. {'; '.join(told)}."


def _evolution(extras: Extras | None) -> str:
    if extras is None or not extras.evolution:
        return ""
    return heads.drawing(extras.evolution).svg(heads.says(extras.evolution))


def write_report(outcome: Outcome, extras: Extras | None = None) -> Path:
    """report.html in the study's own folder."""
    path = outcome.folder / "report.html"
    store.write_whole(path, page(outcome, extras))
    return path


def written_report(outcome: Outcome) -> Path:
    """As `write_report`, unless the one that is there is younger than the study and all its runs."""
    path = outcome.folder / "report.html"
    if not path.is_file():
        return write_report(outcome)
    files = (outcome.home / "runs" / row.run / "result.json" for row in outcome.all_rows)  # copied ones are young, too
    files = (file for file in (outcome.folder / "study.json", *files) if file.is_file())
    newest = max(*(row.finished for row in outcome.all_rows), *(file.stat().st_mtime for file in files))
    if path.stat().st_mtime <= newest:
        return write_report(outcome)
    path.touch()  # it is the latest that was asked for
    return path
