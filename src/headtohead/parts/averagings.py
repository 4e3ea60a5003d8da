"""Averaged weights: which weights a run evaluates and keeps. Training continues with its own weights."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headtohead.spec import Part, knob


class Averager:
    """The averaged weights of one run. The hooks are neutral: nothing is averaged.

    Numbers in `param_groups` and everything in `state` are saved in checkpoints, as for an optimizer.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters)}]
        self.state: dict[nn.Parameter, dict[str, Any]] = {p: {} for p in parameters}

    def update(self, done: int) -> None:
        """Take in the weights after update number `done` (1, 2, …)."""

    def averaged(self) -> Mapping[nn.Parameter, Tensor]:
        """Return the averaged weights of the parameters that have some."""
        return {}


class Averaging(Part, family="averaging", of="train"):
    """Which weights are evaluated and kept."""

    averages: ClassVar[bool] = True

    @abc.abstractmethod
    def build(self, parameters: Sequence[nn.Parameter]) -> Averager:
        """Build the average of these parameters, before the first update."""


class NoAverage(Averaging):
    """The weights of the last update."""

    equation: ClassVar[str] = "w_t"
    reference: ClassVar[str] = "Robbins and Monro 1951, A Stochastic Approximation Method"
    averages: ClassVar[bool] = False

    def build(self, parameters: Sequence[nn.Parameter]) -> Averager:
        return Averager(())


class Ema(Averaging):
    """The exponential moving average of the weights after each update. The initial weights have no share in it."""

    equation: ClassVar[str] = "e_t = decay · e_{t−1} + (1 − decay) · w_t,  e_0 = 0;  the average is e_t / (1 − decay^t)"
    reference: ClassVar[str] = "Tarvainen and Valpola 2017, Mean Teachers; Kingma and Ba 2015 for the division"

    decay: float = knob(default=0.98, ge=0, lt=1, help="share of the old average; 1/(1 − decay) steps are averaged")

    def build(self, parameters: Sequence[nn.Parameter]) -> Averager:
        return _Moving(parameters, self.decay)


class _Moving(Averager):
    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        super().__init__(parameters)
        self.decay = decay
        self.param_groups[0]["steps"] = 0
        for p, state in self.state.items():
            state["sum"] = torch.zeros_like(p)

    @torch.no_grad()
    def update(self, done: int) -> None:
        sums = [state["sum"] for state in self.state.values()]
        torch._foreach_lerp_(sums, list(self.state), 1 - self.decay)  # one call for all parameters
        self.param_groups[0]["steps"] += 1

    def averaged(self) -> Mapping[nn.Parameter, Tensor]:
        steps = self.param_groups[0]["steps"]
        share = 1 - self.decay**steps  # of the weights after updates; the rest is the zero at the start
        return {p: state["sum"] / share for p, state in self.state.items()} if steps else {}


class MeanOfLast(Averaging):
    """The mean of the weights at the last few steps out of a regular grid."""

    equation: ClassVar[str] = "(w_s + w_{s−every} + … + w_{s−(count−1)·every}) / count,  s the last multiple of `every`"
    reference: ClassVar[str] = "Kaddour 2022, Stop Wasting My Time! Latest Weight Averaging"

    count: int = knob(default=5, ge=1, le=1000, help="number of weights in the mean; each is a copy in memory")
    every: int = knob(default=10, ge=1, help="steps from one of them to the next")

    def build(self, parameters: Sequence[nn.Parameter]) -> Averager:
        return _Last(parameters, self.count, self.every)


class _Last(Averager):
    def __init__(self, parameters: Sequence[nn.Parameter], count: int, every: int) -> None:
        super().__init__(parameters)
        self.count, self.every = count, every

    def update(self, done: int) -> None:
        if done % self.every == 0:
            for p, state in self.state.items():
                state["last"] = [*state.get("last", []), p.detach().clone()][-self.count :]

    def averaged(self) -> Mapping[nn.Parameter, Tensor]:
        return {p: torch.stack(state["last"]).mean(dim=0) for p, state in self.state.items() if "last" in state}
