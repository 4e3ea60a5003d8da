"""h2h search: try settings and choose the best."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import (
    ArmInFile,
    AsJson,
    Data,
    Device,
    Download,
    ForecastOnly,
    LabelColumn,
    SaveEvery,
    Settings,
    TaskName,
    TestFile,
    TextColumn,
    Threads,
    ValidationFile,
    only,
)
from headtohead.cli.screens import show_search


@app.command(rich_help_panel=ASK)
def search(
    context: typer.Context,
    task: Annotated[TaskName | None, typer.Argument(help="lm (language model) or classifier.")] = None,
    over: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… or FIELD=LOW..HIGH to try. Repeatable.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Number of trials, proposed by TPE. Without it, every combination is tried.")
    ] = None,
    data: Data = None,
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    arm: ArmInFile = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every trial and of the proposals.")] = 0,
    together: Annotated[
        int, typer.Option(min=1, help="Trials that TPE proposes at a time. It changes the search.")
    ] = 4,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials at the same time; by default one per core.")] = None,
    device: Device = "auto",
    threads: Threads = 1,
    save_every: SaveEvery = 30.0,
    forecast_only: ForecastOnly = False,
    download: Download = False,
    as_json: AsJson = False,
) -> None:
    """Try settings, choose by validation, test the chosen one.

    Example: h2h search lm --over train.batch=8,16,32

    Type the same command again to continue a stopped search, or to see a finished one.
    """
    from headtohead.data.downloads import by_consent
    from headtohead.search.screen import typed
    from headtohead.training.arms import arm_for, arm_in

    if (task is None) == (arm is None):
        raise typer.BadParameter("say what to train: h2h search lm, h2h search classifier, or --arm FILE.py:NAME")
    context.with_resource(by_consent(forecast_only and not download))
    of_data = {"data": data, "validation": validation, "test": test, "text": text, "label": label}
    if arm is not None:
        only(context, context.params.keys() - of_data.keys(), "an arm has its own data, changed by --set data.…")
        chosen = arm_in(arm, settings or [])
    else:
        chosen = arm_for(task, data, validation, test, text, label, settings or [])
    show_search(
        chosen,
        over or [],
        trials,
        seed=seed,
        together=together,
        jobs=jobs,
        device=device,
        threads=threads,
        save_every=save_every,
        forecast_only=forecast_only,
        as_json=as_json,
        train=typed("train", task, {**of_data, "arm": arm, "set": settings}),
    )
