"""h2h classify: labels for texts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AsJson, Run, Step, Trust
from headtohead.cli.printing import console, print_json
from headtohead.cli.texts import read_lines


@app.command(rich_help_panel=TRAIN)
def classify(
    run: Run,
    texts: Annotated[list[str], typer.Argument(help="Texts; - reads one per line from standard input.")],
    step: Step = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Label texts, with the probability of every class."""
    from headtohead.display.scores import show_labels
    from headtohead.interpret import score as predict
    from headtohead.run.named import named

    lines, blank = read_lines(texts)
    approve_for([run], trust)
    found = predict.classify(named(run, step), lines)
    if blank:
        which = ", ".join(map(str, blank[:9])) + (" …" if len(blank) > 9 else "")
        print(f"h2h: blank lines of standard input are left out: {which}", file=sys.stderr)
    if as_json:
        print_json([f.to_json() for f in found])
    else:
        show_labels(found, console())
