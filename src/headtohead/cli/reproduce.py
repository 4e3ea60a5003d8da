"""h2h reproduce: the figures and claims of published reports, tested again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Download, ForecastOnly, Jobs, SaveEvery
from headtohead.cli.printing import console, print_json
from headtohead.cli.screens import STOPPED

if TYPE_CHECKING:
    from headtohead.display.claims import Shown


@app.command(rich_help_panel=ASK)
def reproduce(
    context: typer.Context,
    report: Annotated[str, typer.Argument(help="000, 001, 002, 003, 004 or all.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Train nothing: show the results stored with the recipes.")
    ] = False,
    forecast_only: ForecastOnly = False,
    download: Download = False,
    jobs: Jobs = None,
    save_every: SaveEvery = 30.0,
    as_json: AsJson = False,
) -> None:
    """Re-test published figures and claims.

    Example: h2h reproduce 001

    Runs that are missing are trained. Type the same command again to continue.
    """
    if stored and (quick or forecast_only):
        raise typer.BadParameter("--stored trains nothing: leave out --quick and --forecast-only")
    from headtohead.data.downloads import by_consent

    context.with_resource(by_consent(forecast_only and not download))
    if stored:
        from headtohead.display.claims import judged

        def judge() -> Shown:
            from headtohead.claims import workflow

            return workflow.judge_stored(report)

        _print(judged(report, judge), as_json, stored)
        return
    from headtohead.claims import workflow
    from headtohead.run import store

    errors = console(stderr=True)
    asked = workflow.asked(report)
    plan = workflow.forecast(asked, quick, store.home(), jobs)
    if forecast_only:
        print_json(plan.to_json()) if as_json else print(plan.table())
        return
    errors.print(plan.line, markup=False, soft_wrap=True)
    if not workflow.follow(asked, quick, store.home(), jobs, save_every, errors):
        errors.print(STOPPED, markup=False)
        raise typer.Exit(130)
    for line in workflow.compare_with_stored(asked, store.home()) if not quick else ():
        errors.print(line, markup=False, soft_wrap=True)
    found = workflow.results(asked, quick=quick, stored=False, home=store.home(), report=report)
    _print(workflow.shown(found, quick=quick), as_json, stored)


def _print(found: Shown, as_json: bool, stored: bool) -> None:
    from headtohead.display.claims import show

    if as_json:
        print_json(found["json"])
    else:
        show(found, console())
    if found["damaged"] or (found["missing"] and not stored):
        raise typer.Exit(1)
