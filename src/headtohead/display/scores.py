"""Scores and labels of texts on a terminal. Colours show how surprising each token is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from headtohead.interpret.score import Classified, Score

if TYPE_CHECKING:
    from rich.console import Console

Styled = list[tuple[str, str]]  # texts, each with its style
SHOWN = 400  # tokens of a text
HEAT = ((2.0, "green"), (4.0, "default"), (7.0, "yellow"), (math.inf, "bold red"))  # loss below, colour


def show_score(score: Score, console: Console) -> None:
    """Print a text in the colours of its losses, its loss, and its most surprising tokens."""
    for line in in_lines(heat_words(score.tokens[:SHOWN], score.losses), console.width):
        console.print(Text.assemble(*line), soft_wrap=True)
    if len(score.tokens) > SHOWN:
        console.print(f"… and {len(score.tokens) - SHOWN:,} tokens more; --json has them all", soft_wrap=True)
    loss = f"loss {score.loss:.4f} nats a token, perplexity {score.perplexity:.2f}, {score.bits_per_byte:.3f} bits/byte"
    console.print(f"{loss}, {len(score.tokens)} tokens" + (f", {score.unknown} unknown" if score.unknown else ""))
    losses = [(loss, token) for token, loss in zip(score.tokens, score.losses, strict=True) if loss is not None]
    worst = sorted(losses, key=lambda pair: -pair[0])[:5]
    surprises = ", ".join(f"{_short(token.strip() or repr(token), 30)} {loss:.1f}" for loss, token in worst)
    console.print(f"most surprising, in nats: {surprises}", markup=False)


def show_samples(scores: dict[str, Score], console: Console) -> None:
    """Print one row for each sample text."""
    table = Table("sample", "loss, nats", "perplexity", "bits/byte", "tokens", "unknown")
    for name, s in scores.items():
        figures = f"{s.loss:.4f}", f"{s.perplexity:.2f}", f"{s.bits_per_byte:.3f}", f"{len(s.tokens)}", f"{s.unknown}"
        table.add_row(name, *figures)
    console.print(table)


def show_labels(found: list[Classified], console: Console) -> None:
    """Print the label of each text and the probability of every class."""
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
            guess = f"no word of '{_short(f.text, 40)}' was seen in training: its label is a guess"
            console.print(guess, markup=False, soft_wrap=True)
        if f.cut:
            console.print(f"cut to the model's block: '{f.text[:40]}…' has {f.tokens} tokens", markup=False)


def heat_words(tokens: Sequence[str], losses: Sequence[float | None]) -> list[Styled]:
    """Group tokens into words, in the colours of their losses.

    A dot separates tokens inside a word, and a word keeps the line break behind it. If no token has white space, each
    token is a word.
    """
    spaced = any(c.isspace() for token in tokens for c in token)
    words: list[Styled] = []
    for n, token in enumerate(tokens):
        new_word = n == 0 or token[:1].isspace() or tokens[n - 1][-1:].isspace()
        if not new_word:
            words[-1].append(("·", "dim"))
        if new_word or not spaced:
            words.append([])
        loss = losses[n]
        style = "dim" if loss is None else next((style for limit, style in HEAT if loss < limit), HEAT[-1][1])
        words[-1].append((token.replace("\n", "⏎"), style))
        if token.endswith("\n"):
            words[-1].append(("\n", ""))
    return words


def in_lines(words: Iterable[Styled], width: int) -> Iterator[Styled]:
    """Wrap words into lines of the terminal. Only a word longer than a line is broken."""
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
