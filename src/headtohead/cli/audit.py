"""h2h audit: is a module what it says?"""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import INSIDE, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import console, print_json


@app.command(rich_help_panel=INSIDE)
def audit(
    what: Annotated[
        str | None, typer.Argument(help="A part (Rope, 'Local(4)'), a recipe.py, file.py:Class, or a checkpoint.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Check every part, and many random models made of them.")
    ] = False,
    causal: Annotated[bool, typer.Option("--causal", help="It must not read later tokens.")] = False,
    relative: Annotated[bool, typer.Option("--relative", help="Positions must be relative.")] = False,
    window: Annotated[int | None, typer.Option(min=1, help="Attention must show exactly this many positions.")] = None,
    vocab: Annotated[
        int | None, typer.Option(min=3, help="Size of the vocabulary; by default read from the module.")
    ] = None,
    block: Annotated[int | None, typer.Option(min=1, help="Longest input of the module, in tokens.")] = None,
    pad: Annotated[int, typer.Option(help="The id of padding.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Only this check, such as cache. Repeatable.")] = None,
    models: Annotated[int, typer.Option(min=1, help="With --all: number of random models.")] = 200,
    seed: Annotated[int, typer.Option(help="With --all: seed of the random models.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a part, recipe or torch module is what it says.

    Exit 1 if it is not. Your module maps token ids (B, T) to logits (B, T, V) or (B, classes). It is built without
    arguments, or with vocab and block. A mask argument named keep, mask or attention_mask is true at real tokens; one
    named key_padding_mask, padding_mask, pad_mask or src_key_padding_mask is true at padding.
    """
    import torch

    torch.set_num_threads(1)
    from headtohead.auditor import Claims, audit_named

    if everything or what is None:
        if what is not None:
            raise typer.BadParameter("give a name or --all, not both")
        if only:
            raise typer.BadParameter("--only needs a name: give one, or leave --only out")
        _audit_all(models, seed, jobs, as_json)
        return
    reports = audit_named(what, Claims(causal, relative, window, vocab, block, pad, tuple(only or ())))
    if as_json:
        print_json([r.to_json() for r in reports])
    else:
        for report in reports:
            report.show(console())
    raise typer.Exit(0 if all(r.ok for r in reports) else 1)


def _audit_all(models: int, seed: int, workers: int | None, as_json: bool) -> None:
    import os

    from rich.progress import track

    from headtohead.auditor import sample

    todo = sample.jobs(models, seed)
    found = sample.audit_many(todo, workers or os.cpu_count() or 1)
    errors = console(stderr=True)
    reports = list(
        track(found, total=len(todo), description="auditing", console=errors, disable=not errors.is_terminal)
    )
    reports.sort(key=lambda r: (r.ok, r.subject))
    bad = [r for r in reports if not r.ok]
    if as_json:
        print_json({"ok": not bad, "audited": len(reports), "seed": seed, "reports": [r.to_json() for r in reports]})
    else:
        for report in bad:
            report.show(console())
        total = sum(r.count("proved") for r in reports)
        what = f"{len(todo) - models} parts and {models} models (seed {seed})"
        print(f"{what}: {total} properties proved, {len(bad)} subjects broken")
    raise typer.Exit(1 if bad else 0)
