"""h2h attend: attention maps of a trained model."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import INSIDE, app
from headtohead.cli.options import AsJson, Run, Step, Trust, only
from headtohead.cli.printing import console, print_json, save, with_bar
from headtohead.cli.texts import read_text, text_or_sample


@app.command(rich_help_panel=INSIDE)
def attend(
    context: typer.Context,
    run: Run,
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")] = None,
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, from 0. Repeatable.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="Only this head, from 0. Repeatable.")] = None,
    step: Step = None,
    compare: Annotated[str | None, typer.Option(help="Another run: its maps, and the difference.")] = None,
    evolution: Annotated[
        bool, typer.Option("--evolution", help="How heads change during training, over seeds.")
    ] = False,
    film: Annotated[
        bool, typer.Option("--film", help="One head's map during training; needs --layer and --head.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="A picture or page: .png, .svg or .html")] = None,
    sample: Annotated[
        str | None, typer.Option(help="Instead of a text, a sample: short, beyond (the block), normal, weird or long.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Attention maps of a run on a text, checked.

    Example: h2h attend latest "a text" --out map.html

    RUN may be a checkpoint: a folder with a Hugging Face model, minilm or hub:NAME. Every map is checked: rows sum to
    one, masked positions are zero, and the maps give the model's own output. Exit 1 if a check fails.
    """
    from headtohead.display.attention import show_evolution, show_maps
    from headtohead.interpret import attend as work

    if evolution:
        allowed = ("run", "text", "evolution", "out", "trust", "as_json")
        only(context, allowed, "--evolution shows every head, step and seed")
        work.check_out(out, ("png", "svg"))
        approve_for([run], trust, all_seeds=True)
        wanted = None if text is None else read_text(text)
        found = with_bar(work.evolve(run, wanted), "computing the maps of every step")
        if as_json:
            print_json(found.to_json())
        else:
            show_evolution(found, console())
        save(out, lambda kind: work.draw_evolution(found, kind))
        return
    given = text_or_sample(text, sample)
    approve_for([run, compare], trust)
    films = work.films(run, compare, given, step, layer or [], head or [], out, film)
    if as_json:
        print_json([maps.to_json() for maps in work.last(films)])
    else:
        show_maps(work.last(films), console())
    save(out, lambda kind: work.draw(films, kind, film))
    raise typer.Exit(0 if all(maps.ok for frames in films for maps in frames) else 1)
