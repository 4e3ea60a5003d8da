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
from headtohead.cli.persistence import show_rates, show_scales
from headtohead.cli.screens import show_plan, show_study


@app.command(rich_help_panel=ASK)
def run(
    recipe: Recipe,
    vary: Vary = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or your file.")] = None,
    settings: Settings = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="A fixed number of pairs with one analysis; six or more, usually 8.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="resolved: add pairs until every arm is decided, even if the recipe has seeds.")
    ] = None,
    max_pairs: Annotated[
        int | None, typer.Option("--max-pairs", min=1, help="Most pairs of a sequential study.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time for a sequential study: 90s, 30min or 2h. It adds no pairs beyond it.")
    ] = None,
    futility: Annotated[
        bool, typer.Option("--futility", help="Also stop arms whose chance of a verdict is below 10 %.")
    ] = False,
    rule: Annotated[
        str | None, typer.Option(help="flips (valid for any symmetric noise) or t (assumes normal noise).")
    ] = None,
    metric: Metric = None,
    margin: Annotated[str | None, typer.Option(help="A difference too small to matter: 0.01 or 1%.")] = None,
    published: Annotated[
        float | None, typer.Option(help="A published difference, variant − control: excluded or compatible?")
    ] = None,
    jobs: Jobs = None,
    on: On = "local",
    effect: Annotated[
        str | None, typer.Option(help="Plan first, then train the pairs that can detect it: 0.01 or 1%.")
    ] = None,
    equivalents: Annotated[
        bool,
        typer.Option("--equivalents", help="Train the control at half and twice its steps: what is an effect worth?"),
    ] = False,
    scales: Annotated[
        str | None, typer.Option(help="Run at each scale of compute and compare the effects: 1,4")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Train at each learning rate, 3 seeds each: 1e-3,2e-3,4e-3 or auto")
    ] = None,
    device: Device = "auto",
    threads: Threads = 1,
    log_to: LogTo = None,
    save_every: SaveEvery = 30.0,
    as_json: AsJson = False,
) -> None:
    """Compare variants with a control, paired by seed.

    Example: h2h run lm --vary model.position=Learned,Rope,Alibi

    Pairs are added until every arm is decided: analyses after 6, 8, 10, 14 and 20 pairs share the error of 5 %. Runs in
    the store are not trained again. Type the same command again to continue a stopped study.
    """
    from headtohead.run.executors.execution import Execution, read_duration
    from headtohead.study.lengths import HALF_AND_TWICE
    from headtohead.study.recipes import study_for

    study = study_for(
        recipe,
        vary=vary,
        data=data,
        settings=settings or [],
        seeds=seeds,
        metric=metric,
        margin=margin,
        until=until,
        max_pairs=max_pairs,
        futility=futility,
        rule=rule,
        published=published,
    )
    seconds = None if budget is None else read_duration(budget)
    if seconds is not None and not study.is_sequential:
        raise typer.BadParameter("--budget is for sequential studies: leave out --seeds, or add --until resolved")
    how = Execution(jobs, on, device, threads, save_every, log_to, seconds)
    if scales is not None or rates is not None:
        if (scales is not None) + (rates is not None) + (effect is not None) > 1:
            raise typer.BadParameter("--scales, --rates and --effect: give one of them")
        if until is not None or max_pairs is not None or budget is not None or futility or equivalents:
            raise typer.BadParameter("--scales and --rates have a fixed number of pairs: give --seeds alone")
        show_scales(study, scales, how, as_json) if scales else show_rates(study, rates, seeds, how, as_json)
        return
    if equivalents and not study.lengths:
        study = dataclasses.replace(study, lengths=HALF_AND_TWICE)
    if effect is not None:
        if seeds is not None or until is not None or max_pairs is not None:
            raise typer.BadParameter(
                "--effect computes the number of pairs: leave out --seeds, --until and --max-pairs"
            )
        forecast = show_plan(study, effect, jobs, quiet=as_json)
        if forecast.pairs is None:
            raise typer.BadParameter("no number of pairs can detect this effect: ask for a larger one")
        study = dataclasses.replace(study, seeds=forecast.pairs)
    show_study(study, how, as_json)
