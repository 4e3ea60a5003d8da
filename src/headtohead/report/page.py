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
from headtohead.report.amounts import amount, between, difference_text, family, in_points, is_share
from headtohead.report.extras import Extras
from headtohead.report.sentence import sentence
from headtohead.wording import lines_under, p_text, parameters_text, r_text, share_text, word


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
    told = (text_of, amount, between, difference_text, share_text, word, p_text, r_text, parameters_text)
    made.globals |= {f.__name__: f for f in told}
    return made


def verdict_table(verdicts: Verdicts) -> str:
    """The table alone, for notebooks and pages."""
    unit, points = UNITS[figure_of(verdicts.metric)], is_share(verdicts.metric)
    made = _templates().get_template("verdicts.html")
    return str(made.render(v=verdicts, unit=unit, points=points, lines=_under(verdicts)))


def _under(verdicts: Verdicts) -> list[str]:
    """What belongs under the table, and what its columns mean."""
    *lines, _ = (in_points(verdicts.metric, line) for line in lines_under(verdicts))
    many = family(verdicts)
    which = f"all {many} arms" if many == len(verdicts) else f"the {many} arms that have pairs enough for a verdict"
    corrected = f"; p is corrected for {which}" if many > 1 else ""
    scope = f"scope: {verdicts.scope}; {verdicts.better} is better{corrected}"
    columns = "agree: pairs whose difference has the sign of the mean; r: how the arm and the control go up and down "
    columns += "together over the seeds, from −1 to 1, and the nearer to 1 the more is gained by pairing"
    if is_share(verdicts.metric):
        columns += "; points: percentage points"
    return [*lines, *_other_seeds(verdicts), scope, *([columns] if len(verdicts) else [])]


def _other_seeds(verdicts: Verdicts) -> list[str]:
    """Where means are not over the same seeds, so that their difference is not that of the pairs."""
    whole = verdicts.seeds - len(verdicts.control_excluded)
    fewer = [row for row in verdicts if 0 < row.verdict.pairs < whole]
    if not fewer:
        return []
    counts = sorted({row.verdict.pairs for row in fewer})
    pairs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    names = f"{len(fewer)} arms" if len(fewer) > 3 else " and ".join(row.arm for row in fewer)
    return [
        f"means over other seeds: that of {verdicts.control} is over {whole}, that of {names} over the {pairs} that "
        "form pairs; the difference is that of the pairs"
    ]


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
        "forest_notes": figures.forest_beyond(verdicts, outcome.differences(title)),
        "band": verdicts.noise is not None and math.isfinite(verdicts.noise.verdict.low),
        "along": learned,
        "over_seeds": "" if learned is None else learned.over_seeds(verdicts.seeds > along.CURVE_SEEDS),
        "along_notes": "" if learned is None else along.notes(learned),
        "chart": None if learned is None else interactive.chart(learned),
        "curves": None if learned is None else along.drawing(learned).svg(along.says(learned)),
        "costs": paid,
        "cost": None if bought is None else bought.svg(cost.says(paid, verdicts.metric, verdicts.better)),
        "cost_notes": cost.beyond_text(paid, verdicts.metric, verdicts.better),
        "without_runs": facts.without_runs(outcome, title),
        "differs": facts.configurations(outcome, title),
        "methods": paste.methods(outcome, verdicts),
        "latex": paste.latex(verdicts),
        "markdown": paste.markdown(verdicts),
    }


def _forest(outcome: Outcome, verdicts: Verdicts) -> str:
    return figures.forest_drawing(verdicts, outcome.differences(verdicts.title)).svg(_forest_says(outcome, verdicts))


def _forest_says(outcome: Outcome, verdicts: Verdicts) -> str:
    told = [
        f"{row.arm} {amount(verdicts.metric, row.verdict.difference) if row.verdict.pairs else '–'} "
        f"({between(verdicts.metric, row.verdict.low, row.verdict.high)}), {word(row)}"
        for row in verdicts
    ]
    said = f"Differences from {verdicts.control} in {verdicts.metric}, with 95 % intervals. {'; '.join(told)}."
    return f"{said} {figures.forest_beyond(verdicts, outcome.differences(verdicts.title))}".strip()


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
