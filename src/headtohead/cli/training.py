"""h2h train: one arm, one or several seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from headtohead.cli.base import (
    ArmOfFile,
    AsJson,
    Device,
    LabelColumn,
    LogTo,
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

if TYPE_CHECKING:
    from headtohead.arm import RunSpec
    from headtohead.runs import Event


class TaskName(StrEnum):
    lm = "lm"
    classifier = "classifier"


@app.command()
def train(
    context: typer.Context,
    task: Annotated[TaskName | None, typer.Argument(help="lm (language model) or classifier.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A corpus (h2h list corpora), or a file of yours: .txt .tsv .csv .jsonl .parquet")
    ] = None,
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    arm: ArmOfFile = None,
    settings: Settings = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates; short for --set train.steps=N")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes; short for --set train.epochs=N")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, one run each.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; one a core by default.")] = None,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Of each run; more than one changes the last digits.")] = 1,
    log_to: LogTo = None,
    save_every: SaveEvery = 30.0,
    resume: Annotated[str | None, typer.Option(help="Go on with a run that was stopped.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train one model: h2h train lm --data shakespeare --set model.position=Rope --steps 1000

    The same command again goes on where it was stopped, or shows what is in the store.
    """
    from headtohead import commands

    if resume is not None:
        only(context, ("resume", "log_to", "save_every", "as_json"), "--resume goes on with a run's own settings")
        specs = [commands.resumed(resume)]
    elif task is None and arm is None:
        raise typer.BadParameter("say what to train: h2h train lm, h2h train classifier, or --arm FILE.py:NAME")
    elif task is not None and arm is not None:
        raise typer.BadParameter(f"{task} and --arm both say what to train: give one of them")
    else:
        changes = [*(settings or []), *commands.length(steps, epochs, settings or [])]
        if arm is not None:
            of_data = ("data", "validation", "test", "text", "label")
            only(context, context.params.keys() - set(of_data), "an arm has its own data, changed by --set data.…")
            chosen = commands.arm_in(arm, changes)
        else:
            chosen = commands.arm_for(task, data, validation, test, text, label, changes)
        specs = commands.runs_of(chosen, range(seed, seed + seeds), device, threads)
    carry_runs(specs, jobs, save_every, as_json, log_to=log_to)


def carry_runs(
    specs: list[RunSpec],
    jobs: int | None,
    save_every: float,
    as_json: bool,
    *,
    log_to: str | None = None,
    afterwards: Callable[[list[Event]], Iterator[str]] | None = None,
) -> None:
    """Train the runs, show how they ended and what is to be said afterwards, and exit."""
    from headtohead import commands, screen

    seeds_of = {spec.id: spec.seed for spec in specs}
    ended = screen.follow(commands.execute_all(specs, jobs, save_every, log_to), console(stderr=True), len(specs))
    ended = commands.by_seed(ended, seeds_of)
    there = sum(getattr(event, "already", False) for event in ended)
    if log_to is not None and there:
        said = f"h2h: {there} of {len(specs)} runs were in the store already: nothing of them was logged to {log_to}"
        print(said, file=sys.stderr)
    if as_json:
        print_json([commands.summary(event, seeds_of) for event in ended])
    else:
        screen.show_end(ended, console(), seeds_of)
        for line in afterwards(ended) if afterwards else ():
            console().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(commands.exit_code(ended))
