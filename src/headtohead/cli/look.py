"""h2h attend, heads: look into a trained model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headtohead.cli.base import AsJson, app, console, followed, only, print_json, saved, text_or_sample
from headtohead.cli.texts import Run, Sample, Step


@app.command()
def attend(
    context: typer.Context,
    run: Run,
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")] = None,
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, from 0. Repeatable.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="Only this head, from 0. Repeatable.")] = None,
    step: Step = None,
    compare: Annotated[str | None, typer.Option(help="Another run, beside this one and subtracted.")] = None,
    evolution: Annotated[bool, typer.Option("--evolution", help="What heads do over training, over seeds.")] = False,
    film: Annotated[
        bool, typer.Option("--film", help="One head's map through training; with --layer, --head.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="A picture or page: .png, .svg or .html")] = None,
    sample: Sample = None,
    as_json: AsJson = False,
) -> None:
    """Attention maps of a run on a text, with what must hold of them: h2h attend latest "a text" --out map.html

    RUN may be a checkpoint: a folder with a Hugging Face model, minilm or hub:NAME. Exit 1 if a map is not what it must
    be.
    """
    from headtohead import look_commands

    if evolution:
        allowed = ("run", "text", "evolution", "out", "as_json")
        only(context, allowed, "--evolution looks at every head, step and seed")
        look_commands.check_out(out, ("png", "svg"))
        found = followed(look_commands.evolve(run, text), "looking at every step")
        if as_json:
            print_json(found.to_json())
        else:
            look_commands.show_evolution(found, console())
        saved(out, lambda kind: look_commands.draw_evolution(found, kind))
        return
    given = text_or_sample(text, sample)
    films = look_commands.films(run, compare, given, step, layer or [], head or [], out, film)
    if as_json:
        print_json([maps.to_json() for maps in look_commands.last(films)])
    else:
        look_commands.show(films, console())
    saved(out, lambda kind: look_commands.draw(films, kind, film))
    raise typer.Exit(0 if all(maps.ok for frames in films for maps in frames) else 1)


@app.command()
def heads(
    run: Run,
    on: Annotated[str | None, typer.Option("--set", help="A held-out set; validation by default.")] = None,
    items: Annotated[int, typer.Option(min=1, help="Windows or texts of it.")] = 256,
    alone: Annotated[bool, typer.Option("--alone", help="This run only, not the other seeds of its arm.")] = False,
    data: Annotated[str | None, typer.Option(help="For a checkpoint: a corpus or a file to measure it on.")] = None,
    out: Annotated[str | None, typer.Option(help="A picture: .png or .svg")] = None,
    as_json: AsJson = False,
) -> None:
    """What each head is worth: silence it, average, shuffle, shift, re-weight heads at test time.

    The effect of each on the held-out loss, over texts and, where the store has other seeds of the arm, over seeds.
    """
    from headtohead import look_commands

    look_commands.check_out(out, ("png", "svg"))
    found: Any = followed(look_commands.operate(run, on, items, alone, data), "operating on heads")
    if as_json:
        print_json(found.to_json())
    else:
        look_commands.show_surgery(found, console())
    saved(out, lambda kind: look_commands.draw_surgery(found, kind))
