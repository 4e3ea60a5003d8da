"""h2h compare: a verdict for figures that were made elsewhere."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import console, print_json

BETWEEN = "\0"  # cannot be part of an argument


class WithSides(TyperCommand):
    """Lets --against take every argument up to the next option, because the shell expands runs/rope* to many."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parsed: list[str] = []
        within = False
        for argument in args:
            if within and not argument.startswith("-"):
                if parsed[-1] == "--against":
                    parsed.append(argument)
                else:
                    parsed[-1] += BETWEEN + argument
                continue
            within = argument == "--against"
            parsed.append(argument)
        return super().parse_args(ctx, parsed)


@app.command(rich_help_panel=ASK, cls=WithSides)
def compare(
    sources: Annotated[
        list[str], typer.Argument(help="Tables, log files or folders of runs; with --against, those of the control.")
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE…", help="The runs of one variant, up to the next option. Repeatable."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="A column, a scalar tag or a logged name, such as eval_loss.")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The column, or field of the configuration, that names arms.")] = None,
    seed: Annotated[str | None, typer.Option(help="The column, or field of the configuration, with seeds.")] = None,
    control: Annotated[str | None, typer.Option(help="The arm that others are compared with.")] = None,
    better: Annotated[str | None, typer.Option(help="lower or higher, if the metric's name does not tell.")] = None,
    margin: Annotated[
        str | None, typer.Option(help="The largest difference that does not matter: 0.01, or 1% of the control.")
    ] = None,
    take: Annotated[str, typer.Option(help="The value of each run's curve: last, first or best.")] = "last",
    step: Annotated[int | None, typer.Option(help="Compare values at this step.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="For logs: a regular expression with the value in brackets.")
    ] = None,
    seed_pattern: Annotated[
        str | None, typer.Option("--seed-pattern", help="A regular expression with the seed of a name in brackets.")
    ] = None,
    average_repeats: Annotated[
        bool, typer.Option("--average-repeats", help="Average runs of one arm and seed instead of refusing them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge figures that were made elsewhere.

    Example: h2h compare results.csv --metric loss --arm arm --seed seed

    It reads CSV, TSV and JSONL tables, TensorBoard and W&B folders, W&B exports, trainer_state.json, samples of
    lm-eval, and log files. Runs are paired where arms share seeds.
    """
    from headtohead.external.comparison import compare_sources
    from headtohead.external.wording import text_of

    found = compare_sources(
        sources,
        [side.split(BETWEEN) for side in against or []],
        metric=metric,
        arm=arm,
        seed=seed,
        control=control,
        better=cast(Any, better),  # checked there
        margin=margin,
        take=cast(Any, take),
        step=step,
        pattern=pattern,
        seed_pattern=seed_pattern,
        average_repeats=average_repeats,
    )
    if as_json:
        print_json(found.to_json())
    else:
        print(text_of(found, console().width))
