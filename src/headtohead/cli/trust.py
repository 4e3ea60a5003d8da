"""h2h trust: approve code that came with runs."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headtohead.cli.approving import can_ask, confirmed, show
from headtohead.cli.entry import STORE, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import print_json
from headtohead.errors import InputError


@app.command(rich_help_panel=STORE)
def trust(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Python files, runs, arms or studies. With --remove also hashes.", show_default=False),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the code that you have approved.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take code off the list.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without a question.")] = False,
    as_json: AsJson = False,
) -> None:
    """Approve code that came with a run.

    Example: h2h trust latest

    Code that you run yourself is approved. Code that comes with a store of somebody else is not executed before you
    approve it. The list is yours: it is in no store. Exit 1 if code is left that is not approved.
    """
    from headtohead.run import approval

    if listed + remove + yes > 1:
        raise InputError("--list, --remove and --yes: give one of them")
    if listed:
        if names:
            raise InputError("--list shows everything that is approved: leave out the names")
        _list(as_json)
        return
    if not names:
        raise InputError("say what to approve: h2h trust RUN, h2h trust FILE.py, or h2h trust --list")
    if remove:
        gone = [entry for name in names for entry in approval.removed(name)]
        if as_json:
            print_json([_entry(entry) for entry in gone])
        else:
            print(
                "\n".join(f"removed {entry.name}, sha256 {entry.sha256}" for entry in gone) or "nothing was on the list"
            )
        return
    found = [one for name in names for one in approval.code_named(name)]
    pending = [one for one in found if not one.is_approved]
    if pending and not yes and can_ask():
        yes = confirmed(pending)
    elif pending and not as_json:
        show(pending)
    if yes:
        approval.approve(pending)
    left = [one for one in pending if not one.is_approved]
    if as_json:
        print_json([one.to_json() for one in found])
    elif not pending:
        print("nothing to approve: all code that is needed here is approved")
    elif not left:
        print("\n".join(f"approved {one.name}, sha256 {one.sha256}" for one in pending))
    if left:
        print("h2h: not approved; after reading the code, add --yes to approve it without a question", file=sys.stderr)
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from headtohead.errors import Unavailable
    from headtohead.spec import trust as known

    wrong = known.problem()
    if wrong:
        raise Unavailable(f"{wrong}; approve code again, and a new list is begun")
    entries = sorted(known.approvals().values(), key=lambda entry: entry.when)
    if as_json:
        print_json([_entry(entry) for entry in entries])
        return
    for entry in entries:
        about = f"{entry.sha256[:16]}  {entry.when[:10]}  {entry.bytes:>8,} bytes"
        print(f"{about}  {entry.name}  {entry.folder or ''}".rstrip())
    count = "1 file is" if len(entries) == 1 else f"{len(entries)} files are"
    print(f"{count} approved; the list is {known.place()}")


def _entry(entry: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(entry)
