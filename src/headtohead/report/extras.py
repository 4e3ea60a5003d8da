"""What a report shows only where somebody has looked into the models: it is made above, where torch may be imported."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Audited:
    """What the auditor says of an arm's model."""

    arm: str
    summary: str  # 17 proved, 0 broken, 4 do not apply
    broken: tuple[tuple[str, str, str], ...] = ()  # claim, evidence, what it means for results


@dataclass(frozen=True)
class Picture:
    """An SVG of its own, with its description."""

    svg: bytes
    title: str
    says: str

    @property
    def source(self) -> str:
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode()}"


@dataclass(frozen=True)
class Evolved:
    """What the chosen heads of an arm do, at every step whose weights were kept."""

    arm: str
    number: int  # its place in the table
    steps: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]  # layer and head
    values: dict[str, np.ndarray]  # measure → (steps, seeds, heads)


@dataclass(frozen=True)
class Sample:
    arm: str
    seed: int
    prompt: str
    text: str


@dataclass(frozen=True)
class Extras:
    audits: tuple[Audited, ...] = ()
    text: str = ""  # that the maps are of
    maps: tuple[Picture, ...] = ()
    evolution: tuple[Evolved, ...] = ()
    samples: tuple[Sample, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)  # what is not there, and why
