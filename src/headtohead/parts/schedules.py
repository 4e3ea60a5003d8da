"""Schedules: the learning rate at each step, as a share of the optimizer's peak rate.

A schedule is a pure function of (step, steps), so a resumed run has no schedule state to restore. Imports no torch.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar, Literal

from headtohead.errors import InputError
from headtohead.spec import Part, knob


class Schedule(Part, family="schedule", of="train"):
    """How the learning rate changes during a run.

    Examples:
        >>> schedule = h2h.WarmupCosine(warmup=0.1)
        >>> [round(schedule.share(step, 100), 2) for step in (0, 9, 99)]
        [0.1, 1.0, 0.1]
    """

    @abc.abstractmethod
    def share(self, step: int, steps: int) -> float:
        """Return the share of the peak rate for update number `step` (0, 1, … steps − 1)."""


class Constant(Schedule):
    """The same rate at every step."""

    equation: ClassVar[str] = "1"
    reference: ClassVar[str] = "Robbins and Monro 1951, A Stochastic Approximation Method"

    def share(self, step: int, steps: int) -> float:
        return 1.0


class WarmupCosine(Schedule):
    """A linear warm-up, then half a cosine down."""

    equation: ClassVar[str] = "(t+1)/w up to step w = warmup · T, then end + (1−end) · (1 + cos(π (t−w)/(T−w))) / 2"
    reference: ClassVar[str] = "Loshchilov and Hutter 2017, SGDR"

    warmup: float = knob(default=0.3, ge=0, le=1, help="share of the steps that the rate rises")
    end: float = knob(default=0.1, ge=0, le=1, help="share of the peak rate at the end")

    def share(self, step: int, steps: int) -> float:
        warmup = round(self.warmup * steps)
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, steps - warmup)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * progress)) / 2


class WarmupStableDecay(Schedule):
    """A linear warm-up, the peak rate, then a decay over the last steps. With decay=0 the rate stays at its peak."""

    equation: ClassVar[str] = (
        "(t+1)/w up to step w = warmup · T, then 1, then end + (1−end) · f(p) over the last decay · T steps, "
        "p from 0 to 1;  f = 1 − sqrt(p), 1 − p or (1 + cos(π·p))/2"
    )
    reference: ClassVar[str] = "Hu et al. 2024, MiniCPM; Hägele et al. 2024 for 1 − sqrt(p)"

    warmup: float = knob(default=0.1, ge=0, le=1, help="share of the steps that the rate rises")
    decay: float = knob(default=0.2, ge=0, le=1, help="share of the steps that the rate falls, at the end")
    shape: Literal["1-sqrt", "linear", "cosine"] = knob(default="1-sqrt", help="how the rate falls")
    end: float = knob(default=0.0, ge=0, le=1, help="share of the peak rate that the decay leads to")

    def check(self) -> None:
        if self.warmup + self.decay > 1:
            raise InputError(
                f"WarmupStableDecay: warmup={self.warmup:g} and decay={self.decay:g} are shares of the steps: "
                "their sum must be at most 1"
            )

    def share(self, step: int, steps: int) -> float:
        warmup, decay = round(self.warmup * steps), round(self.decay * steps)
        if step < warmup:
            return (step + 1) / warmup
        progress = max(0, step - (steps - decay)) / max(1, decay)
        left = {"1-sqrt": 1 - math.sqrt(progress), "linear": 1 - progress, "cosine": _between(1, 0, progress)}
        return self.end + (1 - self.end) * left[self.shape]


class OneCycle(Schedule):
    """Half a cosine up from a fraction of the peak rate, then half a cosine down to nearly zero."""

    equation: ClassVar[str] = "start → 1 over the first `warmup` of the steps, 1 → end over the rest, both by cosine"
    reference: ClassVar[str] = "Smith and Topin 2018, Super-Convergence"

    warmup: float = knob(default=0.3, gt=0, lt=1, help="share of the steps that the rate rises")
    start: float = knob(default=0.04, gt=0, le=1, help="share of the peak rate at the first step")
    end: float = knob(default=4e-6, ge=0, le=1, help="share of the peak rate at the last step")

    def share(self, step: int, steps: int) -> float:
        # the peak is at step warmup · steps − 1, as in torch's OneCycleLR
        top, last = self.warmup * steps - 1, steps - 1
        if step <= top:
            return _between(self.start, 1.0, step / top if top > 0 else 1.0)
        return _between(1.0, self.end, (step - top) / (last - top) if last > top else 1.0)


def _between(a: float, b: float, progress: float) -> float:
    """The value between a and b, along half a cosine; progress 0 gives a, 1 gives b."""
    return b + (a - b) * (1 + math.cos(math.pi * progress)) / 2
