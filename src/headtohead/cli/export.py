"""h2h export: write a model in Hugging Face format."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AsJson, Run, Step
from headtohead.cli.printing import print_json


@app.command(rich_help_panel=TRAIN)
def export(
    run: Run,
    folder: Annotated[str, typer.Argument(help="A new folder; transformers loads it with AutoModelFor….")],
    step: Step = None,
    push: Annotated[str | None, typer.Option(help="Upload it to the Hub under this name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model in Hugging Face format, with tokenizer and card.

    Example: h2h export latest my-model
    """
    from headtohead.export import exported
    from headtohead.run.named import named

    made = exported.export(named(run, step), folder)
    if as_json:
        print_json(made.to_json())
    else:
        for line in made.lines():
            print(line)
    if push is not None:
        exported.push(made.folder, push, lambda line: print(f"h2h: {line}", file=sys.stderr))
