"""h2h reproduce: the reports' figures and claims, re-tested."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtohead.cli.base import AsJson, SaveEvery, app, console, print_json
from headtohead.cli.studies import Jobs


@app.command()
def reproduce(
    report: Annotated[str, typer.Argument(help="000, 001, 002, 003, 004 or all.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Train nothing: show the results kept with the recipes.")
    ] = False,
    claims: Annotated[bool, typer.Option("--claims", help="The ledger of claims, written to docs/claims.md.")] = False,
    gallery: Annotated[
        bool, typer.Option("--gallery", help="The README's pictures, drawn from the kept results into docs/pictures.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the results with the recipes.")] = False,
    forecast_only: Annotated[bool, typer.Option("--forecast-only", help="Say how long it takes, and end.")] = False,
    jobs: Jobs = None,
    save_every: SaveEvery = 30.0,
    as_json: AsJson = False,
) -> None:
    """Published results re-tested: figures side by side, claims with a verdict each: h2h reproduce 001

    What is missing is trained; the same command again goes on where it was stopped.
    """
    from headtohead import reproduce_commands as commands
    from headtohead import store

    if quick and (stored or claims or gallery or keep):
        raise typer.BadParameter("--quick is for trying things out: the kept results are those of whole runs")
    if forecast_only and (stored or claims or gallery):
        raise typer.BadParameter(
            "--forecast-only is of what would be trained: --stored, --claims and --gallery train nothing"
        )
    if keep and (stored or claims or gallery):
        raise typer.BadParameter("--keep keeps what is trained: give it without --stored, --claims and --gallery")
    if (claims or gallery) and report != "all":
        raise typer.BadParameter("--claims and --gallery are of all reports: leave the number out")
    screen, errors = console(), console(stderr=True)
    asked = commands.asked(report)
    stored = stored or claims or gallery
    if not stored:
        plan = commands.forecast(asked, quick, store.home(), jobs)
        if forecast_only:
            print_json(plan.to_json()) if as_json else print(plan.table())
            return
        errors.print(plan.line, markup=False, soft_wrap=True)
        if not commands.follow(asked, quick, store.home(), jobs, save_every, errors):
            errors.print("stopped, everything is saved; give the same command again to go on", markup=False)
            raise typer.Exit(130)
        for line in commands.after(asked, quick, store.home(), keep):
            errors.print(line, markup=False, soft_wrap=True)
    found = commands.results(asked, quick=quick, stored=stored, home=store.home(), report=report)
    if claims:
        path = commands.write_ledger(found, Path("docs/claims.md"))
        errors.print(f"ledger: {path}", markup=False)
    for path in commands.draw_gallery(Path("docs/pictures/published")) if gallery else ():
        errors.print(f"drawn: {path}", markup=False)
    if as_json:
        print_json(commands.to_json(found))
    else:
        commands.show(found, screen, quick=quick)
    if found.damaged or (found.missing and not stored):
        raise typer.Exit(1)
