"""Attention maps of a model on a text: the weights that were used, with what they are weights of.

Shapes: L layers, H heads, T tokens; weights (L, H, T, T), a row for each query and a column for each key.
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
from headtohead.imported import named
from headtohead.inspect.checks import Check, sanity
from headtohead.store import Record
from headtohead.taps import WEIGHTS, capture, sdpa_weights
from headtohead.trained import Trained, load_trained

if TYPE_CHECKING:
    import pandas as pd

PADDING = 3  # tokens of it that are put behind a text, to show that nobody looks at them
SHOWN = 5  # next tokens or classes that are named
WHOLE = 512  # tokens up to which the fast path's own weights are computed too


@dataclass(frozen=True)
class Maps:
    """What every head of a model looks at in one text."""

    weights: np.ndarray  # (L, H, T, T)
    tokens: tuple[str, ...]  # (T,) padding included
    real: int  # how many of them are the text's
    cut: int  # tokens of the text that the block has no room for
    unknown: int  # tokens of the text that the vocabulary does not know
    name: str  # of the model
    step: int | None  # after so many updates; none: not known
    task: str  # lm, classifier or encoder
    answers: tuple[tuple[str, float], ...]  # likeliest next tokens or classes, with probabilities; of an encoder none
    checks: tuple[Check, ...]
    layers: tuple[int, ...]  # the numbers of those in `weights`
    heads: tuple[int, ...]

    @property
    def ok(self) -> bool:
        return not any(check.broken for check in self.checks)

    def only(self, layers: Sequence[int] = (), heads: Sequence[int] = ()) -> Maps:
        """These layers and heads alone, none meaning all."""
        rows = _chosen("layer", layers, self.layers)
        columns = _chosen("head", heads, self.heads)
        if not layers and not heads:
            return self  # not a copy: they may be large
        return dataclasses.replace(
            self,
            weights=self.weights[rows][:, columns],
            layers=tuple(self.layers[n] for n in rows),
            heads=tuple(self.heads[n] for n in columns),
        )

    def head(self, layer: int, head: int) -> np.ndarray:
        """(T, T) of one head."""
        return self.only([layer], [head]).weights[0, 0]

    def frame(self) -> pd.DataFrame:
        """A row for each layer, head, query and key of the text, padding left out."""
        import pandas as pd

        n = self.real
        index = [np.array(self.layers), np.array(self.heads), np.arange(n), np.arange(n)]
        grid = np.meshgrid(*index, indexing="ij")
        named = dict(zip(("layer", "head", "query", "key"), (g.ravel() for g in grid), strict=True))
        words = np.array(self.tokens, dtype=object)
        made = pd.DataFrame(named | {"weight": self.weights[:, :, :n, :n].ravel()})
        made.insert(3, "query_token", words[made["query"]])
        made.insert(5, "key_token", words[made["key"]])
        return made

    def answer(self) -> str:
        """The prediction in words."""
        if not self.answers:
            return "an encoder: it predicts nothing"
        first, p = self.answers[0]
        return f"next token {first!r}, p {p:.2f}" if self.task == "lm" else f"{first}, p {p:.2f}"

    def to_json(self) -> dict[str, Any]:
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        said["weights"] = [[m.tolist() for m in layer] for layer in self.weights]
        said["answers"] = [{"says": name, "p": p} for name, p in self.answers]
        said["checks"] = [check._asdict() for check in self.checks]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()}

    def _repr_png_(self) -> bytes:
        from headtohead.inspect.draw import grid, image

        return image(grid(self), "png")


def _chosen(what: str, asked: Sequence[int], there: Sequence[int]) -> list[int]:
    for number in asked:
        if number not in there:
            span = f"{there[0]} to {there[-1]}" if len(there) > 1 else f"only {there[0]}"
            raise InputError(f"there is no {what} {number}: this model has {what}s {span}, counted from 0")
    return [there.index(number) for number in asked] if asked else list(range(len(there)))


# -- of a run ----------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def attention(run: Trained | Record | str, text: str, *, step: int | None = None, padding: int = PADDING) -> Maps:
    """The maps of a run's model on a text, with `padding` tokens of padding behind it, as far as the block has room.
    What the block has no room for is cut off at the end. A run is a loaded one, a record of the store, or the name of a
    run or of a checkpoint."""
    if padding < 0:
        raise InputError(f"padding is a number of tokens from 0 on, not {padding}")
    trained = _loaded(run, step)
    model, vocabulary, block = trained.model, trained.vocabulary, trained.spec.arm.model.block
    ids = vocabulary.encode([text])[0].astype(np.int64)
    if not len(ids):
        raise InputError("the text has no token: give words")
    seen, count = torch.from_numpy(ids[:block]), vocabulary.count(text)
    padded, keep = pad(seen, min(padding, block - len(seen)), vocabulary.pad)
    weights, logits = read(model, padded, keep)
    allowed = reach(trained, len(padded), keep)
    some = allowed.any(dim=-1, keepdim=True)  # a row that may look nowhere adds nothing
    weights *= some
    names = vocabulary.names()
    checks = sanity(
        weights.numpy(),
        allowed.numpy(),
        keep.numpy(),
        block=block,
        pattern=str(trained.spec.arm.model.pattern),
        given=count,
        used=used(model, padded, keep) * some if len(padded) <= WHOLE else None,
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
        answers=() if trained.task == "encoder" else likeliest(logits, list(trained.labels) or names),
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
    """(T,) ids with padding behind them, and (T,) true at the real ones."""
    padded = torch.cat([ids, ids.new_full((count,), by)])
    return padded, torch.arange(len(padded)) < len(ids)


def read(model: nn.Module, ids: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The weights (L, H, T, T) as they are computed, and the logits at the end of the text."""
    with capture(model, WEIGHTS) as seen:
        logits = _last(model(ids[None], keep[None]), int(keep.sum()))
    return torch.stack([calls[0][0] for calls in seen.values()]), logits


def used(model: nn.Module, ids: Tensor, keep: Tensor) -> Tensor:
    """The weights (L, H, T, T) of the fast path, the one that losses are computed by."""
    with sdpa_weights(model) as seen:
        model(ids[None], keep[None])
    return torch.stack([calls[0][0] for calls in seen.values()])


def plain_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """At the end of the text, without padding and on the fast path: what a loss is made of."""
    return _last(model(ids[None]), len(ids))


def _last(out: Tensor, length: int) -> Tensor:
    """Of a classifier the classes, of others what stands at the last token."""
    return out[0] if out.ndim == 2 else out[0, length - 1]


def reach(trained: Trained, length: int, keep: Tensor) -> Tensor:
    """(T, T): what the pattern allows, written down once more and not read from the model."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return trained.spec.arm.model.pattern.allowed(i, j) & keep[None, :]


def likeliest(logits: Tensor, names: Sequence[str], count: int = SHOWN) -> tuple[tuple[str, float], ...]:
    p, which = logits.double().softmax(dim=-1).topk(min(count, len(logits)))
    return tuple((names[n], float(x)) for n, x in zip(which.tolist(), p.tolist(), strict=True))
