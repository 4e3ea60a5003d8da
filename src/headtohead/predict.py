"""A trained model on a text of the user's: its score token by token, or its label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headtohead.data.batches import Encoded, sentences
from headtohead.errors import InputError
from headtohead.imported import opened
from headtohead.model import Classifier, LanguageModel
from headtohead.samples import SAMPLES
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

        for line in in_lines(heat_words(self.tokens[:SHOWN], self.losses), console.width):
            console.print(Text.assemble(*line), soft_wrap=True)
        if len(self.tokens) > SHOWN:
            left = len(self.tokens) - SHOWN
            console.print(f"… and {left:,} tokens more; --json has them all", soft_wrap=True)
        said = (
            f"loss {self.loss:.4f} nats a token, perplexity {self.perplexity:.2f}, {self.bits_per_byte:.3f} bits/byte"
        )
        console.print(f"{said}, {len(self.tokens)} tokens" + (f", {self.unknown} unknown" if self.unknown else ""))
        worst = sorted(
            ((loss, n) for n, loss in enumerate(self.losses) if loss is not None), key=lambda pair: -pair[0]
        )[:5]
        names = ((_short(self.tokens[n].strip() or repr(self.tokens[n]), 30), loss) for loss, n in worst)
        surprises = ", ".join(f"{name} {loss:.1f}" for name, loss in names)
        console.print(f"most surprising, in nats: {surprises}", markup=False)


SHOWN = 400  # tokens of a text on the screen
AT_ONCE = 8192  # tokens of a long text read at once
Styled = list[tuple[str, str]]  # texts, each with its style


def heat_words(tokens: Sequence[str], losses: Sequence[float | None]) -> list[Styled]:
    """Tokens, those of a word together, a dot between two that no white space parts; a line end stands last in its
    word. Where no token has white space it was lost, and each is a word."""
    spaced = any(c.isspace() for token in tokens for c in token)
    words: list[Styled] = []
    for n, token in enumerate(tokens):
        apart = n == 0 or token[:1].isspace() or tokens[n - 1][-1:].isspace()
        if not apart:
            words[-1].append(("·", "dim"))
        if apart or not spaced:
            words.append([])
        loss = losses[n]
        words[-1].append((token.replace("\n", "⏎"), "dim" if loss is None else _heat(loss)))
        if token.endswith("\n"):
            words[-1].append(("\n", ""))
    return words


def in_lines(words: Iterable[Styled], width: int) -> Iterator[Styled]:
    """Words in lines of the screen; a word is broken only where it alone is too long."""
    from rich.cells import cell_len

    line: Styled = []
    used = 0
    for word in words:
        size = sum(cell_len(text) for text, _ in word)
        if line and used + size > width:
            yield line
            line, used = [], 0
        ends = word[-1][0] == "\n"
        line, used = [*line, *(word[:-1] if ends else word)], used + size
        if ends:
            yield line
            line, used = [], 0
    if line:
        yield line


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _heat(loss: float) -> str:
    """Calm to hot; the number is in --json, the colour is only help for the eye."""
    return next(style for limit, style in HEAT if loss < limit)


HEAT = ((2.0, "green"), (4.0, "default"), (7.0, "yellow"), (math.inf, "bold red"))


@torch.inference_mode()
def score(run: Trained | str, text: str) -> Score:
    """Past the block the window slides by half of it, and only tokens not yet counted are counted. A run is a loaded
    one, or the name of one or of a checkpoint."""
    trained = opened(run)
    model, vocabulary = trained.model, trained.vocabulary
    if not isinstance(model, LanguageModel):
        raise InputError(trained.instead)
    ids = vocabulary.encode([text])[0].astype(np.int64)
    if len(ids) < 2:
        raise InputError("the text has fewer than two tokens, and the first is only given: give a longer text")
    losses = [None, *_losses(model, ids)]
    counted = [x for x in losses if x is not None]
    loss = float(np.mean(counted))
    names, given = vocabulary.names(), len(vocabulary.decode(ids[:1]).encode())  # the first token costs nothing
    return Score(
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        bits_per_byte=sum(counted) / max(1, len(text.encode()) - given) / math.log(2),
        tokens=tuple(names[i] for i in ids),
        losses=tuple(losses),
        unknown=int((ids == vocabulary.unknown).sum()),
    )


def _losses(model: LanguageModel, ids: np.ndarray) -> list[float]:
    """Of every token but the first, by windows one behind the other, many at once."""
    block = model.spec.block
    more = block - block // 2  # tokens a window adds, after the first
    starts = range(0, max(1, len(ids) - 1 - block // 2), more)
    whole = [start for start in starts if start + block < len(ids)]
    at_once = max(1, AT_ONCE // block)
    groups = [*(whole[n : n + at_once] for n in range(0, len(whole), at_once)), *([s] for s in starts[len(whole) :])]
    found: list[float] = []
    for group in groups:
        windows = torch.from_numpy(np.stack([ids[start : start + block + 1] for start in group]))
        for start, row in zip(group, model.token_losses(windows[:, :-1], windows[:, 1:]).tolist(), strict=True):
            found += row[len(found) - start :]
    return found


def score_samples(trained: Trained) -> dict[str, Score]:
    """Every sample of `samples`."""
    return {name: score(trained, text) for name, text in SAMPLES.items()}


def show_samples(scores: dict[str, Score], console: Console) -> None:
    from rich.table import Table

    table = Table("sample", "loss, nats", "perplexity", "bits/byte", "tokens", "unknown")
    for name, s in scores.items():
        figures = f"{s.loss:.4f}", f"{s.perplexity:.2f}", f"{s.bits_per_byte:.3f}", f"{len(s.tokens)}", f"{s.unknown}"
        table.add_row(name, *figures)
    console.print(table)


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
def classify(run: Trained | str, texts: list[str]) -> list[Classified]:
    """The label of each text and the probability of every class; a text longer than the block is cut. A run is a loaded
    one, or the name of one or of a checkpoint."""
    trained = opened(run)
    model, vocabulary, block = trained.model, trained.vocabulary, trained.spec.arm.model.block
    if not isinstance(model, Classifier):
        raise InputError(trained.instead)
    if not texts:
        raise InputError("there is no text to classify: give one, or lines on standard input")
    found = []
    for n, (text, ids) in enumerate(zip(texts, vocabulary.encode(texts), strict=True), 1):
        if not len(ids):
            raise InputError(f"text {n} of {len(texts)} is one without a single token: give words, or leave it out")
        one = Encoded(ids, np.array([0, len(ids)]), np.zeros(1, np.int64))
        batch = sentences(one, np.array([0]), block)
        assert batch.keep is not None
        p = model(torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)).double().softmax(dim=1)[0].tolist()
        by_label = dict(zip(trained.labels, p, strict=True))
        label = max(by_label, key=lambda k: by_label[k])
        count, unknown = vocabulary.count(text), int((ids == vocabulary.unknown).sum())
        found.append(Classified(text, label, by_label, count, count > min(len(ids), block), unknown))
    return found


def show(found: list[Classified], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    unknown = any(f.unknown for f in found)
    table = Table("text", "label")
    for label in found[0].probabilities:
        table.add_column(Text(label))
    if unknown:
        table.add_column("unknown")
    for f in found:
        cells = [f"{p:.1%}" for p in f.probabilities.values()]
        cells += [f"{f.unknown / f.tokens:.0%}"] if unknown else []
        table.add_row(Text(_short(f.text, 58)), Text(f.label), *cells)
    console.print(table)
    for f in found:
        if f.unknown == f.tokens:
            console.print(
                f"no word of '{_short(f.text, 40)}' was seen in training: its label is a guess",
                markup=False,
                soft_wrap=True,
            )
        if f.cut:
            console.print(f"cut to the model's block: '{f.text[:40]}…' has {f.tokens} tokens", markup=False)
