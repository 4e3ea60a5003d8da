"""h2h score, classify, generate: a trained model and a text."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headtohead.cli.base import AsJson, app, console, print_json, text_or_sample

Run = Annotated[
    str,
    typer.Argument(
        help="A run: its id, the beginning of it, latest, or a study's arm: positions/Rope@3. Or a checkpoint: "
        "a folder, minilm or hub:NAME"
    ),
]
Step = Annotated[int | None, typer.Option(min=0, help="The weights kept at this step; 0 is before training.")]
Sample = Annotated[
    str | None, typer.Option(help="Instead of a text, a sample: short, beyond (the block), normal, weird or long.")
]


@app.command()
def score(
    run: Run,
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")] = None,
    step: Step = None,
    sample: Annotated[
        str | None, typer.Option(help="Instead of a text: short, beyond, normal, weird, long, or all of them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Loss and perplexity of a text under a language model, token by token."""
    from headtohead import commands, predict

    model = commands.trained(run, step)
    if sample == "all" and text is None:
        scores = predict.score_samples(model)
        if as_json:
            print_json({name: scored.to_json() for name, scored in scores.items()})
        else:
            predict.show_samples(scores, console())
        return
    scored = predict.score(model, text_or_sample(text, sample))
    if as_json:
        print_json(scored.to_json())
    else:
        scored.show(console())


@app.command()
def classify(
    run: Run,
    texts: Annotated[list[str], typer.Argument(help="Texts; - reads one a line from standard input.")],
    step: Step = None,
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


@app.command()
def generate(
    run: Run,
    text: Annotated[str, typer.Argument(help="What it goes on from; - reads it from standard input.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="How many to add.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="How many ways to go on, side by side.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest token.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Only so many of the likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Only the likeliest that together have this probability.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: what was said becomes less likely.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same text.")] = 0,
    step: Step = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="The model's own, token by token.")] = False,
    uncached: Annotated[bool, typer.Option("--uncached", help="Read everything anew for each token.")] = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a text: h2h generate latest "The people" --tokens 200 --top-p 0.9 --samples 3"""
    from headtohead import commands, writing
    from headtohead.generate import Sampling

    sampling = Sampling(greedy, temperature, top_k, top_p, repetition_penalty, seed)
    model, prompt = commands.trained(run, step), commands.given(text)
    asked: dict[str, Any] = {"tokens": tokens, "samples": samples, "sampling": sampling, "cached": not uncached}
    if as_json:
        print_json([g.to_json() for g in writing.generate(model, prompt, **asked)])
    elif samples == 1 and not probabilities:
        writing.write_along(model, prompt, sys.stdout, **asked)
    else:
        writing.show(writing.generate(model, prompt, **asked), console(), probabilities)
