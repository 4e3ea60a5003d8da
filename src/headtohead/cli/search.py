"""h2h search: settings tried, one chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headtohead.cli.base import (
    ArmOfFile,
    AsJson,
    Device,
    LabelColumn,
    SaveEvery,
    Settings,
    TestFile,
    TextColumn,
    ValidationFile,
    app,
    console,
    only,
    print_json,
)
from headtohead.cli.training import TaskName


@app.command()
def search(
    context: typer.Context,
    task: Annotated[TaskName | None, typer.Argument(help="lm (language model) or classifier.")] = None,
    over: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… or FIELD=LOW..HIGH to try. Repeatable.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="So many, proposed by TPE; without it every combination is tried.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="A corpus (h2h list corpora), or a file of yours.")] = None,
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    arm: ArmOfFile = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every trial, and of what is proposed.")] = 0,
    together: Annotated[
        int, typer.Option(min=1, help="Trials that TPE proposes at a time; another number, another search.")
    ] = 4,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials side by side; one a core by default.")] = None,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Of each trial; more than one changes the last digits.")] = 1,
    save_every: SaveEvery = 30.0,
    forecast_only: Annotated[bool, typer.Option("--forecast-only", help="Say how long it takes, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try settings, choose by the validation set, test the chosen one: h2h search lm --over train.batch=8,16,32

    The same command again goes on where it was stopped, or shows what was found.
    """
    from headtohead import commands
    from headtohead.search_commands import typed

    if (task is None) == (arm is None):
        raise typer.BadParameter("say what to train: h2h search lm, h2h search classifier, or --arm FILE.py:NAME")
    of_data = {"data": data, "validation": validation, "test": test, "text": text, "label": label}
    if arm is not None:
        only(context, context.params.keys() - of_data.keys(), "an arm has its own data, changed by --set data.…")
        chosen = commands.arm_in(arm, settings or [])
    else:
        chosen = commands.arm_for(task, data, validation, test, text, label, settings or [])
    search_arm(
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


def search_arm(
    arm: Any,
    over: list[str],
    trials: int | None,
    *,
    seed: int = 0,
    together: int = 4,
    jobs: int | None = None,
    device: str = "cpu",
    threads: int = 1,
    save_every: float = 30.0,
    forecast_only: bool = False,
    as_json: bool = False,
    train: Sequence[str] = (),
) -> None:
    """Search from an arm, and show what is found; `train` are the words of the command that trains that arm."""
    from headtohead import search_commands
    from headtohead.machine import check_threads, choose_device
    from headtohead.runs import Options
    from headtohead.search import Forecast, Search, Searched, run_search

    check_threads(threads)
    fields, device = search_commands.read_over(over), choose_device(device)
    asked = Search(arm, fields, trials, seed=seed, together=together, device=device, threads=threads)
    events = run_search(asked, jobs=jobs, options=Options(save_every=save_every), forecast_only=forecast_only)
    errors = console(stderr=True)
    ends = (event for event in events if isinstance(event, Forecast | Searched))
    end = next(ends) if forecast_only else search_commands.follow(events, errors)
    if end is None:
        errors.print("stopped, everything is saved; give the same command again to go on", markup=False)
        raise typer.Exit(130)
    if isinstance(end, Forecast):
        print_json(end.to_json()) if as_json else print(search_commands.forecast_text(end))
        return
    if end.already:
        errors.print("this search was done before: what it found is shown, nothing is trained or tested again")
    more = search_commands.more_seeds(end.said, train)
    if as_json:
        print_json({"folder": end.folder, "picture": f"{end.folder}/grid.png", "train": more, **end.said})
    else:
        search_commands.show(end.said, end.folder, more, console())
