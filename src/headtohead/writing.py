"""Generated text on a screen: as it comes, several samples, or token by token with probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from headtohead.generate import Generated, generate, prompt_ids, stream
from headtohead.predict import heat_words, in_lines
from headtohead.trained import Trained

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["generate", "show", "write_along"]


def write_along(trained: Trained, prompt: str, to: TextIO, **asked: Any) -> None:
    """One sample, written while it is made. What is not yet a whole character waits for the next token."""
    decode = trained.vocabulary.decode
    ids = prompt_ids(trained, prompt).tolist() if prompt else []
    start, said = 0, len(ids)  # ids[start:said] are on the screen, and are all of it that what follows depends on
    for n, token in enumerate(stream(trained, prompt, **asked)):
        if n == 0:  # not before it is known that there is something to add
            to.write(prompt)
        ids.append(token.ids[0])
        before, now = decode(ids[start:said]), decode(ids[start:])
        if not now.endswith("\ufffd"):
            to.write(now[len(before) :])
            to.flush()
            start, said = said, len(ids)
    to.write(decode(ids[start:])[len(decode(ids[start:said])) :] + "\n")


def show(made: list[Generated], console: Console, probabilities: bool) -> None:
    from rich.text import Text

    for n, one in enumerate(made):
        if len(made) > 1:
            console.rule(f"sample {n}", align="left", style="dim")
        if not probabilities:
            console.print(Text.assemble((one.prompt, "dim"), one.text), soft_wrap=True)
            continue
        console.print(Text(one.prompt, style="dim"), soft_wrap=True)
        losses = [_nats(p) for p in one.probabilities]
        for line in in_lines(heat_words(one.tokens, losses), console.width):
            console.print(Text.assemble(*line), soft_wrap=True)
        for token, p in zip(one.tokens, one.probabilities, strict=True):
            console.print(Text.assemble((f"{p:8.4f}  ", ""), (repr(token), "bold")), soft_wrap=True)


def _nats(p: float) -> float:
    import math

    return -math.log(max(p, 1e-30))
