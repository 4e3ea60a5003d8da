"""h2h run, plan, demo: a question in, a verdict out."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headtohead.cli.base import AsJson, Device, LogTo, SaveEvery, Settings, app, console, followed, print_json

Jobs = Annotated[int | None, typer.Option(min=1, help="Runs side by side; one a core by default.")]
On = Annotated[str, typer.Option("--on", help="local, ray, or ray:ADDRESS of a running cluster.")]


@app.command()
def run(
    recipe: Annotated[str, typer.Argument(help="A recipe's file or name, or lm or classifier with --vary.")],
    vary: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… to compare. Repeatable.")] = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or a file of yours.")] = None,
    settings: Settings = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Pairs; six or more for a verdict.")] = None,
    metric: Annotated[str | None, typer.Option(help="SET/FIGURE, such as test/loss or obama/perplexity.")] = None,
    margin: Annotated[str | None, typer.Option(help="A difference too small to matter: 0.01 or 1%.")] = None,
    jobs: Jobs = None,
    on: On = "local",
    effect: Annotated[str | None, typer.Option(help="Plan first, and take the pairs that see it: 0.01 or 1%.")] = None,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Of each run; more than one changes the last digits.")] = 1,
    log_to: LogTo = None,
    save_every: SaveEvery = 30.0,
    as_json: AsJson = False,
) -> None:
    """Run a study, or go on with it: h2h run lm --vary model.position=Learned,Rope,Alibi --seeds 6

    Runs that are in the store are used, not trained again. The same command goes on where it was stopped.
    """
    from headtohead import study_commands

    study = study_commands.study_for(
        recipe, vary=vary, data=data, settings=settings or [], seeds=seeds, metric=metric, margin=margin
    )
    if effect is not None:
        if seeds is not None:
            raise typer.BadParameter("--effect plans how many pairs it takes: leave out --seeds")
        forecast = _planned(study, effect, jobs, quiet=as_json)
        if forecast.pairs is None:
            raise typer.BadParameter("no number of pairs sees so small an effect: ask for a larger one")
        study = dataclasses.replace(study, seeds=forecast.pairs)
    carry_study(study, jobs, on, device, threads, save_every, as_json, log_to)


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="A recipe's file or name, or lm or classifier with --vary.")],
    effect: Annotated[str, typer.Option(help="The smallest difference worth seeing: 0.01 or 1%.")] = "1%",
    vary: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… to compare. Repeatable.")] = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or a file of yours.")] = None,
    settings: Settings = None,
    metric: Annotated[str | None, typer.Option(help="SET/FIGURE, such as test/loss or obama/perplexity.")] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """How many pairs and minutes a study takes: about a minute of trial runs, then a forecast.

    h2h run RECIPE --effect 1% plans and then runs with the pairs that takes.
    """
    from headtohead import study_commands

    study = study_commands.study_for(
        recipe, vary=vary, data=data, settings=settings or [], seeds=None, metric=metric, margin=None
    )
    forecast = _planned(study, effect, jobs, quiet=as_json)
    if as_json:
        print_json(forecast.to_json())


def _planned(study: Any, effect: str, jobs: int | None, quiet: bool = False) -> Any:
    from headtohead import watch_study
    from headtohead.metrics import read_amount
    from headtohead.planning import Forecast
    from headtohead.planning import plan as planning

    read_amount(effect)  # say now, not after a minute
    found: list[Any] = []

    def events() -> Any:
        for event in planning(study, effect, jobs=jobs):
            if isinstance(event, Forecast):
                found.append(event)
            else:
                yield event

    watch_study.follow(events(), console(stderr=True), study.measured)
    if not found:
        console(stderr=True).print("stopped; give the same command again to go on", markup=False)
        raise typer.Exit(130)
    if not quiet:
        for line in found[0].lines():
            print(line)
    return found[0]


@app.command()
def demo(jobs: Jobs = None, on: On = "local", as_json: AsJson = False) -> None:
    """The default study on the embedded corpus: position encodings, six pairs, some minutes."""
    from headtohead import study_commands

    carry_study(study_commands.recipe("demo"), jobs, on, "cpu", 1, 30.0, as_json)


def carry_study(
    study: Any,
    jobs: int | None,
    on: str,
    device: str,
    threads: int,
    save_every: float,
    as_json: bool,
    log_to: str | None = None,
) -> None:
    from headtohead import study_commands, watch_study
    from headtohead.carry import carry_out
    from headtohead.commands import options_for
    from headtohead.machine import check_threads
    from headtohead.outcome import load_outcome
    from headtohead.planning import how_it_went
    from headtohead.report.page import write_report, written_report
    from headtohead.report_commands import audits_of

    check_threads(threads)
    errors = console(stderr=True)
    for line in followed(study_commands.audited(study), "auditing the models"):
        errors.print(line, markup=False, soft_wrap=True)
    options = options_for(save_every, log_to)
    events = carry_out(study, jobs=jobs, on=on, device=device, threads=threads, options=options)
    start = time.monotonic()
    folder, fresh = watch_study.follow(events, errors, study.measured)
    if folder is None:
        errors.print("stopped, everything is saved; give the same command again to go on", markup=False)
        raise typer.Exit(130)
    outcome = load_outcome(Path(folder))
    path = write_report(outcome, audits_of(outcome)) if fresh else written_report(outcome)
    if as_json:
        print_json({"folder": folder, "report": str(path), "tables": outcome.to_json()})
    else:
        for title in outcome.titles:
            watch_study.show(outcome.verdicts(title), console())
        for line in how_it_went(outcome.folder, (time.monotonic() - start) / 60, fresh):
            console().print(line, markup=False, soft_wrap=True)
        console().print(f"report: {path}", markup=False, soft_wrap=True)
    if any(row.status == "failed" for row in outcome.all_rows):
        raise typer.Exit(1)  # the others are there, and what failed is named
