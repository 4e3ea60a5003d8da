"""h2h plan: how many pairs a study needs, and how long it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Jobs, Metric, Recipe, Settings, Vary
from headtohead.cli.printing import print_json
from headtohead.cli.screens import show_plan


@app.command(rich_help_panel=ASK)
def plan(
    recipe: Recipe,
    effect: Annotated[str, typer.Option(help="The smallest difference that matters: 0.01 or 1%.")] = "1%",
    vary: Vary = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or your file.")] = None,
    settings: Settings = None,
    metric: Metric = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Forecast how many pairs and minutes a study needs.

    It trains for about a minute first. h2h run RECIPE --effect 1% plans and then runs with that many pairs.
    """
    from headtohead.study.recipes import study_for

    study = study_for(recipe, vary=vary, data=data, settings=settings or [], seeds=None, metric=metric, margin=None)
    forecast = show_plan(study, effect, jobs, quiet=as_json)
    if as_json:
        print_json(forecast.to_json())
