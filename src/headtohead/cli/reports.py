"""h2h report: the page of a study, on the screen, on paper and in a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headtohead.cli.base import AsJson, app, followed, only, print_json


@app.command()
def report(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="A study in the store, a recipe's file, or latest.")] = "latest",
    heads: Annotated[str | None, typer.Option(help="Attention of these: LAYER.HEAD,LAYER.HEAD from 0.")] = None,
    text: Annotated[str | None, typer.Option(help="What the attention maps are of.")] = None,
    prompt: Annotated[str, typer.Option(help="What language models go on with.")] = "The",
    arms: Annotated[int, typer.Option(min=1, help="How many arms' models to look into, the control first.")] = 6,
    quick: Annotated[bool, typer.Option("--quick", help="Without audit, attention and samples.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also as PDF, by Chromium or Chrome.")] = False,
    figures: Annotated[Path | None, typer.Option(help="Also figures and table for TeX, into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """The self-contained HTML report of a study that has been run: h2h report demo --pdf

    It loads the models, audits every arm's, and shows what chosen heads look at and what language models write; --quick
    leaves that out.
    """
    from headtohead import store
    from headtohead.outcome import find_study, load_outcome
    from headtohead.report import printed
    from headtohead.report.page import write_report

    browser = printed.browser() if pdf else None  # say now, not after the work
    if ".py" in study:
        from headtohead.study_commands import folder_named

        folder = folder_named(study)
    else:
        folder = find_study(study, store.home())
    outcome = load_outcome(folder)
    if figures is not None:
        printed.make_folder(figures)
    extras: Any = None
    if quick:
        only(context, ("study", "quick", "pdf", "figures", "as_json"), "--quick looks into no model")
    else:
        from headtohead import report_commands

        chosen = report_commands.read_heads(heads)
        extras = followed(report_commands.look_into(outcome, chosen, text, prompt, arms), "looking into the models")
    path = write_report(outcome, extras)
    said = {"report": str(path)}
    if browser is not None:
        said["pdf"] = str(printed.write_pdf(path, browser))
    if figures is not None:
        printed.write_figures(outcome, figures)
        said["figures"] = str(figures)
    if as_json:
        print_json({"folder": str(outcome.folder), **said, "tables": outcome.to_json()})
    else:
        for what, where in said.items():
            print(f"{what}: {where}")
