"""What all pages share: the store, its index, who may do what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.errors import InputError
from headtohead.run import files
from headtohead.web.board import board_row
from headtohead.web.events import Watcher
from headtohead.web.index import Index, study_names
from headtohead.web.security import Access


class NotFound(InputError):  # noqa: N818
    """The store does not have what the address names."""


@dataclass
class Bench:
    home: Path
    access: Access
    allow_code: bool = False  # modules that are pasted into the page may be executed
    at_end: list[Callable[[], object]] = field(default_factory=list)  # called when the server ends
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
