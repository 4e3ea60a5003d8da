"""h2h run: run a study."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import (
    AsJson,
    Device,
    Jobs,
    LogTo,
    Metric,
    On,
    Recipe,
    SaveEvery,
    Settings,
    Threads,
    Vary,
)
from headtohead.cli.screens import show_plan, show_study


@app.command(rich_help_panel=ASK)
def run(
    recipe: Recipe,
    vary: Vary = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or your file.")] = None,
    settings: Settings = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of pairs; a verdict needs six or more.")] = None,
    metric: Metric = None,
    margin: Annotated[str | None, typer.Option(help="A difference too small to matter: 0.01 or 1%.")] = None,
    jobs: Jobs = None,
    on: On = "local",
    effect: Annotated[
        str | None, typer.Option(help="Plan first, then train the pairs that can detect it: 0.01 or 1%.")
    ] = None,
    device: Device = "auto",
    threads: Threads = 1,
    log_to: LogTo = None,
    save_every: SaveEvery = 30.0,
    as_json: AsJson = False,
) -> None:
    """Compare variants with a control, paired by seed.

    Example: h2h run lm --vary model.position=Learned,Rope,Alibi --seeds 6

    Runs that are in the store are not trained again. Type the same command again to continue a stopped study.
    """
    from headtohead.run.executors.execution import Execution
    from headtohead.study.recipes import study_for

    study = study_for(recipe, vary=vary, data=data, settings=settings or [], seeds=seeds, metric=metric, margin=margin)
    if effect is not None:
        if seeds is not None:
            raise typer.BadParameter("--effect computes the number of pairs: leave out --seeds")
        forecast = show_plan(study, effect, jobs, quiet=as_json)
        if forecast.pairs is None:
            raise typer.BadParameter("no number of pairs can detect this effect: ask for a larger one")
        study = dataclasses.replace(study, seeds=forecast.pairs)
    show_study(study, Execution(jobs, on, device, threads, save_every, log_to), as_json)
