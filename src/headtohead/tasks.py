"""The two tasks: how data, model, loss and evaluation go together for each. `runs` drives them and knows neither."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import evaluate
from headtohead.arm import Arm
from headtohead.data.batches import Batch, sentence_steps, sentences, shuffled_sentences, windows, windows_in
from headtohead.data.encoded import EncodedSentences, EncodedTexts, encode_sentences, encode_texts
from headtohead.data.tokenizers import Tokenizer, Vocabulary
from headtohead.errors import InputError, nearest
from headtohead.evaluate import Measured
from headtohead.model import Classifier, LanguageModel, Seeded
from headtohead.streams import stream


class Work(abc.ABC):
    """A task on an arm's data, ready to be trained."""

    goal: tuple[str, Literal["min", "max"]]  # the figure that says how good a model is, and which way

    def __init__(self, arm: Arm) -> None:
        self.arm = arm

    data: EncodedTexts | EncodedSentences

    @property
    def vocabulary(self) -> Vocabulary:
        return self.data.vocabulary

    @property
    def steps(self) -> int:
        train = self.arm.train
        return train.steps if train.steps is not None else (train.epochs or 1) * self.steps_per_epoch

    @property
    @abc.abstractmethod
    def steps_per_epoch(self) -> int: ...

    def build(self, seed: int) -> nn.Module:
        """The model before the first step."""
        model = self.made(seed)
        with Seeded(seed)("start"):
            self.arm.start.fill(model)
        return model

    @abc.abstractmethod
    def made(self, seed: int) -> nn.Module:
        """With weights drawn anew."""

    @abc.abstractmethod
    def batch(self, seed: int, step: int) -> Batch: ...

    def order(self, seed: int) -> int:
        """The seed of the order of batches."""
        return stream(seed, "order again", self.arm.train.order) if self.arm.train.order else seed

    @abc.abstractmethod
    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor: ...

    @abc.abstractmethod
    def look(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        """Measure one set, at the end of a run as a whole; `train` is a part of the training data."""

    @abc.abstractmethod
    def glance(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        """What a look computes of a batch, which may be less than training does."""

    @abc.abstractmethod
    def some(self, name: str, count: int) -> Batch:
        """So many windows or texts of a held-out set, evenly spread."""

    def held_out(self, name: str | None = None) -> str:
        """The set to look at a trained model on: the one asked for, else validation, else the first there is."""
        if name is not None and name not in self.data.held:
            raise InputError(f"there is no held-out set '{name}': {nearest(name, self.data.held)}")
        return name or ("validation" if "validation" in self.data.held else next(iter(self.data.held)))

    def spread(self, name: str, last: bool) -> int | None:
        """How many windows or texts of a set to measure; none: all."""
        spec = self.arm.evaluate
        return spec.train if name == "train" else None if last else spec.along

    def sets(self, tests: bool) -> list[str]:
        """What to look at, with or without the test sets."""
        shown = ["train"] if self.arm.evaluate.train else []
        return shown + [name for name in self.data.held if tests or name not in self.data.tests]

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the data turned out to be."""

    @abc.abstractmethod
    def warnings(self) -> list[str]:
        """What a user should know before believing the figures."""


class LanguageModelling(Work):
    goal = ("loss", "min")
    data: EncodedTexts

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self.data = encode_texts(arm.data, arm.tokenizer)
        self.windows = windows_in(self.data.train.tokens, arm.model.block)
        for name, held in self.data.held.items():
            windows_in(held.tokens, 1, f"the {name} text")

    @property
    def steps_per_epoch(self) -> int:
        return self.arm.train.sampling.steps_per_epoch(self.windows, self.arm.model.block, self.arm.train.batch)

    def made(self, seed: int) -> LanguageModel:
        return LanguageModel(self.arm.model, self.vocabulary.size, seed)

    def batch(self, seed: int, step: int) -> Batch:
        starts = self.arm.train.sampling.starts(self.windows, self.arm.train.batch, self.order(seed), step)
        return windows(self.data.train.tokens, starts, self.arm.model.block)

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert isinstance(model, LanguageModel)
        return model.mean_loss(_tensor(batch.ids, device), _tensor(batch.targets, device))

    def look(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        assert isinstance(model, LanguageModel)
        text = self.data.train if name == "train" else self.data.held[name]
        spec, block = self.arm.evaluate, self.arm.model.block
        if name == "train":  # from all over it, whatever part of the other sets is asked for
            spec = dataclasses.replace(spec, stride=None, windows=None)
        return evaluate.running_text(model, text, spec, block, device, self.spread(name, last))

    def glance(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert isinstance(model, LanguageModel)
        return model.token_losses(_tensor(batch.ids, device), _tensor(batch.targets, device))

    def some(self, name: str, count: int) -> Batch:
        tokens, block = self.data.held[name].tokens, self.arm.model.block
        last = len(tokens) - block - 1
        if last < 0:  # shorter than a window: all of it
            return windows(tokens, np.array([0]), len(tokens) - 1)
        return windows(tokens, np.linspace(0, last, min(count, last + 1)).round().astype(np.int64), block)

    def facts(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.size, "sets": self.data.facts(), "tests": list(self.data.tests)}

    def warnings(self) -> list[str]:
        model = self.arm.model
        found = []
        if not model.pattern.is_causal(model.block) or not model.fusion.causal:
            part = model.fusion if model.pattern.is_causal(model.block) else model.pattern
            found.append(f"{part} shows the model the tokens it is to predict: its figures mean nothing; see h2h audit")
        return found + _overlaps(self.data.held) + _unknowns(self.data.held, self.arm.tokenizer)


class Classification(Work):
    goal = ("accuracy", "max")
    data: EncodedSentences

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self.data = encode_sentences(arm.data, arm.tokenizer)

    @property
    def steps_per_epoch(self) -> int:
        return sentence_steps(len(self.data.train.items), self.arm.train.batch)

    def made(self, seed: int) -> Classifier:
        model = Classifier(self.arm.model, self.vocabulary.size, len(self.data.labels), seed)
        model.trunk.packs = True
        return model

    def batch(self, seed: int, step: int) -> Batch:
        items, size = self.data.train.items, self.arm.train.batch
        return shuffled_sentences(items, self.arm.model.block, size, self.order(seed), step)

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        assert batch.keep is not None
        logits = model(_tensor(batch.ids, device), _tensor(batch.keep, device))
        return F.cross_entropy(logits, _tensor(batch.targets, device))

    def look(self, model: nn.Module, name: str, device: str, last: bool = True) -> Measured:
        items = (self.data.train if name == "train" else self.data.held[name]).items
        spec, block, classes = self.arm.evaluate, self.arm.model.block, len(self.data.labels)
        return evaluate.labelled(model, items, classes, spec, block, device, self.spread(name, last))

    def glance(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        return self.loss(model, batch, device)

    def some(self, name: str, count: int) -> Batch:
        items = self.data.held[name].items
        which = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(np.int64)
        return sentences(items, which, self.arm.model.block)

    def facts(self) -> dict[str, Any]:
        return {
            "vocabulary": self.vocabulary.size,
            "labels": list(self.data.labels),
            "says": list(self.data.says),
            "sets": self.data.facts(),
            "tests": list(self.data.tests),
        }

    def warnings(self) -> list[str]:
        return _overlaps(self.data.held) + _unknowns(self.data.held, self.arm.tokenizer)


def _overlaps(held: Any) -> list[str]:
    return [
        f"{s.overlap.share:.1%} of the {name} set's {s.overlap.of} are in the training data too"
        for name, s in held.items()
        if s.overlap and s.overlap.share > 0.01
    ]


def _unknowns(held: Any, tokenizer: Tokenizer) -> list[str]:
    return [
        f"{s.unknown:.1%} of the {name} set's tokens are unknown: {tokenizer.against_unknown}"
        for name, s in held.items()
        if s.unknown > 0.2
    ]


def _tensor(array: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(array).to(device)


TASKS: dict[str, type[Work]] = {"lm": LanguageModelling, "classifier": Classification}


def work_on(arm: Arm) -> Work:
    return TASKS[arm.task](arm)
