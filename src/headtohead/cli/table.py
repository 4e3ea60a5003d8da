"""h2h table: loss, accuracy or perplexity of runs, evaluation by evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AllSeeds, AsJson, By, Runs, Sets
from headtohead.cli.printing import console, print_json, save


@app.command(rich_help_panel=TRAIN)
def table(
    runs: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="loss, perplexity, bits_per_byte, accuracy, exact_match or macro_f1. Repeatable."),
    ] = None,
    sets: Sets = None,
    by: By = None,
    every: Annotated[int | None, typer.Option(min=1, help="A row every N steps; N epochs with --by epoch.")] = None,
    all_seeds: AllSeeds = False,
    format: Annotated[
        str | None, typer.Option("--format", help="text, markdown, csv or latex; by default as --out ends.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="A file: .txt, .md, .csv or .tex")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluations of runs: rows are steps, columns data sets.

    Example: h2h table latest --metric perplexity --every 100

    Several runs are columns of one table for each data set.
    """
    from headtohead.figures.style import check_out
    from headtohead.report import run_table
    from headtohead.report.named_runs import find_groups, split_names
    from headtohead.report.text_table import chosen_format
    from headtohead.run import store

    chosen = chosen_format(format, out)
    if out is not None:
        check_out(out, [Path(out).suffix.removeprefix(".").lower()])
    groups = find_groups(runs, store.home(), all_seeds)
    found = run_table.read(groups, metrics=metric or (), sets=split_names(sets), axis=by, every=every)
    if as_json:
        print_json(found.to_json())
    elif out is None:
        print(found.write(chosen, console().width), end="")
    save(out, lambda _: found.write(chosen).encode())
    for note in found.notes:
        console(stderr=True).print(f"note: {note}", markup=False)
