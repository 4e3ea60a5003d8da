"""The question before code that came with a run is executed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headtohead.run.approval import Pending
    from headtohead.run.store import Record

COVERS = (
    "Code can do everything that you can: read and change your files, use the network. Approve it only if you have "
    "read it or trust its author. Approval covers this file as it is now; what it imports is not checked."
)


def approve_for(names: Iterable[str | None], trust: bool, all_seeds: bool = False) -> None:
    """Approve the code that these runs need: with --trust, or by asking once on a terminal. Otherwise loading refuses
    it. Checkpoints and unknown names are left to the command."""
    from headtohead.errors import InputError
    from headtohead.run import store
    from headtohead.run.studies import find_runs, other_seeds

    records: list[Record] = []
    for name in filter(None, names):
        try:
            found = find_runs(name, store.home())
        except InputError:
            continue
        records += found + (other_seeds(found[0], store.home()) if all_seeds and len(found) == 1 else [])
    approve_records(records, trust)


def approve_study(folder: Path, trust: bool) -> None:
    """The same for all runs of a study."""
    from headtohead.run import store
    from headtohead.run.approval import study_records

    approve_records(study_records(folder, store.home()), trust)


def approve_records(records: Sequence[Record], trust: bool) -> None:
    from headtohead.run.approval import approve, needed_by

    pending = needed_by(records)
    if pending and (trust or (can_ask() and confirmed(pending))):
        approve(pending)


def can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(pending: Sequence[Pending]) -> bool:
    """Show the code and ask once for all of it."""
    import typer

    show(pending)
    return typer.confirm(f"Approve {'this file' if len(pending) == 1 else 'these files'}?", err=True)


def show(pending: Sequence[Pending]) -> None:
    for one in pending:
        print("\n".join(one.lines()), file=sys.stderr)
    print(COVERS, file=sys.stderr)
