"""h2h heads: what each attention head contributes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import INSIDE, app
from headtohead.cli.options import AsJson, Run, Trust
from headtohead.cli.printing import console, print_json, save, with_bar


@app.command(rich_help_panel=INSIDE)
def heads(
    run: Run,
    on: Annotated[str | None, typer.Option("--set", help="A held-out set; validation by default.")] = None,
    items: Annotated[int, typer.Option(min=1, help="Number of windows or texts.")] = 256,
    alone: Annotated[bool, typer.Option("--alone", help="This run only, not the other seeds of its arm.")] = False,
    data: Annotated[str | None, typer.Option(help="For a checkpoint: a corpus or a file to measure it on.")] = None,
    out: Annotated[str | None, typer.Option(help="A picture: .png or .svg")] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Change heads of a trained model, and measure the loss.

    Each head is silenced; heads are averaged, shuffled, shifted and re-weighted at test time. The table shows the
    change of the held-out loss, over texts and over the other seeds of the arm in the store.
    """
    from headtohead.display.attention import show_surgery
    from headtohead.interpret import attend as work

    work.check_out(out, ("png", "svg"))
    approve_for([run], trust, all_seeds=not alone)
    found: Any = with_bar(work.operate(run, on, items, alone, data), "changing heads")
    if as_json:
        print_json(found.to_json())
    else:
        show_surgery(found, console())
    save(out, lambda kind: work.draw_surgery(found, kind))
