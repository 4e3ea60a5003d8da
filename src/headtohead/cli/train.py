"""h2h train: train one arm with one or several seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import (
    ArmInFile,
    AsJson,
    Data,
    Device,
    Jobs,
    LabelColumn,
    LogTo,
    SaveEvery,
    Settings,
    TaskName,
    TestFile,
    TextColumn,
    Threads,
    Trust,
    ValidationFile,
    only,
)
from headtohead.cli.screens import show_runs


@app.command(rich_help_panel=TRAIN)
def train(
    context: typer.Context,
    task: Annotated[TaskName | None, typer.Argument(help="lm (language model) or classifier.")] = None,
    data: Data = None,
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    arm: ArmInFile = None,
    settings: Settings = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates; short for --set train.steps=N")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; short for --set train.epochs=N")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, one run each.")] = 1,
    jobs: Jobs = None,
    device: Device = "auto",
    threads: Threads = 1,
    log_to: LogTo = None,
    save_every: SaveEvery = 30.0,
    resume: Annotated[str | None, typer.Option(help="Continue a run that was stopped.")] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Train a language model or a classifier.

    Example: h2h train lm --data shakespeare --set model.position=Rope --steps 1000

    Type the same command again to continue a stopped run, or to see a finished one.
    """
    from headtohead.run.executors.execution import Execution
    from headtohead.run.train import spec_to_resume, specs_of
    from headtohead.training.arms import arm_for, arm_in, length

    execution = Execution(jobs, device=device, threads=threads, save_every=save_every, log_to=log_to)
    if resume is not None:
        only(context, ("resume", "log_to", "save_every", "trust", "as_json"), "--resume uses the run's own settings")
        approve_for([resume], trust)
        specs = [spec_to_resume(resume)]
    elif trust:
        raise typer.BadParameter("--trust is for the code of a run that is resumed: leave it out")
    elif task is None and arm is None:
        raise typer.BadParameter("say what to train: h2h train lm, h2h train classifier, or --arm FILE.py:NAME")
    elif task is not None and arm is not None:
        raise typer.BadParameter(f"{task} and --arm both say what to train: give one of them")
    else:
        changes = [*(settings or []), *length(steps, epochs, settings or [])]
        if arm is not None:
            of_data = ("data", "validation", "test", "text", "label")
            only(context, context.params.keys() - set(of_data), "an arm has its own data, changed by --set data.…")
            chosen = arm_in(arm, changes)
        else:
            chosen = arm_for(task, data, validation, test, text, label, changes)
        specs = specs_of(chosen, range(seed, seed + seeds), execution)
    show_runs(specs, execution, as_json)
