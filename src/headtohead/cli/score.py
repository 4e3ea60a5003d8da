"""h2h score: loss and perplexity of a text."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AsJson, Run, Step, Trust
from headtohead.cli.printing import console, print_json
from headtohead.cli.texts import text_or_sample


@app.command(rich_help_panel=TRAIN)
def score(
    run: Run,
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")] = None,
    step: Step = None,
    sample: Annotated[
        str | None, typer.Option(help="Instead of a text: short, beyond, normal, weird, long, or all of them.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Loss and perplexity of a text, token by token."""
    from headtohead.display.scores import show_samples, show_score
    from headtohead.interpret import score as predict
    from headtohead.run.named import named

    approve_for([run], trust)
    model = named(run, step)
    if sample == "all" and text is None:
        scores = predict.score_samples(model)
        if as_json:
            print_json({name: scored.to_json() for name, scored in scores.items()})
        else:
            show_samples(scores, console())
        return
    scored = predict.score(model, text_or_sample(text, sample))
    if as_json:
        print_json(scored.to_json())
    else:
        show_score(scored, console())
