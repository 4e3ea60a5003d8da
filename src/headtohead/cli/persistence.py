"""Run `--scales`, `--rates` and `--variance` with progress on the screen, then print the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import typer

from headtohead.cli.printing import console, print_json
from headtohead.cli.screens import STOPPED

if TYPE_CHECKING:
    from headtohead.persistence.rates import Rates
    from headtohead.persistence.scales import Scales
    from headtohead.persistence.variance import Decomposition
    from headtohead.run.executors.execution import Execution
    from headtohead.study.study import Study


def show_scales(study: Study, scales: str, how: Execution, as_json: bool) -> None:
    """Run a study at several scales, then print how each effect changes."""
    from headtohead.persistence.scales import run_scales

    numbers = read_numbers(scales, "--scales", "1,4")
    _show(lambda: run_scales(study, numbers, how), as_json)


def show_rates(study: Study, rates: str | None, seeds: int | None, how: Execution, as_json: bool) -> None:
    """Run a study over a grid of learning rates, then print where the sign of each effect holds."""
    from headtohead.persistence.rates import SEEDS, run_rates

    grid: list[float] | Literal["auto"] = "auto"
    if rates is not None and rates.strip() != "auto":
        grid = read_numbers(rates, "--rates", "1e-3,2e-3,4e-3 or auto")
    _show(lambda: run_rates(study, grid, how, seeds=seeds or SEEDS), as_json)


def show_variance(study: Study, arm: str | None, levels: int | None, how: Execution, as_json: bool) -> None:
    """Train the runs that separate the sources of noise, then print them."""
    from headtohead.persistence.variance import LEVELS, decompose

    _show(lambda: decompose(study, arm, how, levels=levels or LEVELS), as_json)


def read_numbers(text: str, option: str, example: str) -> list[float]:
    from headtohead.errors import InputError

    try:
        return [float(piece) for piece in text.split(",")]
    except ValueError:
        raise InputError(f"{option} takes numbers separated by commas, such as {example}, not '{text}'") from None


def _show(work: Callable[[], Scales | Rates | Decomposition], as_json: bool) -> None:
    from headtohead.study.workflow import StudyStopped

    try:
        found = work()
    except StudyStopped:
        console(stderr=True).print(STOPPED, markup=False)
        raise typer.Exit(130) from None
    if as_json:
        print_json(found.to_json())
        return
    for line in found.lines():
        console().print(line, markup=False)
