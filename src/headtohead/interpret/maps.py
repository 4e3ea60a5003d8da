"""Attention maps: the weights of every head of a model on one text, with tokens, prediction and checks.

Shapes: L layers, H heads, T tokens; weights (L, H, T, T) with a row for each query and a column for each key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.data.tokenizers import PAD
from headtohead.errors import InputError
from headtohead.interpret.checks import Check, sanity
from headtohead.model.hooks import WEIGHTS, capture, sdpa_weights
from headtohead.run.load import Trained, load_trained
from headtohead.run.named import named
from headtohead.run.store import Record

if TYPE_CHECKING:
    import pandas as pd

PADDING = 3  # padding tokens behind a text, to show that they get no weight
SHOWN = 5  # next tokens or classes with their probabilities
LONGEST_COMPARED = 512  # tokens; up to here the weights of the fast path are computed and compared


@dataclass(frozen=True)
class Maps:
    """The attention weights of every head of a model on one text."""

    weights: np.ndarray  # (L, H, T, T)
    tokens: tuple[str, ...]  # (T,) including padding
    real: int  # number of tokens without padding
    cut: int  # tokens of the text beyond the block, which are not read
    unknown: int  # tokens of the text that are not in the vocabulary
    name: str  # of the model
    step: int | None  # number of updates; None: not known
    task: str  # lm, classifier, encoder or masked
    answers: tuple[
        tuple[str, float], ...
    ]  # most likely next tokens or classes, with probabilities; empty for an encoder
    checks: tuple[Check, ...]
    layers: tuple[int, ...]  # numbers of the layers in `weights`
    heads: tuple[int, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not any(check.broken for check in self.checks)

    def only(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> Maps:
        """Return the maps of these layers and heads. An empty list means all."""
        rows = _chosen("layer", layers, self.layers)
        columns = _chosen("head", heads, self.heads)
        if not layers and not heads:
            return self  # no copy, because maps can be large
        return dataclasses.replace(
            self,
            weights=self.weights[rows][:, columns],
            layers=tuple(self.layers[n] for n in rows),
            heads=tuple(self.heads[n] for n in columns),
        )

    def head(self, layer: int, head: int) -> np.ndarray:
        """Return the weights (T, T) of one head."""
        return self.only([layer], [head]).weights[0, 0]

    def frame(self) -> pd.DataFrame:
        """Return a data frame with one row for each layer, head, query and key, without padding."""
        import pandas as pd

        n = self.real
        index = [np.array(self.layers), np.array(self.heads), np.arange(n), np.arange(n)]
        grid = np.meshgrid(*index, indexing="ij")
        named = dict(zip(("layer", "head", "query", "key"), (g.ravel() for g in grid), strict=True))
        tokens = np.array(self.tokens, dtype=object)
        frame = pd.DataFrame(named | {"weight": self.weights[:, :, :n, :n].ravel()})
        frame.insert(3, "query_token", tokens[frame["query"]])
        frame.insert(5, "key_token", tokens[frame["key"]])
        return frame

    def answer(self) -> str:
        """Describe the prediction."""
        if not self.answers:
            return "an encoder: it predicts nothing"
        first, p = self.answers[0]
        return f"next token {first!r}, p {p:.2f}" if self.task == "lm" else f"{first}, p {p:.2f}"

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["weights"] = [[m.tolist() for m in layer] for layer in self.weights]
        values["answers"] = [{"says": name, "p": p} for name, p in self.answers]
        values["checks"] = [check._asdict() for check in self.checks]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def widget(self) -> Any:
        """Return an interactive view for notebooks; its `layer`, `head` and `query` are what is chosen in it.

        It needs anywidget: pip install 'headtohead[notebook]'.
        """
        from headtohead.interpret.widget import widget

        return widget(self)

    def _repr_png_(self) -> bytes:
        from headtohead.interpret.draw import grid, image

        return image(grid(self), "png")


def _chosen(what: str, wanted: Sequence[int], known: Sequence[int]) -> list[int]:
    """Return the indices of the wanted layers or heads."""
    for number in wanted:
        if number not in known:
            span = f"{known[0]} to {known[-1]}" if len(known) > 1 else f"only {known[0]}"
            raise InputError(f"there is no {what} {number}: this model has {what}s {span}, counted from 0")
    return [known.index(number) for number in wanted] if wanted else list(range(len(known)))


# -- the maps of a run -------------------------------------------------------------------------------------------------


@torch.inference_mode()
def attention(run: Trained | Record | str, text: str, *, step: int | None = None, padding: int = PADDING) -> Maps:
    """Return the attention maps of a model on a text. `run` is a run, a record, or the name of a run or checkpoint.

    The text is cut at the block. If there is room, up to `padding` padding tokens follow it.
    """
    if padding < 0:
        raise InputError(f"padding is a number of tokens, 0 or more, not {padding}")
    trained = _loaded(run, step)
    model, vocabulary, block = trained.model, trained.vocabulary, trained.spec.arm.model.block
    ids = vocabulary.encode([text])[0].astype(np.int64)
    if not len(ids):
        raise InputError("the text has no token: give words")
    seen, count = torch.from_numpy(ids[:block]), vocabulary.count(text)
    padded, keep = pad(seen, min(padding, block - len(seen)), vocabulary.pad)
    weights, logits = read(model, padded, keep)
    allowed = reach(trained, len(padded), keep)
    some = allowed.any(dim=-1, keepdim=True)  # a query that may attend to no key has weight zero everywhere
    weights *= some
    names = vocabulary.names()
    checks = sanity(
        weights.numpy(),
        allowed.numpy(),
        keep.numpy(),
        block=block,
        pattern=str(trained.spec.arm.model.pattern),
        given=count,
        used=used(model, padded, keep) * some if len(padded) <= LONGEST_COMPARED else None,
        logits=(logits, plain_logits(model, seen)),
    )
    L, H = weights.shape[:2]
    return Maps(
        weights=weights.numpy(),
        tokens=tuple(names[i] for i in padded),
        real=len(seen),
        cut=count - len(seen),
        unknown=int((seen == vocabulary.unknown).sum()),
        name=trained.title,
        step=trained.step,
        task=trained.task,
        answers=() if trained.task in ("encoder", "masked") else likeliest(logits, list(trained.labels) or names),
        checks=checks,
        layers=tuple(range(L)),
        heads=tuple(range(H)),
    )


def _loaded(run: Trained | Record | str, step: int | None) -> Trained:
    if isinstance(run, str):
        return named(run, step)
    if isinstance(run, Trained) and step is not None and run.checkpoint:
        raise InputError(f"{run.checkpoint} is a checkpoint: it has no steps to choose from")
    if isinstance(run, Trained) and step is None:
        return run
    return load_trained(run.record if isinstance(run, Trained) else run, step)


def pad(ids: Tensor, count: int, by: int = PAD) -> tuple[Tensor, Tensor]:
    """Return ids (T,) with padding behind them, and a mask (T,) that is true at real tokens."""
    padded = torch.cat([ids, ids.new_full((count,), by)])
    return padded, torch.arange(len(padded)) < len(ids)


def read(model: nn.Module, ids: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights (L, H, T, T) of the explicit path, and the logits at the end of the text."""
    with capture(model, WEIGHTS) as seen:
        logits = _last(model(ids[None], keep[None]), int(keep.sum()))
    return torch.stack([calls[0][0] for calls in seen.values()]), logits


def used(model: nn.Module, ids: Tensor, keep: Tensor) -> Tensor:
    """Return the weights (L, H, T, T) of the fast path, which computes losses."""
    with sdpa_weights(model) as seen:
        model(ids[None], keep[None])
    return torch.stack([calls[0][0] for calls in seen.values()])


def plain_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits at the end of the text, without padding and on the fast path, as a loss uses them."""
    return _last(model(ids[None]), len(ids))


def _last(out: Tensor, length: int) -> Tensor:
    """Return the logits of the classes, or those at the last token."""
    return out[0] if out.ndim == 2 else out[0, length - 1]


def reach(trained: Trained, length: int, keep: Tensor) -> Tensor:
    """Return what the pattern allows (T, T), computed from the spec and not read from the model."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return trained.spec.arm.model.pattern.allowed(i, j) & keep[None, :]


def likeliest(logits: Tensor, names: Sequence[str], count: int = SHOWN) -> tuple[tuple[str, float], ...]:
    """Return the most likely names with their probabilities."""
    p, which = logits.double().softmax(dim=-1).topk(min(count, len(logits)))
    return tuple((names[n], float(x)) for n, x in zip(which.tolist(), p.tolist(), strict=True))
