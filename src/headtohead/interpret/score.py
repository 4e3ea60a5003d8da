"""Score a text token by token with a trained language model, or label it with a trained classifier."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from headtohead.data.batches import Encoded, sentences
from headtohead.data.samples import SAMPLES
from headtohead.errors import InputError
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.run.load import Trained
from headtohead.run.named import opened

AT_ONCE = 8192  # tokens of a long text in one batch


@dataclass(frozen=True)
class Score:
    """The loss of a language model on a text. The first token is given, not predicted."""

    loss: float  # nats per token
    perplexity: float
    bits_per_byte: float
    tokens: tuple[str, ...]
    losses: tuple[float | None, ...]  # of each token; None for the first
    unknown: int  # tokens that are not in the vocabulary

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@torch.inference_mode()
def score(run: Trained | str, text: str) -> Score:
    """Score a text. `run` is a loaded run, or the name of a run or checkpoint.

    A text longer than the block is read in windows that overlap by half a block. Each token is counted once.
    """
    trained = opened(run)
    model, vocabulary = trained.model, trained.vocabulary
    if trained.task != "lm" or not isinstance(model, LanguageModel):
        raise InputError(trained.instead)
    ids = vocabulary.encode([text])[0].astype(np.int64)
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens, and the first is not predicted: give a longer text")
    losses = [None, *_losses(model, ids)]
    counted = [x for x in losses if x is not None]
    loss = float(np.mean(counted))
    names, given = vocabulary.names(), len(vocabulary.decode(ids[:1]).encode())  # bytes of the first token
    return Score(
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        bits_per_byte=sum(counted) / max(1, len(text.encode()) - given) / math.log(2),
        tokens=tuple(names[i] for i in ids),
        losses=tuple(losses),
        unknown=int((ids == vocabulary.unknown).sum()),
    )


def _losses(model: LanguageModel, ids: np.ndarray) -> list[float]:
    """Return the loss of every token after the first. Whole windows are computed in batches."""
    block = model.spec.block
    stride = block - block // 2  # tokens that each further window adds
    starts = range(0, max(1, len(ids) - 1 - block // 2), stride)
    whole = [start for start in starts if start + block < len(ids)]
    rows = max(1, AT_ONCE // block)
    groups = [*(whole[n : n + rows] for n in range(0, len(whole), rows)), *([s] for s in starts[len(whole) :])]
    losses: list[float] = []
    for group in groups:
        windows = torch.from_numpy(np.stack([ids[start : start + block + 1] for start in group]))
        for start, row in zip(group, model.token_losses(windows[:, :-1], windows[:, 1:]).tolist(), strict=True):
            losses += row[len(losses) - start :]
    return losses


def score_samples(trained: Trained) -> dict[str, Score]:
    """Score every built-in sample text."""
    return {name: score(trained, text) for name, text in SAMPLES.items()}


@dataclass(frozen=True)
class Classified:
    """The label of a text and the probability of every class."""

    text: str
    label: str
    probabilities: dict[str, float]
    tokens: int
    cut: bool  # whether the text was longer than the block
    unknown: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@torch.inference_mode()
def classify(run: Trained | str, texts: list[str]) -> list[Classified]:
    """Label texts. `run` is a loaded run, or the name of a run or checkpoint. A text is cut at the block."""
    trained = opened(run)
    model, vocabulary, block = trained.model, trained.vocabulary, trained.spec.arm.model.block
    if not isinstance(model, Classifier):
        raise InputError(trained.instead)
    if not texts:
        raise InputError("there is no text to classify: give one, or lines on standard input")
    found = []
    for n, (text, ids) in enumerate(zip(texts, vocabulary.encode(texts), strict=True), 1):
        if not len(ids):
            raise InputError(f"text {n} of {len(texts)} has no token: give words, or leave it out")
        one = Encoded(ids, np.array([0, len(ids)]), np.zeros(1, np.int64))
        batch = sentences(one, np.array([0]), block)
        assert batch.keep is not None
        p = model(torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)).double().softmax(dim=1)[0].tolist()
        by_label = dict(zip(trained.labels, p, strict=True))
        label = max(by_label, key=lambda k: by_label[k])
        count, unknown = vocabulary.count(text), int((ids == vocabulary.unknown).sum())
        found.append(Classified(text, label, by_label, count, count > min(len(ids), block), unknown))
    return found
