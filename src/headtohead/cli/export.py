"""h2h export: write a model in Hugging Face format, or the figures of a study as tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AsJson, Step, Trust, only
from headtohead.cli.printing import print_json
from headtohead.errors import InputError


@app.command(rich_help_panel=TRAIN)
def export(
    context: typer.Context,
    run: Annotated[
        str,
        typer.Argument(
            help="A run: its id, the beginning of its id, latest, or a study's arm such as positions/Rope@3. "
            "Or a checkpoint: a folder, minilm or hub:NAME. With --csv or --parquet: a study, a recipe's file or latest"
        ),
    ],
    folder: Annotated[
        str | None,
        typer.Argument(help="A new folder; transformers loads it with AutoModelFor…. Of a study: NAME-export."),
    ] = None,
    step: Step = None,
    push: Annotated[str | None, typer.Option(help="Upload it to the Hub under this name.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write the figures of a study, and scripts to check it.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="The same, with the long table as parquet.")] = False,
    items: Annotated[bool, typer.Option("--items", help="With every test text or window in the long table.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write a model in Hugging Face format, or a study as tables.

    Examples: h2h export latest my-model, h2h export demo --csv

    A model gets its tokenizer and a card. The tables of a study are the long table (arm, seed, step, item, metric,
    value) and what the scripts verdicts.py and verdicts.R need to reproduce the verdicts without headtohead.
    """
    if csv and parquet:
        raise InputError("--csv and --parquet are two formats of the same table: give one of them")
    if csv or parquet:
        only(context, ("run", "folder", "csv", "parquet", "items", "as_json"), "a study is exported without models")
        _export_study(run, folder, "csv" if csv else "parquet", items, as_json)
        return
    if items:
        raise InputError("--items belongs to the table of a study: add --csv or --parquet")
    if folder is None:
        raise InputError(
            f"give a new folder for the model: h2h export {run} FOLDER; the tables of a study need --csv or --parquet"
        )
    from headtohead.export import exported
    from headtohead.run.named import named

    approve_for([run], trust)
    made = exported.export(named(run, step), folder)
    if as_json:
        print_json(made.to_json())
    else:
        for line in made.lines():
            print(line)
    if push is not None:
        exported.push(made.folder, push, lambda line: print(f"h2h: {line}", file=sys.stderr))


def _export_study(name: str, folder: str | None, format: Literal["csv", "parquet"], items: bool, as_json: bool) -> None:
    from headtohead.outcome.outcome import load_outcome

    place = _study(name, format)
    into = Path(folder if folder is not None else f"{place.name}-export")
    made = load_outcome(place).export(into, format, items)
    if as_json:
        print_json({"study": place.name, "folder": str(into), "files": [str(path) for path in made]})
    else:
        print(f"wrote {into}: {', '.join(path.name for path in made)}")
        print(f"check the verdicts: python {into / 'verdicts.py'}   or   Rscript {into / 'verdicts.R'}")


def _study(name: str, format: str) -> Path:
    """The folder of the study with this name. The message for the name of a run says what to do instead."""
    from headtohead.run import store
    from headtohead.run.studies import find_study

    if ".py" in name:
        from headtohead.study.recipes import folder_named

        return folder_named(name)
    try:
        return find_study(name, store.home())
    except InputError:
        if "/" in name or any(run.id.startswith(name) for run in store.runs() if name):
            raise InputError(
                f"{name} is a run, and --{format} exports a study: give its name (h2h list studies), "
                f"or leave out --{format} to export the model"
            ) from None
        raise
