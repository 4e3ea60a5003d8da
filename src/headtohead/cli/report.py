"""h2h report: the page of a study, its PDF and its figures."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from headtohead.cli.approving import approve_study
from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Trust, only
from headtohead.cli.printing import print_json, with_bar


@app.command(rich_help_panel=ASK)
def report(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="A study in the store, a recipe's file, or latest.")] = "latest",
    heads: Annotated[str | None, typer.Option(help="Heads to show: LAYER.HEAD,LAYER.HEAD from 0.")] = None,
    text: Annotated[str | None, typer.Option(help="Text for the attention maps.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Prompt for samples of language models; by default The, or a test example.")
    ] = None,
    arms: Annotated[int, typer.Option(min=1, help="Number of arms to load, the control first.")] = 6,
    quick: Annotated[bool, typer.Option("--quick", help="Without audit, attention and samples.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Write the page again, even if it is up to date.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also write a PDF, with Chromium or Chrome.")] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Also write figures (PDF, PNG) and the table (TeX) into this folder.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write the HTML report of a study.

    Example: h2h report demo --pdf

    It loads the models, audits them, and shows attention maps and generated text; --quick leaves this out. A page that
    is up to date is not written again.
    """
    from headtohead.outcome.history import note_shown
    from headtohead.outcome.outcome import load_outcome
    from headtohead.report import up_to_date
    from headtohead.run import files, store
    from headtohead.run.studies import find_study

    if pdf:
        from headtohead.report import printed

        browser = printed.browser()  # fail now, not after the work
    if ".py" in study:
        from headtohead.study.recipes import folder_named

        folder = folder_named(study)
    else:
        folder = find_study(study, store.home())
    outcome = load_outcome(folder)
    with suppress(OSError):  # a store that cannot be written to
        note_shown(outcome)
    outcome = load_outcome(folder)
    if figures is not None:
        from headtohead.report import printed

        printed.make_folder(figures)
    if quick:
        only(context, ("study", "quick", "again", "pdf", "figures", "as_json"), "--quick loads no model")
    asked = {"heads": heads, "text": text, "prompt": prompt, "arms": arms, "quick": quick}
    path, made_of = folder / files.REPORT, up_to_date.digest(outcome, asked)
    fresh = not again and up_to_date.is_current(path, made_of)
    if fresh:
        with suppress(OSError):
            path.touch()  # `latest` is the study whose report was asked for last
        print("the report is up to date; --again writes it again", file=sys.stderr)
    else:
        from headtohead.report.page import write_report

        extras: Any = None
        if not quick:
            from headtohead.report import models

            approve_study(folder, trust)
            chosen = models.read_heads(heads)
            extras = with_bar(models.look_into(outcome, chosen, text, prompt, arms), "auditing and sampling the models")
        path = write_report(outcome, extras, "" if extras is not None and extras.failed else made_of)
    written_files = {"report": str(path)}
    if pdf:
        written_files["pdf"] = str(printed.write_pdf(path, browser))
    if figures is not None:
        printed.write_figures(outcome, figures)
        written_files["figures"] = str(figures)
    if as_json:
        print_json({**outcome.to_json(), **written_files, "written": not fresh})
    else:
        for what, where in written_files.items():
            print(f"{what}: {where}")
