"""A trained model on a text of the user's: its score token by token, or its label."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headtohead.data.batches import Encoded, sentences
from headtohead.data.tokenizers import UNKNOWN
from headtohead.errors import InputError
from headtohead.model import Classifier, LanguageModel
from headtohead.trained import Trained

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Score:
    """What a language model thinks of a text. The first token is given, not predicted."""

    loss: float  # nats a token
    perplexity: float
    bits_per_byte: float
    tokens: tuple[str, ...]
    losses: tuple[float | None, ...]  # of each token, none for the first
    unknown: int  # tokens the vocabulary does not know

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def show(self, console: Console) -> None:
        from rich.text import Text

        line = Text()
        for token, loss in zip(self.tokens, self.losses, strict=True):
            line.append(token.replace("\n", "⏎\n"), style="dim" if loss is None else _heat(loss))
            line.append("" if token.startswith(" ") or token.endswith("\n") else "·", style="dim")
        console.print(line)
        said = (
            f"loss {self.loss:.4f} nats a token, perplexity {self.perplexity:.2f}, {self.bits_per_byte:.3f} bits/byte"
        )
        console.print(f"{said}, {len(self.tokens)} tokens" + (f", {self.unknown} unknown" if self.unknown else ""))
        worst = sorted(
            ((loss, n) for n, loss in enumerate(self.losses) if loss is not None), key=lambda pair: -pair[0]
        )[:5]
        surprises = ", ".join(f"{self.tokens[n].strip() or repr(self.tokens[n])} {loss:.1f}" for loss, n in worst)
        console.print(f"most surprising, in nats: {surprises}", markup=False)


def _heat(loss: float) -> str:
    """Calm to hot; the number is in --json, the colour is only help for the eye."""
    return next(style for limit, style in HEAT if loss < limit)


HEAT = ((2.0, "green"), (4.0, "default"), (7.0, "yellow"), (math.inf, "bold red"))


@torch.inference_mode()
def score(trained: Trained, text: str) -> Score:
    """Past the block the window slides by half of it, and only tokens not yet counted are counted."""
    model, vocabulary = trained.model, trained.vocabulary
    if not isinstance(model, LanguageModel):
        raise InputError(f"run {trained.record.id} is a classifier: use h2h classify")
    ids = vocabulary.encode([text])[0].astype(np.int64)
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens, and the first is only given: give a longer text")
    block = trained.spec.arm.model.block
    losses: list[float | None] = [None]
    while len(losses) < len(ids):
        start = max(0, len(losses) - 1 - block // 2) if len(losses) > 1 else 0
        window = torch.from_numpy(ids[start : start + block + 1])[None]
        found = model.token_losses(window[:, :-1], window[:, 1:])[0].tolist()
        losses += found[len(losses) - 1 - start :]
    counted = [x for x in losses if x is not None]
    loss = float(np.mean(counted))
    names = vocabulary.names()
    return Score(
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        bits_per_byte=loss * len(ids) / max(1, len(text.encode())) / math.log(2),
        tokens=tuple(names[i] for i in ids),
        losses=tuple(losses),
        unknown=int((ids == UNKNOWN).sum()),
    )


@dataclass(frozen=True)
class Classified:
    text: str
    label: str
    probabilities: dict[str, float]
    tokens: int
    cut: bool  # whether the text was longer than the block
    unknown: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@torch.inference_mode()
def classify(trained: Trained, texts: list[str]) -> list[Classified]:
    """The label of each text and the probability of every class; a text longer than the block is cut."""
    model, vocabulary, block = trained.model, trained.vocabulary, trained.spec.arm.model.block
    if not isinstance(model, Classifier):
        raise InputError(f"run {trained.record.id} is a language model: use h2h score")
    if not texts:
        raise InputError("there is no text to classify: give one, or lines on standard input")
    found = []
    for text, ids in zip(texts, vocabulary.encode(texts), strict=True):
        if not len(ids):
            raise InputError("a text without a single token cannot be classified: give words")
        one = Encoded(ids, np.array([0, len(ids)]), np.zeros(1, np.int64))
        batch = sentences(one, np.array([0]), block)
        assert batch.keep is not None
        p = model(torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)).double().softmax(dim=1)[0].tolist()
        by_label = dict(zip(trained.labels, p, strict=True))
        label = max(by_label, key=lambda k: by_label[k])
        found.append(Classified(text, label, by_label, len(ids), len(ids) > block, int((ids == UNKNOWN).sum())))
    return found


def show(found: list[Classified], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("text", "label", *found[0].probabilities)
    for f in found:
        shown = f.text if len(f.text) < 60 else f.text[:57] + "…"
        table.add_row(Text(shown), f.label, *(f"{p:.1%}" for p in f.probabilities.values()))
    console.print(table)
    for f in found:
        if f.cut:
            console.print(f"cut to the model's block: '{f.text[:40]}…' has {f.tokens} tokens", markup=False)
