"""h2h check-claim: what a claimed difference is worth."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Metric, TaskName
from headtohead.cli.printing import console, print_json


@app.command("check-claim", rich_help_panel=ASK)
def check_claim(
    claim: Annotated[
        str, typer.Argument(help='A sentence, such as "Rope beats Learned by 1.2 points, one run each".')
    ] = "",
    difference: Annotated[
        str | None, typer.Option(help="Variant − control: '1.2 points', 0.02 or 5%.", allow_from_autoenv=False)
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each arm.")] = None,
    control_runs: Annotated[
        int | None, typer.Option("--control-runs", help="Runs of the control, if it has another number.")
    ] = None,
    metric: Metric = None,
    task: Annotated[TaskName | None, typer.Option(help="The kind of model, if the metric does not tell.")] = None,
    variant: Annotated[str | None, typer.Option(help="The arm that is said to differ.")] = None,
    control: Annotated[str | None, typer.Option(help="The arm that it is compared with.")] = None,
    control_mean: Annotated[
        float | None, typer.Option("--control-mean", help="The control's value, for shares and perplexities.")
    ] = None,
    spread: Annotated[float | None, typer.Option(help="The number after ±, in the unit of the difference.")] = None,
    spread_is: Annotated[
        str | None, typer.Option("--spread-is", help="What ± is: sd (of the runs) or se (of a mean). [default: sd]")
    ] = None,
    sd: Annotated[
        float | None,
        typer.Option(help="The noise, in the unit of the difference: sd between runs; with --paired, between pairs."),
    ] = None,
    sd_runs: Annotated[
        int | None, typer.Option("--sd-runs", help="How many runs or pairs --sd is from; exact unless given.")
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Runs of equal seed share their first weights and batches.")
    ] = False,
    tried: Annotated[int, typer.Option(help="How many variants were tried, if the best is reported.")] = 1,
    study: Annotated[
        str | None, typer.Option(help="The study that tells the noise: in the store, or published.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a claimed difference is worth.

    Example: h2h check-claim "Rope beats Learned by 1.2 points, one run each"

    How often does chance give such a difference, what may the true one be, how many pairs would decide? The noise comes
    from --sd, the claim, your store, or the studies published with headtohead. Nothing is trained.
    """
    from headtohead.claimcheck.check import check_claim as check
    from headtohead.claimcheck.wording import text_of

    found = check(
        claim,
        difference=difference,
        runs=runs,
        control_runs=control_runs,
        metric=metric,
        task=cast(Any, task and task.value),
        variant=variant,
        control=control,
        control_mean=control_mean,
        spread=spread,
        spread_is=cast(Any, spread_is),  # checked there
        sd=sd,
        sd_runs=sd_runs,
        paired=paired,
        tried=tried,
        study=study,
    )
    if as_json:
        print_json(found.to_json())
    else:
        print(text_of(found, console().width))
