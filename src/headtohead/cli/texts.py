"""h2h score, classify: a trained model on a text."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headtohead.cli.base import AsJson, app, console, print_json


@app.command()
def score(
    run: Annotated[str, typer.Argument(help="A run: its id, the beginning of it, or latest.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    step: Annotated[int | None, typer.Option(help="The weights kept at this step.")] = None,
    as_json: AsJson = False,
) -> None:
    """Loss and perplexity of a text under a language model, token by token."""
    from headtohead import commands, predict

    scored = predict.score(commands.trained(run, step), commands.given(text))
    if as_json:
        print_json(scored.to_json())
    else:
        scored.show(console())


@app.command()
def classify(
    run: Annotated[str, typer.Argument(help="A run: its id, the beginning of it, or latest.")],
    texts: Annotated[list[str], typer.Argument(help="Texts; - reads one a line from standard input.")],
    step: Annotated[int | None, typer.Option(help="The weights kept at this step.")] = None,
    as_json: AsJson = False,
) -> None:
    """The label of each text and the probability of every class."""
    from headtohead import commands, predict

    given, blank = commands.given_lines(texts)
    found = predict.classify(commands.trained(run, step), given)
    if blank:
        lines = ", ".join(map(str, blank[:9])) + (" …" if len(blank) > 9 else "")
        print(f"h2h: blank lines of standard input are left out: {lines}", file=sys.stderr)
    if as_json:
        print_json([f.to_json() for f in found])
    else:
        predict.show(found, console())
