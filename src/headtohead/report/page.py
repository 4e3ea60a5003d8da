"""The page of a study: question, verdicts, and everything needed to check them. One file that loads nothing else."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead.figures.policy import policy
from headtohead.figures.style import svg
from headtohead.outcome.metrics import UNITS, figure_of, text_of
from headtohead.outcome.outcome import Outcome, Verdicts
from headtohead.outcome.wording import (
    analysis_text,
    floor_text,
    lines_under,
    p_text,
    parameters_text,
    r_text,
    share_text,
    time_text,
    word,
)
from headtohead.report import cost, facts, forest, heads, interactive, paste, study_curves, user_code
from headtohead.report.findings import Extras
from headtohead.report.number_text import amount, between, difference_text, is_share
from headtohead.report.sentence import sentence
from headtohead.run import files, store
from headtohead.run.store import Record


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
    functions = (
        text_of,
        amount,
        between,
        difference_text,
        share_text,
        time_text,
        word,
        p_text,
        r_text,
        parameters_text,
    )
    made.globals |= {"analysis_text": analysis_text, "floor_line": _floor_line, "policy": policy}
    made.globals |= {f.__name__: f for f in functions}
    return made


def verdict_table(verdicts: Verdicts) -> str:
    """The table of verdicts as HTML, for notebooks and pages."""
    unit, points = UNITS[figure_of(verdicts.metric)], is_share(verdicts.metric)
    made = _templates().get_template("verdicts.html")
    return str(made.render(v=verdicts, unit=unit, points=points, lines=_under(verdicts)))


def _under(verdicts: Verdicts) -> list[str]:
    """The lines below the table, with the meaning of its columns."""
    *lines, scope = lines_under(verdicts)
    columns = "interval: for all arms and analyses together, it decides; alone: as if this arm were the only one and "
    columns += "this the only analysis; agree: pairs whose difference has the sign of the mean; "
    columns += "r: correlation of arm and control over "
    columns += "the seeds, from −1 to 1; the nearer to 1, the more pairing gains"
    if is_share(verdicts.metric):
        columns += "; points: percentage points"
    return [*lines, *_other_seeds(verdicts), scope, *([columns] if len(verdicts) else [])]


def _other_seeds(verdicts: Verdicts) -> list[str]:
    """A line for arms whose mean is over fewer seeds than the control's: their means do not differ by the mean pair."""
    whole = verdicts.seeds - len(verdicts.control_excluded)
    fewer = [row for row in verdicts if 0 < row.verdict.pairs < whole]
    if not fewer:
        return []
    counts = sorted({row.verdict.pairs for row in fewer})
    pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    names = f"{len(fewer)} arms" if len(fewer) > 3 else " and ".join(row.arm for row in fewer)
    return [
        f"means over different seeds: {verdicts.control} over {whole}, {names} over the {pairs} that form pairs; the "
        "difference is the mean over pairs"
    ]


def _floor_line(verdicts: Verdicts, kind: str) -> str:
    """A noise floor as a sentence; empty without a pair."""
    line = floor_text(verdicts, kind)
    return line and f"{line[0].upper()}{line[1:]}."


def page(outcome: Outcome, extras: Extras | None = None, made_of: str = "") -> str:
    """The page as HTML. Without `extras`, the findings in the models, it names the command that computes them.
    `made_of` is a digest (up_to_date.py)."""
    tables = [_table(outcome, title) for title in outcome.titles]
    first = outcome.titles[0]
    live = any(table["chart"] for table in tables)
    evolved = extras.evolution if extras else ()
    return (
        _templates()
        .get_template("study.html")
        .render(
            study=outcome.record,
            made_of=made_of,
            tables=tables,
            metric=outcome.metric,
            rows=outcome.all_rows,
            runs=facts.every_run(outcome),
            warnings=outcome.warnings,
            failures=facts.failures(outcome),
            confusions=facts.confusions(outcome, first),
            settings=facts.control_settings(outcome, first),
            user_classes=user_code.user_classes(outcome),
            machines=facts.machines(outcome),
            extras=extras,
            broken=[audit for audit in extras.audits if audit.broken] if extras else [],
            evolution=svg(heads.drawing(evolved), heads.says(evolved)) if evolved else "",
            vega=interactive.vega() if live else "",
        )
    )


def _table(outcome: Outcome, title: str) -> dict[str, Any]:
    """The values that the templates show for one table of arms. A tuned study has two tables."""
    verdicts, dots = outcome.table(title), outcome.differences(title)
    learned, paid = study_curves.along(outcome, title), facts.costs(outcome, title)
    bought = cost.drawing(paid, verdicts.metric, verdicts.better)
    return {
        "title": title,
        "verdicts": verdicts,
        "sentence": sentence(verdicts),
        "table": verdict_table(verdicts),
        "forest": svg(forest.drawing(verdicts, dots), forest.says(verdicts, dots)) if len(verdicts) else None,
        "forest_notes": forest.beyond_text(verdicts, dots),
        "band": verdicts.noise is not None and math.isfinite(verdicts.noise.verdict.alone_low),
        "along": learned,
        "over_seeds": "" if learned is None else learned.over_seeds(verdicts.seeds > study_curves.CURVE_SEEDS),
        "along_notes": "" if learned is None else study_curves.notes(learned),
        "chart": None if learned is None else interactive.chart(learned),
        "curves": None if learned is None else svg(study_curves.drawing(learned), study_curves.says(learned)),
        "costs": paid,
        "cost": None if bought is None else svg(bought, cost.says(paid, verdicts.metric, verdicts.better)),
        "cost_notes": cost.beyond_text(paid, verdicts.metric, verdicts.better),
        "worths": cost.worths(verdicts),
        "without_runs": facts.without_runs(outcome, title),
        "differs": facts.configurations(outcome, title),
        "methods": paste.methods(outcome, verdicts),
        "latex": paste.latex(verdicts),
        "markdown": paste.markdown(verdicts),
    }


def write_report(outcome: Outcome, extras: Extras | None = None, made_of: str = "") -> Path:
    """Write report.html into the study's folder."""
    path = outcome.folder / files.REPORT
    store.write_whole(path, page(outcome, extras, made_of))
    return path


def written_report(outcome: Outcome) -> Path:
    """Write the page unless the existing one is newer than the study and all its runs."""
    path = outcome.folder / files.REPORT
    if not path.is_file():
        return write_report(outcome)
    results = (Record.at(outcome.home, row.run).folder / files.RESULT for row in outcome.all_rows)
    made_of = [
        file for file in (outcome.folder / files.STUDY, outcome.folder / files.LOCKED, *results) if file.is_file()
    ]
    newest = max(*(row.finished for row in outcome.all_rows), *(file.stat().st_mtime for file in made_of))
    if path.stat().st_mtime <= newest:
        return write_report(outcome)
    path.touch()  # `latest` is the study asked for last
    return path
