"""Generated text on a screen: as it comes, several samples, or token by token with probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from headtohead.display.scores import heat_words, in_lines
from headtohead.interpret.generate import Generated, Token, generate, prompt_ids, stream
from headtohead.run.load import Trained

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["generate", "show", "write_along"]


def write_along(trained: Trained, prompt: str, to: TextIO, **asked: Any) -> None:
    """Write a sample while it is generated."""
    for n, (text, _) in enumerate(pieces(trained, prompt, **asked)):
        to.write(text if n else prompt + text)  # the prompt only once there is something to add
        to.flush()
        if getattr(to, "reader_closed", False):  # the reader closed the pipe
            return
    to.write("\n")


def pieces(trained: Trained, prompt: str, **asked: Any) -> Iterator[tuple[str, list[Token]]]:
    """Yield a sample while it is generated: text, with the tokens that it is made of. An incomplete character waits for
    the next token."""
    decode = trained.vocabulary.decode
    ids = prompt_ids(trained, prompt).tolist() if prompt else []
    start, shown = 0, len(ids)  # ids[start:shown] were yielded and decide how the next token is decoded
    waiting: list[Token] = []
    for token in stream(trained, prompt, **asked):
        ids.append(token.ids[0])
        waiting.append(token)
        before, now = decode(ids[start:shown]), decode(ids[start:])
        if not now.endswith("\ufffd"):
            yield now[len(before) :], waiting
            start, shown, waiting = shown, len(ids), []
    if waiting:
        yield decode(ids[start:])[len(decode(ids[start:shown])) :], waiting


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
