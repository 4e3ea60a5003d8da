"""h2h export: a trained model in Hugging Face's format."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headtohead.cli.base import AsJson, app, print_json
from headtohead.cli.texts import Run, Step


@app.command()
def export(
    run: Run,
    folder: Annotated[str, typer.Argument(help="A new folder; transformers loads it with AutoModelFor….")],
    step: Step = None,
    push: Annotated[str | None, typer.Option(help="And then to the Hub, as a model of this name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model in Hugging Face's format, with its tokenizer and a card: h2h export latest my-model"""
    from headtohead import commands
    from headtohead.exports import exported

    made = exported.export(commands.trained(run, step), folder)
    if as_json:
        print_json(made.to_json())
    else:
        for line in made.lines():
            print(line)
    if push is not None:
        exported.push(made.folder, push, lambda line: print(f"h2h: {line}", file=sys.stderr))
