"""The two tasks, language modelling and classification: data, model, loss and evaluation of each."""

from __future__ import annotations

import abc
import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.data.batches import Batch, sentences, windows, windows_in
from headtohead.data.encoded import EncodedSentences, EncodedTexts, encode_sentences, encode_texts
from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError, Unavailable, nearest
from headtohead.model.ahead import attach
from headtohead.model.init import Seeded
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.parts.objectives import IGNORED
from headtohead.spec.streams import stream
from headtohead.training.arm import Arm
from headtohead.training.evaluate import Measured, evenly, labelled, running_text
from headtohead.training.predictions import LabelPredictions, TokenPredictions

UNKNOWN = 0.2  # share of unknown tokens above which a warning is due


class Task(abc.ABC):
    """An arm's task with its data encoded, ready for training."""

    goal: tuple[str, Literal["min", "max"]]  # the metric that ranks models, and whether smaller or larger is better

    data: EncodedTexts | EncodedSentences
    steps_per_epoch: int
    outcomes: int  # tokens or classes that a prediction chooses from
    lengths: np.ndarray | None = None  # tokens of each training text; none for running text, which is cut into windows
    teacher: nn.Module | None = None  # the model that the objective learns from, if it needs one

    def __init__(self, arm: Arm) -> None:
        arm.refuse_misfits()
        self.arm = arm

    @property
    def vocabulary(self) -> Vocabulary:
        return self.data.vocabulary

    @property
    def steps(self) -> int:
        train = self.arm.train
        return train.steps if train.steps is not None else (train.epochs or 1) * self.steps_per_epoch

    def build(self, seed: int) -> nn.Module:
        """Build the model as it is before the first step, with pretrained weights if the arm starts from them."""
        model = self.new_model(self.arm.start.weight_seed(seed))
        with Seeded(seed)("start"):
            self.arm.start.fill(model)
        return model

    @abc.abstractmethod
    def new_model(self, seed: int) -> nn.Module:
        """Build the model with random initial weights."""

    @abc.abstractmethod
    def batch(self, seed: int, step: int) -> Batch: ...

    def order(self, seed: int) -> int:
        """Return the seed of the batch order."""
        return stream(seed, "order again", self.arm.train.order) if self.arm.train.order else seed

    def losses(self, model: nn.Module, batch: Batch, device: str) -> Iterator[Tensor]:
        """Yield the batch's loss as terms that add up to it, one for each piece of `train.accumulate`."""
        if self.arm.train.accumulate == 1:
            yield self.loss(model, batch, device)
            return
        for piece in batch.split(self.arm.train.accumulate):
            yield self.loss(model, piece, device) * (self.counted(piece) / self.counted(batch))

    def counted(self, batch: Batch) -> int:
        """Return the number of targets that a batch's loss is the mean over."""
        return int((batch.targets != IGNORED).sum())

    @abc.abstractmethod
    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        """Return the loss of a batch, which training minimises."""

    @abc.abstractmethod
    def evaluate(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        """Measure the model on one set. The `last` evaluation of a run uses the whole set, earlier ones a sample;
        `train` is always a sample of the training data."""

    @abc.abstractmethod
    def evaluate_batch(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        """Compute what `evaluate` computes for one batch, without its bookkeeping; used to time an evaluation."""

    @abc.abstractmethod
    def sample(self, name: str, count: int) -> Batch:
        """Return up to `count` windows or texts of a held-out set, evenly spaced."""

    def held_out(self, name: str | None = None) -> str:
        """Return the name of the set to measure a trained model on: `name`, else validation, else the first set."""
        if name is not None and name not in self.data.held:
            raise InputError(f"there is no held-out set '{name}': {nearest(name, self.data.held)}")
        return name or ("validation" if "validation" in self.data.held else next(iter(self.data.held)))

    def spread(self, name: str, last: bool) -> int | None:
        """Return how many windows or texts of a set to measure; None means all."""
        spec = self.arm.evaluate
        return spec.train if name == "train" else None if last else spec.along

    def sets(self, tests: bool) -> list[str]:
        """Return the names of the sets to evaluate, with or without the test sets."""
        training = ["train"] if self.arm.evaluate.train else []
        return training + [name for name in self.data.held if tests or name not in self.data.tests]

    def facts(self) -> dict[str, Any]:
        """Describe the data as it was read: vocabulary size, labels, sizes of the sets."""
        return {"vocabulary": self.vocabulary.size, **self.data.facts(), "tests": list(self.data.tests)}

    def warnings(self) -> list[str]:
        """Return problems of data or model that make the results unreliable."""
        return [*self.model_warnings(), *self.data_warnings()]

    def model_warnings(self) -> list[str]:
        return []

    def data_warnings(self) -> list[str]:
        """Warnings that are the same for every model on this data."""
        overlaps = [
            f"{s.overlap.share:.1%} of the {name} set's {s.overlap.of} are in the training data too"
            for name, s in self.data.held.items()
            if s.overlap and s.overlap.share > 0.01
        ]
        return overlaps + [
            f"{s.unknown:.1%} of the {name} set's tokens are unknown: {self.arm.tokenizer.against_unknown}"
            for name, s in self.data.held.items()
            if s.unknown > UNKNOWN
        ]


class LanguageModelling(Task):
    goal = ("loss", "min")
    data: EncodedTexts

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self.data = encode_texts(arm.data, arm.tokenizer)
        self.windows = windows_in(self.data.train.tokens, arm.model.block)
        for name, held in self.data.held.items():
            windows_in(held.tokens, 1, f"the {name} text")
        self.steps_per_epoch = arm.train.sampling.steps_per_epoch(self.windows, arm.model.block, arm.train.batch)
        self.outcomes = self.vocabulary.size

    def new_model(self, seed: int) -> LanguageModel:
        objective = self.arm.train.objective
        model = LanguageModel(self.arm.model, self.vocabulary.size + objective.extra_tokens, seed)
        if objective.extra_heads:
            attach(model, self.arm.model, objective.extra_heads, seed)
        return model

    def batch(self, seed: int, step: int) -> Batch:
        starts = self.arm.train.sampling.starts(self.windows, self.arm.train.batch, self.order(seed), step)
        batch = windows(self.data.train.tokens, starts, self.arm.model.block)
        masks = stream(self.order(seed), "masks", step)
        return Batch(*self.arm.train.objective.prepare(batch.ids, batch.targets, self.vocabulary.size, masks))

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert isinstance(model, LanguageModel)
        assert self.teacher is None or isinstance(self.teacher, LanguageModel)
        ids, targets, counted = (_tensor(batch.ids, device), _tensor(batch.targets, device), _counted(batch, device))
        return self.arm.train.objective.loss(TokenPredictions.of(model, ids, targets, counted, self.teacher))

    def evaluate(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        assert isinstance(model, LanguageModel)
        mask = self.vocabulary.size if self.arm.train.objective.sees_both_sides else None
        text = self.data.train if name == "train" else self.data.held[name]
        spec, block = self.arm.evaluate, self.arm.model.block
        if name == "train":  # `stride` and `windows` limit held-out sets; the training sample covers the whole text
            spec = dataclasses.replace(spec, stride=None, windows=None)
        return running_text(model, text, spec, block, device, self.spread(name, last), mask)

    def evaluate_batch(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert isinstance(model, LanguageModel)
        counted = batch.targets != IGNORED
        losses = model.token_losses(_tensor(batch.ids, device), _tensor(np.where(counted, batch.targets, 0), device))
        return losses[_tensor(counted, device)]

    def sample(self, name: str, count: int) -> Batch:
        tokens, block = self.data.held[name].tokens, self.arm.model.block
        block = min(block, len(tokens) - 1)  # the text may be shorter than one window
        return windows(tokens, evenly(len(tokens) - block, count), block)

    def model_warnings(self) -> list[str]:
        model = self.arm.model
        causal = model.pattern.is_causal(model.block) and model.fusion.causal
        if causal or self.arm.train.objective.sees_both_sides:
            return []
        part = model.fusion if model.pattern.is_causal(model.block) else model.pattern
        return [f"{part} shows the model the tokens it is to predict: its losses mean nothing; run h2h audit"]


class Classification(Task):
    goal = ("accuracy", "max")
    data: EncodedSentences

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self.data = encode_sentences(arm.data, arm.tokenizer)
        self.steps_per_epoch = math.ceil(len(self.data.train.items) / arm.train.batch)
        self.outcomes = len(self.data.labels)
        self.lengths = self.data.train.items.lengths

    def new_model(self, seed: int) -> Classifier:
        model = Classifier(self.arm.model, self.vocabulary.size, len(self.data.labels), seed)
        model.trunk.packs = True
        return model

    def batch(self, seed: int, step: int) -> Batch:
        items, train = self.data.train.items, self.arm.train
        which = train.sampling.texts(len(items), train.batch, self.order(seed), step)
        return sentences(items, which, self.arm.model.block)

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert batch.keep is not None
        assert isinstance(model, Classifier)
        assert self.teacher is None or isinstance(self.teacher, Classifier)
        ids, keep, labels = (_tensor(x, device) for x in (batch.ids, batch.keep, batch.targets))
        return self.arm.train.objective.loss(LabelPredictions(model, ids, keep, labels, self.teacher))

    def evaluate(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        items = (self.data.train if name == "train" else self.data.held[name]).items
        spec, block, classes = self.arm.evaluate, self.arm.model.block, len(self.data.labels)
        return labelled(model, items, classes, spec, block, device, self.spread(name, last))

    def evaluate_batch(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert batch.keep is not None
        logits = model(_tensor(batch.ids, device), _tensor(batch.keep, device))
        return F.cross_entropy(logits, _tensor(batch.targets, device))

    def sample(self, name: str, count: int) -> Batch:
        items = self.data.held[name].items
        return sentences(items, evenly(len(items), count), self.arm.model.block)


def _tensor(array: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(array).to(device)


def _counted(batch: Batch, device: str) -> Tensor | None:
    """Which targets count; None: all of them."""
    counted = batch.targets != IGNORED
    return None if counted.all() else _tensor(counted, device)


def task_of(arm: Arm) -> Task:
    """Read and encode the arm's data, and return its task. Refuses a model that this machine cannot hold."""
    task = LanguageModelling(arm) if arm.task == "lm" else Classification(arm)
    needed = BYTES_PER_WEIGHT * arm.model.least_weights(task.vocabulary.size)
    if needed > memory():
        raise Unavailable(
            f"training needs at least {needed / 2**30:,.0f} GiB and this machine has {memory() / 2**30:,.0f}: "
            "make model.width, model.layers or the vocabulary smaller"
        )
    return task


BYTES_PER_WEIGHT = 12  # float32: the weight, its gradient, and one number of the optimizer


def memory() -> float:
    """Bytes of memory that this machine has; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf
