"""What a report shows of trained models: audits, attention maps, samples. models.py computes them with torch."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Audited:
    """The audit of an arm's model."""

    arm: str
    summary: str  # 17 proved, 0 broken, 4 do not apply
    broken: tuple[tuple[str, str, str], ...] = ()  # claim, evidence, what it means for results


@dataclass(frozen=True)
class Picture:
    """An SVG image with its description."""

    svg: bytes
    title: str
    says: str

    @property
    def source(self) -> str:
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode()}"


@dataclass(frozen=True)
class Evolved:
    """Measures of chosen heads of an arm at every step that has a snapshot."""

    arm: str
    number: int  # its place in the table
    steps: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]  # layer and head
    values: dict[str, np.ndarray]  # measure → (steps, seeds, heads)


@dataclass(frozen=True)
class Sample:
    """Text that an arm generates."""

    arm: str
    seed: int
    prompt: str
    text: str


@dataclass(frozen=True)
class Extras:
    """Everything found in the models of a study."""

    audits: tuple[Audited, ...] = ()
    text: str = ""  # the text of the maps
    maps: tuple[Picture, ...] = ()
    evolution: tuple[Evolved, ...] = ()
    samples: tuple[Sample, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)  # what is missing, and why
    failed: bool = False  # something failed that may work when tried again
