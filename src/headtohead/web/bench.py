"""What all pages share: the store, its index, who may do what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.errors import InputError
from headtohead.run import files
from headtohead.run.approval import needed_by
from headtohead.run.store import Record
from headtohead.spec.stored_code import foreign
from headtohead.web.background import Worker
from headtohead.web.board import board_row
from headtohead.web.events import Watcher
from headtohead.web.index import Index, study_names
from headtohead.web.security import Access

ALLOW = "h2h serve --allow-code"


class NotFound(InputError):  # noqa: N818
    """The store does not have what the address names."""


@dataclass
class Bench:
    home: Path
    access: Access
    allow_code: bool = False  # code that is not part of the package may be executed: pasted, or stored with a run
    at_end: list[Callable[[], object]] = field(default_factory=list)  # called when the server ends
    worker: Worker = field(default_factory=Worker)  # a process for work with torch that takes seconds
    index: Index = field(init=False)
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.index = Index(self.home, board_row)
        self.watcher = Watcher(self.index)

    def study_folder(self, name: str) -> Path:
        """The folder of a study by its name. Only names that the store has are taken, so no name is used as a path."""
        if name not in study_names(self.home):
            raise NotFound(f"there is no study '{name[:80]}' in {self.home}: it may have been renamed or deleted")
        return self.home / files.STUDIES / name

    def check_code(self, record: Record) -> None:
        """Refuse a run whose model needs code that is not part of the package, unless the server was started with
        --allow-code and the user has approved that code."""
        others = foreign(record.spec, record.code)
        if not others:
            return
        pending = needed_by([record])
        approve = f"read it and approve it with h2h trust {record.id}" if pending else ""
        start = "" if self.allow_code else f"start the server with {ALLOW}"
        if approve or start:
            name, file = others[0]
            raise InputError(
                f"run {record.id} needs {name} of {file}, code that is not part of headtohead"
                f"{' and that you have not approved' if pending else ''}: "
                + ", and ".join(filter(None, (approve, start)))
            )
