"""Run work with progress on the screen, then print its result: shared by several commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from headtohead.cli.printing import console, print_json

if TYPE_CHECKING:
    from headtohead.outcome.outcome import Outcome
    from headtohead.run.events import Event
    from headtohead.run.executors.execution import Execution
    from headtohead.study.plan import StudyPlan
    from headtohead.study.study import Study
    from headtohead.training.arm import RunSpec

STOPPED = "stopped; everything is saved. Type the same command again to continue."


def show_study(
    study: Study, execution: Execution, as_json: bool, *, afterwards: Callable[[Outcome], Iterator[str]] | None = None
) -> None:
    """Run a study with progress, then print its verdicts and the lines of `afterwards`."""
    from headtohead.display.study import show, study_screen
    from headtohead.study.workflow import StudyStopped, run_study

    errors = console(stderr=True)
    try:
        with study_screen(study.measured, errors) as screen:
            outcome = run_study(study, execution, listen=screen.hear)
    except StudyStopped:
        errors.print(STOPPED, markup=False)
        raise typer.Exit(130) from None
    if as_json:
        print_json(outcome.to_json())
    else:
        for title in outcome.titles:
            show(outcome.table(title), console())
        console().print(f"report: {outcome.report()}", markup=False, soft_wrap=True)
        for line in afterwards(outcome) if afterwards else ():
            console().print(line, markup=False)
    if outcome.failed:
        raise typer.Exit(1)


def show_plan(study: Study, effect: str, jobs: int | None, quiet: bool = False) -> StudyPlan:
    """Plan a study with progress, then print the plan."""
    from headtohead.display.study import study_screen
    from headtohead.study.plan import PlanStopped, plan_study

    errors = console(stderr=True)
    try:
        with study_screen(study.measured, errors) as screen:
            found = plan_study(study, effect, jobs=jobs, listen=screen.hear)
    except PlanStopped:
        errors.print(STOPPED, markup=False)
        raise typer.Exit(130) from None
    for line in [] if quiet else found.lines():
        print(line)
    return found


def show_runs(
    specs: list[RunSpec],
    execution: Execution,
    as_json: bool,
    *,
    afterwards: Callable[[list[Event]], Iterator[str]] | None = None,
) -> None:
    """Train runs with progress, print how they ended and the lines of `afterwards`, then exit."""
    from headtohead.display.training_screen import run_screen, show_end
    from headtohead.run.train import end_to_json, exit_code, train_runs

    seeds = {spec.id: spec.seed for spec in specs}
    with run_screen(len(specs), console(stderr=True)) as screen:
        ends = train_runs(specs, execution, listen=screen.hear)
    stored = sum(getattr(event, "already", False) for event in ends)
    if execution.log_to is not None and stored:
        log = f"they were not logged to {execution.log_to}"
        print(f"h2h: {stored} of {len(specs)} runs were in the store already: {log}", file=sys.stderr)
    if as_json:
        print_json([end_to_json(event, seeds) for event in ends])
    else:
        show_end(ends, console(), seeds)
        for line in afterwards(ends) if afterwards else ():
            console().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(exit_code(ends))


def show_search(
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
    """Search from an arm with progress, then print the result. `train` has the words of the command that trains it."""
    from headtohead.run.forecast import Forecast
    from headtohead.run.machine import check_threads, choose_device
    from headtohead.run.session import Options
    from headtohead.search import Search, Searched, run_search
    from headtohead.search import screen as search_commands

    check_threads(threads)
    fields, device = search_commands.read_over(over), choose_device(device)
    asked = Search(arm, fields, trials, seed=seed, together=together, device=device, threads=threads)
    events = run_search(asked, jobs=jobs, options=Options(save_every=save_every), forecast_only=forecast_only)
    errors = console(stderr=True)
    ends = (event for event in events if isinstance(event, Forecast | Searched))
    end = next(ends) if forecast_only else search_commands.follow(events, errors)
    if end is None:
        errors.print(STOPPED, markup=False)
        raise typer.Exit(130)
    if isinstance(end, Forecast):
        print_json(end.to_json()) if as_json else print(search_commands.forecast_text(end))
        return
    if end.already:
        errors.print("this search is in the store: its result is shown, and nothing is trained or tested again")
    more = search_commands.more_seeds(end.record, train)
    if as_json:
        print_json({"folder": end.folder, "picture": f"{end.folder}/grid.png", "train": more, **end.record.to_json()})
    else:
        search_commands.show(end.record, end.folder, more, console())
