"""h2h audit, h2h doctor, h2h bench: is it what it says, is this machine fit, how fast is it?"""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.base import AsJson, app, console, plain, print_json


@app.command()
def audit(
    what: Annotated[
        str | None, typer.Argument(help="A part (Rope, 'Local(4)'), a recipe.py, file.py:Class, or a checkpoint.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every part, and many legal models made of them.")] = False,
    causal: Annotated[bool, typer.Option("--causal", help="It must not read later tokens.")] = False,
    relative: Annotated[bool, typer.Option("--relative", help="Positions must be relative.")] = False,
    window: Annotated[int | None, typer.Option(min=1, help="Attention must show exactly this many positions.")] = None,
    vocab: Annotated[int | None, typer.Option(min=3, help="Vocabulary of the module; seen from it by default.")] = None,
    block: Annotated[int | None, typer.Option(min=1, help="Longest text the module takes.")] = None,
    pad: Annotated[int, typer.Option(help="The id of padding.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Only this check, such as cache. Repeatable.")] = None,
    models: Annotated[int, typer.Option(min=1, help="With --all: how many models to draw.")] = 200,
    seed: Annotated[int, typer.Option(help="With --all: which models.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that a part, a recipe's models, or any torch module of yours is what it says. Exit 1 if it is not.

    A module of yours maps token ids (B, T) to logits (B, T, V) or (B, classes) and is built with no arguments, or with
    vocab and block. A mask argument named keep, mask or attention_mask is true at real tokens; one named
    key_padding_mask, padding_mask, pad_mask or src_key_padding_mask is true at padding.
    """
    import torch

    torch.set_num_threads(1)
    from headtohead.audit import Claims, audit_named

    if everything or what is None:
        if what is not None:
            raise typer.BadParameter("give a name or --all, not both")
        if only:
            raise typer.BadParameter("--only is for what is named: give a name, or leave it out")
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

    from headtohead.audit import sample

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


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What this machine has, and what to do about what it lacks."""
    from headtohead.doctor import examine

    findings = examine()
    if as_json:
        print_json([f._asdict() for f in findings])
        return
    from rich.table import Table

    table = Table("", "found", "what to do", title="This machine", title_justify="left")
    for f in findings:
        table.add_row(f.what, plain(f.found), plain(f.remedy))
    console().print(table)


@app.command()
def bench(
    task: Annotated[
        str, typer.Argument(help="decoder, classifier, generation, finetune, or the first three: all.")
    ] = "all",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 20,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each contender a round.")] = 10,
    only: Annotated[list[str] | None, typer.Option(help="Only these contenders. Repeatable.")] = None,
    folder: Annotated[str, typer.Option(help="Where the contenders are.")] = "benchmarks",
    out: Annotated[str | None, typer.Option(help="Write the figures there as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Training steps, generation and fine-tuning against peers, in turn, with the same sizes on the same machine."""
    from headtohead import commands

    results = commands.bench(task, folder, rounds, steps, only, out)
    if as_json:
        print_json([r.to_json() for r in results])
    else:
        for result in results:
            result.show(console())
