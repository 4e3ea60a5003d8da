"""h2h generate: continue a text."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import AsJson, Run, Step, Trust
from headtohead.cli.printing import console, print_json
from headtohead.cli.texts import read_text


@app.command(rich_help_panel=TRAIN)
def generate(
    run: Run,
    text: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Number of new tokens.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Number of continuations.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always take the most likely token.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 is safer, above 1 more varied.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw only from the k most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw only from the most likely tokens that together have this probability.")
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: tokens that are in the text already become less likely.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same text.")] = 0,
    step: Step = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Show the model's probability of each token.")
    ] = False,
    uncached: Annotated[bool, typer.Option("--uncached", help="Compute every token without a cache.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Continue a text with a language model.

    Example: h2h generate latest "The people" --tokens 200 --top-p 0.9 --samples 3
    """
    from headtohead.display import generation
    from headtohead.interpret.generate import Decoding
    from headtohead.run.named import named

    decoding = Decoding(greedy, temperature, top_k, top_p, repetition_penalty, seed)
    prompt = read_text(text)
    approve_for([run], trust)
    model = named(run, step)
    asked: dict[str, Any] = {"tokens": tokens, "samples": samples, "decoding": decoding, "cached": not uncached}
    if as_json:
        print_json([g.to_json() for g in generation.generate(model, prompt, **asked)])
    elif samples == 1 and not probabilities:
        generation.write_along(model, prompt, sys.stdout, **asked)
    else:
        generation.show(generation.generate(model, prompt, **asked), console(), probabilities)
