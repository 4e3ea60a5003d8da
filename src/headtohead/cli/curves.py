"""h2h curves: training, validation and test curves of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AllSeeds, AsJson, By, Runs, Sets, only
from headtohead.cli.printing import console, print_json, save


@app.command(rich_help_panel=TRAIN)
def curves(
    context: typer.Context,
    runs: Runs,
    metric: Annotated[
        str | None,
        typer.Option(
            help="loss, perplexity, bits_per_byte, accuracy, exact_match or macro_f1; by default the task's main one."
        ),
    ] = None,
    sets: Sets = None,
    by: By = None,
    over: Annotated[
        str | None,
        typer.Option(help="Results against the size of the test sets: pairs for pairs_2, pairs_4, …, or length."),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="A logarithmic scale.")] = False,
    all_seeds: AllSeeds = False,
    out: Annotated[str | None, typer.Option(help="A picture: .png, .svg or .pdf")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw training, validation and test curves of runs.

    Example: h2h curves latest --out curves.png

    One run is one panel with a line for each data set. Several runs get a panel for each data set. Several seeds are
    drawn as mean and range. Without --out, print first, best and last values.

    With --over, draw what the finished models reach on test sets of several sizes: h2h curves capacity --over pairs
    """
    from headtohead.figures.style import check_out
    from headtohead.report import curves as library
    from headtohead.report import size_curves
    from headtohead.report.named_runs import find_groups, split_names
    from headtohead.run import store

    check_out(out, library.KINDS)
    groups = find_groups(runs, store.home(), all_seeds)
    if over is not None:
        only(context, ("runs", "metric", "over", "all_seeds", "out", "as_json"), "--over shows finished models")
        sizes = size_curves.read(groups, over, metric)
        if as_json:
            print_json(sizes.to_json())
        elif out is None:
            print(sizes.text(console().width), end="")
        save(out, lambda kind: library.render(sizes.plot(), kind))
        return
    found = library.read(groups, metric=metric, sets=split_names(sets), axis=by)
    if as_json:
        print_json(found.to_json())
    elif out is None:
        print(library.summary(found).text(console().width), end="")
    save(out, lambda kind: library.render(library.draw([found], log), kind))
    for note in found.notes + (library.hidden(found) if out and not log else []):
        console(stderr=True).print(f"note: {note}", markup=False)
