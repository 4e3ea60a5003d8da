"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from headtohead.cli import completing


class TaskName(StrEnum):
    lm = "lm"
    classifier = "classifier"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Data = Annotated[
    str | None,
    typer.Option(
        help="A corpus (h2h list corpora), or your file: .txt .tsv .csv .jsonl .parquet",
        autocompletion=completing.corpora,
    ),
]
ValidationFile = Annotated[str | None, typer.Option("--validation", help="Your file for validation.")]
TestFile = Annotated[str | None, typer.Option("--test", help="Your file for testing.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="The column with the texts, if it is not recognised.")]
LabelColumn = Annotated[
    str | None, typer.Option("--label", help="The column with the labels, if it is not recognised.")
]
ArmInFile = Annotated[str | None, typer.Option("--arm", help="An arm in a Python file: FILE.py:NAME")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting, such as model.position=Rope. Repeatable.", autocompletion=completing.settings
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(help="FIELD=VALUE,VALUE,… to compare. Repeatable.", autocompletion=completing.settings),
]
Metric = Annotated[str | None, typer.Option(help="SET/FIGURE, such as test/loss or obama/perplexity.")]
Recipe = Annotated[
    str,
    typer.Argument(
        help="A recipe's file or name; or lm or classifier, with --vary.", autocompletion=completing.recipes
    ),
]

Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at the same time; by default one per core.")]
On = Annotated[str, typer.Option("--on", help="local, ray, or ray:ADDRESS of a running cluster.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each run. More than one changes the last digits.")]
SaveEvery = Annotated[float, typer.Option("--save-every", min=0, help="Seconds between checkpoints.")]
LogTo = Annotated[str | None, typer.Option("--log-to", help="trackio, tensorboard or wandb, on this machine.")]
Download = Annotated[
    bool, typer.Option("--download", help="With --forecast-only: download what is missing, without asking.")
]
ForecastOnly = Annotated[bool, typer.Option("--forecast-only", help="Print how long it would take, then end.")]

Run = Annotated[
    str,
    typer.Argument(
        help="A run: its id, the beginning of its id, latest, or a study's arm such as positions/Rope@3. "
        "Or a checkpoint: a folder, minilm or hub:NAME",
        autocompletion=completing.runs,
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        help="Runs: an id, its beginning, latest, or a study's arm. positions/Rope@3 is one seed, positions/Rope all "
        "seeds, positions every arm.",
        autocompletion=completing.runs,
    ),
]
Step = Annotated[int | None, typer.Option(min=0, help="Use the weights saved at this step; 0 is before training.")]
Trust = Annotated[bool, typer.Option("--trust", help="Approve the code that came with the run, as h2h trust does.")]
AllSeeds = Annotated[bool, typer.Option("--all-seeds", help="Add the other seeds of each run's arm in the store.")]
Sets = Annotated[
    str | None,
    typer.Option("--sets", help="Data sets: train, batches, validation, test, or a set's name: train,obama"),
]
By = Annotated[str | None, typer.Option("--by", help="step or epoch; by default as the runs were trained.")]


def only(context: typer.Context, allowed: Iterable[str], reason: str) -> None:
    """Refuse every typed option that is not in `allowed`, because the command would ignore it."""
    from headtohead.errors import InputError

    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in allowed:
            option = parameter.opts[0].startswith("-")
            raise InputError(f"{reason}: leave out {parameter.opts[0] if option else context.params[parameter.name]}")
