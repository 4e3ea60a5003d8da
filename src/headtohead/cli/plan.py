"""h2h plan: how many pairs a study needs, and how long it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Jobs, Metric, Recipe, Settings, Vary
from headtohead.cli.persistence import show_variance
from headtohead.cli.printing import print_json
from headtohead.cli.screens import show_plan


@app.command(rich_help_panel=ASK)
def plan(
    recipe: Recipe,
    effect: Annotated[str, typer.Option(help="The smallest difference that matters: 0.01 or 1%.")] = "1%",
    lock: Annotated[
        bool, typer.Option("--lock", help="Write and hash the plan of the study before its first run; train nothing.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="A fixed number of pairs; without it, sequential.")] = None,
    max_pairs: Annotated[
        int | None, typer.Option("--max-pairs", min=1, help="Most pairs of a sequential study.")
    ] = None,
    margin: Annotated[str | None, typer.Option(help="A difference too small to matter: 0.01 or 1%.")] = None,
    vary: Vary = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or your file.")] = None,
    settings: Settings = None,
    metric: Metric = None,
    jobs: Jobs = None,
    variance: Annotated[
        bool, typer.Option("--variance", help="Show where the noise comes from, by training 56 runs.")
    ] = False,
    arm: Annotated[str | None, typer.Option(help="With --variance: the arm; the first unless given.")] = None,
    levels: Annotated[
        int | None, typer.Option(min=2, help="With --variance: initial weights and batch orders; 4 unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast how many pairs and minutes a study needs.

    The noise comes from pairs in the store, or from a pilot of six complete pairs or more that count as the first of
    the study. h2h run RECIPE --effect 1% plans and then runs with that many pairs. --lock fixes question, metric,
    margin, arms, analyses, tuning, exclusions and data before the first run; reports then say "as locked", or what was
    changed.
    """
    from headtohead.run.executors.execution import Execution
    from headtohead.study.recipes import study_for

    study = study_for(
        recipe,
        vary=vary,
        data=data,
        settings=settings or [],
        seeds=seeds,
        metric=metric,
        margin=margin,
        max_pairs=max_pairs,
    )
    if lock:
        from headtohead.study.plan import lock_plan

        plan, path = lock_plan(study)
        if as_json:
            print_json({"hash": plan.hash, "file": str(path), "plan": plan.to_json()})
        else:
            print(f"locked: {plan.hash}, {path}")
            print("h2h run with the same arguments runs it; its report says whether the plan was kept")
        return
    if variance:
        show_variance(study, arm, levels, Execution(jobs), as_json)
        return
    if arm is not None or levels is not None:
        raise typer.BadParameter("--arm and --levels are for --variance: add it, or leave them out")
    forecast = show_plan(study, effect, jobs, quiet=as_json)
    if as_json:
        print_json(forecast.to_json())
