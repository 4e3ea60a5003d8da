"""Training: a loss, its parameters, a schedule. Knows no model and no data; `fit` is a generator that hands back
control after every step, so whoever drives it evaluates, saves, draws or stops when it likes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.optimizers import AdamW, Groups, Optimizer
from headtohead.parts.samplings import RandomWindows, Sampling
from headtohead.parts.schedules import Constant, Schedule
from headtohead.spec import Spec, knob
from headtohead.streams import stream


class TrainSpec(Spec):
    """How a model is trained."""

    steps: int | None = knob(default=500, ge=1, help="updates; none: as many as `epochs` take")
    epochs: int | None = knob(default=None, ge=1, help="passes over the training data, instead of steps")
    batch: int = knob(default=16, ge=1, help="texts or windows a step")
    optimizer: Optimizer = knob(default=AdamW(), help="how a gradient becomes an update")
    schedule: Schedule = knob(default=Constant(), help="how the learning rate moves")
    clip: float | None = knob(default=None, gt=0, help="the gradient's norm is cut to this; none: never")
    sampling: Sampling = knob(default=RandomWindows(), help="which windows a language model's batch holds")
    order: int = knob(default=0, ge=0, help="another number, another order of the batches: for an A/A control")

    def check(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise InputError("train.steps and train.epochs: set one of them, the other to none")

    def set(self, path: str, value: Any) -> TrainSpec:
        """Setting steps unsets epochs, and the other way round: one decides."""
        if path in ("steps", "epochs") and value not in (None, "none", "None"):
            other = "epochs" if path == "steps" else "steps"
            number = int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else value
            both: dict[str, Any] = {path: number, other: None}
            return dataclasses.replace(self, **both)
        return super().set(path, value)


@dataclass(frozen=True)
class Step:
    """What happened: `done` updates so far, the batch's loss before this one. A tensor: reading it may wait for it."""

    done: int
    loss: Tensor
    lr: float


def groups_of(model: nn.Module) -> Groups:
    """Parameters that learn, by what they are, each once. Embeddings and the layers named head are tables: they face
    words or classes, not features, and Muon leaves them to AdamW."""
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    linear -= {id(p) for name, m in model.named_children() if name == "head" for p in m.parameters() if p.ndim > 1}
    matrices, wide, plain = [], [], []
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.ndim < 2:
            plain.append(p)
        elif id(p) not in linear:
            wide.append(p)
        else:
            matrices.append(p)
    return Groups(tuple(matrices), tuple(wide), tuple(plain))


class Trainer:
    """The optimizers of one run and how far it has come; what it needs to go on is `state`."""

    def __init__(self, model: nn.Module, spec: TrainSpec, steps: int, seed: int) -> None:
        self.model, self.spec, self.steps, self.seed = model, spec, steps, seed
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = spec.optimizer.build(groups_of(model))
        self.peaks = [[g["lr"] for g in o.param_groups] for o in self.optimizers]
        self.done = 0

    def fit(self, loss_of: Callable[[int], Tensor]) -> Iterator[Step]:
        """One update a turn until all steps are done. `loss_of(step)` gives the loss of that step's batch."""
        self.model.train()
        while self.done < self.steps:
            share = self.spec.schedule.share(self.done, self.steps)
            for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
                for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                    group["lr"] = peak * share
            reseed(self.seed, "dropout", self.done)
            loss = loss_of(self.done)
            loss.backward()
            if self.spec.clip is not None:
                nn.utils.clip_grad_norm_(self.parameters, self.spec.clip)
            for optimizer in self.optimizers:
                optimizer.step()
            for p in self.parameters:
                p.grad = None
            self.done += 1
            yield Step(self.done, loss.detach(), self.peaks[0][0] * share)
            self.model.train()

    @property
    def learning_bytes(self) -> int:
        """What learning takes beside the weights: a gradient for each that learns, and what the optimizer remembers."""
        states = [v for o in self.optimizers for s in o.state.values() for v in s.values() if isinstance(v, Tensor)]
        return sum(t.numel() * t.element_size() for t in (*self.parameters, *states))

    # -- to go on later, bit for bit -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Optimizer tensors by name. Random streams are keyed by step and schedules are functions of it, so there is
        nothing else to remember."""
        names = {id(p): name for name, p in self.model.named_parameters()}
        found = {}
        for optimizer in self.optimizers:
            for p, values in optimizer.state.items():
                for key, value in values.items():
                    if value is not None:
                        found[f"{names[id(p)]}/{key}"] = torch.as_tensor(value)
        return found

    def restore(self, state: dict[str, Tensor], done: int) -> None:
        by_name = dict(self.model.named_parameters())
        owner = {id(p): o for o in self.optimizers for g in o.param_groups for p in g["params"]}
        for name, value in state.items():
            parameter, _, key = name.rpartition("/")
            p = by_name[parameter]
            owner[id(p)].state[p][key] = value.clone()
        self.done = done


def reseed(seed: int, *names: object) -> None:
    """Start the stream that dropout draws from: a function of (seed, step), whatever was drawn before."""
    number = stream(seed, *names)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(number)
