"""h2h verify: check runs, studies, searches, audits and caches for damage."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import STORE, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import print_json, with_bar


@app.command(rich_help_panel=STORE)
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, studies or arms: an id, its beginning, positions, positions/Rope. Default: all."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set damaged runs aside and train them again; delete damaged caches.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the files of the store and of the caches for damage.

    Example: h2h verify

    Exit code 1 means that something is damaged. Nothing of a store is deleted: what is damaged is renamed.
    """
    from headtohead.run.verify import Verified, verify_in_steps

    found = with_bar(verify_in_steps(names or (), repair=repair), "checking")
    assert isinstance(found, Verified)
    if as_json:
        print_json(found.to_json())
    else:
        for problem in found.problems:
            done = f"repaired: {problem.repaired}" if problem.repaired else problem.remedy
            print(f"{problem.kind} {problem.name}: {problem.problem}; {done}")
        plural = {"search": "searches", "study": "study files"}
        one = {"study": "study file"}
        checked = [
            f"{n:,} {one.get(kind, kind) if n == 1 else plural.get(kind, kind + 's')}"
            for kind, n in found.checked.items()
        ]
        print(f"checked {', '.join(checked) or 'nothing: the store is empty'}; damaged: {len(found.problems)}")
        if found.without_checksums:
            older = found.without_checksums
            are = "run of an older version has" if len(older) == 1 else "runs of an older version have"
            verb = "is" if len(older) == 1 else "are"
            print(f"{len(older)} {are} no checksums and {verb} not verifiable: {_few(older)}")
    raise typer.Exit(0 if found.is_sound else 1)


def _few(runs: list[str]) -> str:
    return ", ".join(run[:8] for run in runs[:5]) + (", …" if len(runs) > 5 else "")
