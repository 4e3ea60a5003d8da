"""h2h audit: is a module what it says?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtohead.cli.entry import INSIDE, app
from headtohead.cli.options import AsJson
from headtohead.cli.output import prints_to_stderr
from headtohead.cli.printing import console, print_json

if TYPE_CHECKING:
    from headtohead.auditor import Claims
    from headtohead.sandbox import Limits


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
    skip: Annotated[list[str] | None, typer.Option(help="Leave this check out. Repeatable.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="file.py:Class of a module that it must equal with the same weights.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=1, help="Seconds; the module then runs in a process with limits.")
    ] = None,
    memory: Annotated[float, typer.Option(min=0.25, help="With --timeout or --each: gigabytes.")] = 2.0,
    each: Annotated[
        str | None, typer.Option(help="WHAT is a folder of submissions: audit this of each, as model.py:GPT.")
    ] = None,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="With --each: write a table to this file.")] = None,
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
    from headtohead.auditor.limited import audit_limited
    from headtohead.sandbox import Limits

    if everything or what is None:
        if what is not None:
            raise typer.BadParameter("give a name or --all, not both")
        given = {"--only": only, "--skip": skip, "--reference": reference, "--each": each, "--timeout": timeout}
        for option, value in given.items():
            if value:
                raise typer.BadParameter(f"{option} needs a name: give one, or leave {option} out")
        _audit_all(models, seed, jobs, as_json)
        return
    claims = Claims(causal, relative, window, vocab, block, pad, tuple(only or ()), tuple(skip or ()), reference)
    limits = Limits(seconds=timeout or 120.0, memory=int(memory * 2**30))
    if each is not None:
        _audit_each(Path(what), each, claims, limits, jobs, to_csv, as_json)
        return
    if to_csv is not None:
        raise typer.BadParameter("--csv needs --each, which says what to audit of each submission")
    with prints_to_stderr():
        reports = audit_named(what, claims) if timeout is None else audit_limited(what, claims, limits)
    if as_json:
        print_json([r.to_json() for r in reports])
    else:
        for report in reports:
            report.show(console())
    raise typer.Exit(0 if all(r.ok for r in reports) else 1)


def _audit_each(
    folder: Path, each: str, claims: Claims, limits: Limits, jobs: int | None, to_csv: Path | None, as_json: bool
) -> None:
    import os

    from rich.progress import track

    from headtohead.auditor.limited import as_csv, audit_folder, submissions
    from headtohead.cli.printing import in_columns
    from headtohead.disk.writing import write_whole
    from headtohead.display.visible import visible
    from headtohead.errors import InputError

    if not folder.is_dir():
        raise InputError(f"--each needs a folder of submissions, and {folder} is none")
    todo = submissions(folder, each)
    if not todo:
        raise InputError(f"{folder} has no submission: with --each {each} one is a folder or a .py file in it")
    errors = console(stderr=True)
    found = audit_folder(todo, claims, limits, jobs or os.cpu_count() or 1)
    bar = track(found, total=len(todo), description="auditing", console=errors, disable=not errors.is_terminal)
    entries = list(bar)
    if to_csv is not None:
        write_whole(to_csv, visible(as_csv(entries)))
        print(f"wrote {to_csv}", file=sys.stderr)
    if as_json:
        print_json([entry.to_json() for entry in entries])
    else:
        rows = []
        for entry in entries:
            counts = [str(entry.report.count(s)) if entry.report else "–" for s in ("proved", "broken", "advice")]
            broken = entry.report.broken if entry.report else ()
            says = entry.error or ", ".join(f.check for f in broken) or "nothing is broken"
            rows.append([entry.name, *counts, says])
        in_columns(("submission", "proved", "broken", "advice", "what is broken"), rows, (("what is broken", 20),))
    raise typer.Exit(0 if all(entry.ok for entry in entries) else 1)


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
