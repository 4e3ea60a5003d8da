"""What happens while runs are trained. Executors yield these events; screens, workflows and the web page read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from headtohead.run.store import Record


@dataclass(frozen=True)
class Started:
    """Before the first step of this call."""

    id: str
    steps: int
    done: int  # steps of an earlier call
    parameters: int
    facts: dict[str, Any]
    warnings: list[str]  # about the arm, the same for every seed except for figures; then about files of this run
    damaged: list[str] = field(default_factory=list)  # only those about files

    @property
    def arm_warnings(self) -> list[str]:
        return [warning for warning in self.warnings if warning not in self.damaged]


@dataclass(frozen=True)
class Progress:
    """After a step; `loss` is the mean over the batches since the last recorded one."""

    id: str
    done: int
    steps: int
    loss: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Evaluated:
    """After an evaluation."""

    id: str
    done: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Stopped:
    """The user stopped the run; everything is saved."""

    id: str
    done: int
    steps: int


@dataclass(frozen=True)
class Finished:
    id: str
    folder: str
    already: bool = False  # the store had it

    @property
    def record(self) -> Record:
        return Record(Path(self.folder))


@dataclass(frozen=True)
class NotBegun:
    """The number of runs that were not started when the user stopped; 0 if that was while the last one ended."""

    runs: int
    id: str = ""


@dataclass(frozen=True)
class Failed:
    """The run could not be trained; the others continue."""

    id: str
    reason: str


@dataclass(frozen=True)
class Waiting:
    """Another process is training the run."""

    id: str


@dataclass(frozen=True)
class Cell:
    """One run in a table of arms and seeds."""

    arm: str
    seed: int
    id: str
    variant: str = ""  # the arm's name without its point of a grid or its table


@dataclass(frozen=True)
class Stage:
    """The runs of a study that are trained next; some may be in the store already."""

    title: str  # tuning or runs
    cells: list[Cell]
    id: str = ""
    warnings: list[str] = field(default_factory=list)  # about the data, not about one arm


@dataclass(frozen=True)
class AuditProgress:
    """Models are audited before they are trained."""

    share: float  # of the models
    id: str = ""


@dataclass(frozen=True)
class Analysed:
    """One analysis of a study."""

    number: int  # of the planned analyses; 0: none of them
    of: int
    pairs: int
    spent: float  # error that the analyses so far may have spent
    decided: dict[str, str]  # verdict by arm
    open: tuple[str, ...]  # arms that are trained further
    stopped: dict[str, str]  # arms that are not decided and not trained further, and why
    next_pairs: int | None  # of the next analysis; None: this is the last
    seconds_left: float | None  # at most, until the last analysis
    folder: str  # of the study
    seeds: tuple[int, ...] = ()  # of the pairs that were analysed
    id: str = ""


@dataclass(frozen=True)
class Note:
    """One line that the user should see: a warning, or how a plan compares with what happened."""

    line: str
    id: str = ""


Event: TypeAlias = Started | Progress | Evaluated | Stopped | Finished | NotBegun | Failed | Waiting


@dataclass
class ShownWarnings:
    """The warnings that were shown. The seeds of an arm repeat them with slightly different figures."""

    seen: set[tuple[str, str]] = field(default_factory=set)

    def new(self, warnings: Iterable[str], arm: str = "") -> list[str]:
        """The warnings that were not shown for this arm yet."""
        found = []
        for warning in warnings:
            key = arm, re.sub(r"\d[\d.,]*", "", warning)
            if key not in self.seen:
                self.seen.add(key)
                found.append(warning)
        return found
